"""Runs in the stack's own interpreter, which has PySpark and perhaps nothing of tidemark: asked and answering in JSON lines.

``{"do": "place", "remote": ..., "count": n}``    runs n one-row tasks, answers ``{"places": [folder of each]}``
``{"do": "release", "remote": ..., "session_id": ..., "user_id": ...}``    ends a session and its queries

A question that fails is answered ``{"error": "..."}``. The end of the input ends the program.
"""

import json
import sys


def place(question):
    """The working folders of the Python workers that ran ``count`` one-row tasks."""
    session = SparkSession.builder.remote(question["remote"]).create()
    try:

        def where(number):
            import os
            from threading import Event

            Event().wait(0.1)  # long enough that one executor cannot take all tasks
            return os.getcwd()

        rows = session.range(0, question["count"], 1, question["count"])
        rows = rows.select(udf(where, StringType(), useArrow=False)("id").alias("place"))
        return {"places": [row.place for row in rows.collect()]}
    finally:
        session.stop()


def release(question):
    """Release a session of which only the ids are known; its streaming queries are stopped by that."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.proto import ReleaseSessionRequest, UserContext
    from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

    request = ReleaseSessionRequest(
        session_id=question["session_id"],
        user_context=UserContext(user_id=question["user_id"]),
        client_type="tidemark",
    )
    with DefaultChannelBuilder(question["remote"]).toChannel() as channel:
        SparkConnectServiceStub(channel).ReleaseSession(request, timeout=30)
    return {}


def main():
    """Answer one question a line."""
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"place": place, "release": release}[question["do"]](question)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.functions import udf
    from pyspark.sql.types import StringType

    main()
