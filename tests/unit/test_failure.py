"""The reason of a failed query, extracted from Spark's error text."""

from __future__ import annotations

from pipelines.failure import reason_of

PLAN = """\
=== Streaming Query ===
Identifier: out [id = 1, runId = 2]
Current State: ACTIVE

Logical Plan:
WriteToMicroBatchDataSource
+- ~Project [key#4867]
"""
CUT = f"""\
(STREAM_FAILED) [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030
{PLAN}

JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred
{PLAN}
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.runStream(StreamExecution.scala:390)
Caused by: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotLoadStore(QueryExecutionErrors.scala:2846)
\t... 10 more
Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/checkpoint/3.delta at 0 exp: 1 got: 2
\tat org.apache.hadoop.fs.FSInputChecker.verifySums(FSInputChecker.java:347)
"""
REFUSED = f"""\
(STREAM_FAILED) [PYTHON_DATA_SOURCE_ERROR] Failed to initialize the writer: Traceback (most recent call last):
  File "serializers.py", line 441, in dumps
    return cloudpickle.dumps(obj, pickle_protocol)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "fit.py", line 45, in must_fit
    raise SinkRefused(
tidemark.errors.SinkRefused: batch 0 is older than what Kafka holds: batch 1
  why:  the checkpoint was rolled back
        or is an old copy
  hint: restore the newest one

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "utils.py", line 98, in worker_run
    main(infile, outfile)
_pickle.PicklingError: Could not serialize object
  why:  the checkpoint was rolled back
{PLAN}"""


def test_the_cause_behind_an_uninformative_error_condition_is_shown():
    first, last = reason_of(CUT).splitlines()
    assert first.startswith("(STREAM_FAILED) [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED]")
    assert last == "caused by ChecksumException: Checksum error: file:/checkpoint/3.delta at 0 exp: 1 got: 2"


def test_an_error_of_the_sink_keeps_its_reason_and_hint_without_python_frames():
    assert reason_of(REFUSED).splitlines()[1:] == [
        "tidemark.errors.SinkRefused: batch 0 is older than what Kafka holds: batch 1",
        "  why:  the checkpoint was rolled back",
        "        or is an old copy",
        "  hint: restore the newest one",
        "_pickle.PicklingError: Could not serialize object",
    ]


def test_a_text_without_plan_and_stack_trace_is_unchanged():
    assert reason_of("No space left on device") == "No space left on device"
