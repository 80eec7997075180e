"""Spark as the engine of the judgement of large runs: for a run that no single machine holds.

``spark_engine`` gives what ``tidemark.oracle.judge`` asks for. The statements are those of ``tidemark.oracle.large``,
and the relations those of ``tidemark.oracle.sql``. Here is what only Spark needs: a session (``spark_sessions``),
tables in the executors' local storage (``spark_tables``), and the stages that read JSON (``spark_reduction``), whose
functions run on executors (``executor_readers``).
"""

from tidemark.sparksql.spark_reduction import spark_engine

__all__ = ["spark_engine"]
