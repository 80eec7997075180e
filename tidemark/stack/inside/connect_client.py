"""A Spark Connect client that is asked, and answers, in JSON lines; the end of its input ends it.

Runs in the stack's own interpreter, which has PySpark and perhaps nothing of tidemark.

``{"do": "place", "remote": ..., "count": n}``    runs n one-row tasks, answers ``{"places": [folder of each]}``
``{"do": "release", "remote": ..., "session_id": ..., "user_id": ...}``    ends a session and its queries
``{"do": "examine", "remote": ..., "bootstrap": ..., "folder": ...}``    has Kafka read and a folder written; answers
``{"versions": {...}, "conf": {...}}`` of the driver

A question that fails is answered ``{"error": "..."}``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.connect.client.core import DefaultChannelBuilder
from pyspark.sql.connect.functions import udf
from pyspark.sql.connect.proto import ReleaseSessionRequest, UserContext
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import StringType

_RELEASE_S = 30


def place(question: dict[str, Any]) -> dict[str, Any]:
    """The working folders of the Python workers that ran ``count`` one-row tasks."""
    session = SparkSession.builder.remote(question["remote"]).create()
    try:

        def where(_number: int) -> str:
            import os
            from threading import Event

            Event().wait(0.1)  # long enough that one executor cannot take all tasks
            return os.getcwd()

        rows = session.range(0, question["count"], 1, question["count"])
        placed: Any = udf(where, StringType(), useArrow=False)
        rows = rows.select(placed(rows.id).alias("place"))
        return {"places": [row.place for row in rows.collect()]}
    finally:
        session.stop()


def release(question: dict[str, Any]) -> dict[str, Any]:
    """Release a session of which only the ids are known; its streaming queries are stopped by that."""
    request = ReleaseSessionRequest(
        session_id=question["session_id"],
        user_context=UserContext(user_id=question["user_id"]),
        client_type="tidemark",
    )
    stub: Any = SparkConnectServiceStub
    with DefaultChannelBuilder(question["remote"]).toChannel() as channel:
        stub(channel).ReleaseSession(request, timeout=_RELEASE_S)
    return {}


def examine(question: dict[str, Any]) -> dict[str, Any]:
    """See that a driver has the Kafka connector and reaches Kafka; have a Python worker's rows written to a folder."""
    session = SparkSession.builder.remote(question["remote"]).create()
    try:
        kafka = session.read.format("kafka").option("kafka.bootstrap.servers", question["bootstrap"])
        kafka.option("subscribePattern", "tidemark-no-such-topic").load().count()

        def version(_number: int) -> str:
            import platform

            return platform.python_version()

        asked: Any = udf(version, StringType(), useArrow=False)
        numbers = session.range(0, 1, 1, 1)
        rows = numbers.select(asked(numbers.id).alias("python"))
        python = rows.collect()[0].python
        rows.write.json(Path(question["folder"]).as_uri())
        names = ("spark.app.id", "spark.eventLog.enabled", "spark.eventLog.dir", "spark.eventLog.compress")
        conf = {name: session.conf.get(name, "") for name in names}
        return {"versions": {"spark": session.version, "python": python}, "conf": conf}
    finally:
        session.stop()


def main() -> None:
    """Answer one question a line."""
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"place": place, "release": release, "examine": examine}[question["do"]](question)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is the answer)
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
