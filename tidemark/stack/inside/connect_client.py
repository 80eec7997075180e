"""A Spark Connect client that takes requests, and answers them, as JSON lines; it ends with its standard input.

Runs in the stack's own interpreter, which has PySpark but not necessarily tidemark.

``{"do": "locate", "remote": ..., "count": n}``    runs n one-row tasks; answers
``{"folders": [working folder of each]}``
``{"do": "release", "remote": ..., "session": ..., "session_id": ..., "user_id": ...}``    ends a session and its
queries; ``session`` is the address with both ids
``{"do": "examine", "remote": ..., "kafka": {...}, "folder": ...}``    reads Kafka and writes to a folder; answers
``{"versions": {...}, "conf": {...}, "names": [...]}`` of the driver. ``kafka`` has the address (``bootstrap``), and for
a login the file with it (``file``) and its settings (``names``; ``null``: they are read there)

The answer to a request that fails is ``{"error": "..."}``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql.connect import proto
from pyspark.sql.connect.client import core
from pyspark.sql.connect.functions import udf
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import StringType

_RELEASE_S = 30
_FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


def locate(request: dict[str, Any]) -> dict[str, Any]:
    """The working folders of the Python workers that ran ``count`` one-row tasks."""
    session = SparkSession.builder.remote(request["remote"]).create()
    try:

        def working_folder(_number: int) -> str:
            import os
            from threading import Event

            Event().wait(0.1)  # long enough that one executor cannot take all tasks
            return os.getcwd()

        rows = session.range(0, request["count"], 1, request["count"])
        located: Any = udf(working_folder, StringType(), useArrow=False)
        rows = rows.select(located(rows.id).alias("folder"))
        return {"folders": [row.folder for row in rows.collect()]}
    finally:
        session.stop()


def release(request: dict[str, Any]) -> dict[str, Any]:
    """Release a session of which only the ids are known, which stops its streaming queries.

    Spark 3.5 cannot release a session: there its queries are stopped one by one.
    """
    if not hasattr(proto, "ReleaseSessionRequest"):
        return _stop_queries(request)
    message = proto.ReleaseSessionRequest(
        session_id=request["session_id"],
        user_context=proto.UserContext(user_id=request["user_id"]),
        client_type="tidemark",
    )
    stub: Any = SparkConnectServiceStub
    with core.DefaultChannelBuilder(request["remote"]).toChannel() as channel:
        stub(channel).ReleaseSession(message, timeout=_RELEASE_S)
    return {}


def _stop_queries(request: dict[str, Any]) -> dict[str, Any]:
    """Stop the streaming queries of a session, as the client that began it would."""
    session = SparkSession.builder.remote(request["session"]).create()
    try:
        for query in session.streams.active:
            query.stop()
    finally:
        session.stop()
    return {}


def examine(request: dict[str, Any]) -> dict[str, Any]:
    """Check that a driver has the Kafka connector and reaches Kafka, and writes a Python worker's rows to a folder."""
    session = SparkSession.builder.remote(request["remote"]).create()
    try:
        login, names = _login(session, request["kafka"])
        kafka = session.read.format("kafka").options(**login)
        kafka.option("subscribePattern", "tidemark-no-such-topic").load().count()

        def version(_number: int) -> str:
            import platform

            return platform.python_version()

        python_version: Any = udf(version, StringType(), useArrow=False)
        numbers = session.range(0, 1, 1, 1)
        rows = numbers.select(python_version(numbers.id).alias("python"))
        python = rows.collect()[0].python
        rows.write.json(Path(request["folder"]).as_uri())
        keys = ("spark.app.id", "spark.eventLog.enabled", "spark.eventLog.dir", "spark.eventLog.compress")
        conf = {name: session.conf.get(name, "") for name in keys}
        return {"versions": {"spark": session.version, "python": python}, "conf": conf, "names": names}
    finally:
        session.stop()


def _login(session: SparkSession, kafka: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Options of Spark's Kafka source, which refer to the settings of a file, and the names of those settings."""
    options = {"kafka.bootstrap.servers": str(kafka["bootstrap"])}
    file, names = kafka["file"], kafka["names"]
    if not file:
        return options, []
    if names is None:

        def settings(path: str) -> str:
            import re

            with open(path, encoding="utf-8") as text:
                lines = re.sub(r"\\\r?\n[ \t]*", "", text.read()).splitlines()
            found = (
                line.partition("=")[0].strip() for line in lines if line.strip()[:1] not in ("", "#", "!")
            )
            return ",".join(found)

        listed: Any = udf(settings, StringType(), useArrow=False)
        rows = session.createDataFrame([(file,)], "path STRING")
        names = rows.select(listed(rows.path).alias("names")).collect()[0].names.split(",")
    options["kafka.config.providers"] = "file"
    options["kafka.config.providers.file.class"] = _FILE_PROVIDER
    options |= {f"kafka.{name}": f"${{file:{file}:{name}}}" for name in names}
    return options, names


def main() -> None:
    """Answer one request per line."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"locate": locate, "release": release, "examine": examine}[request["do"]](request)
        except Exception as error:  # noqa: BLE001 (every failure is an answer)
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
