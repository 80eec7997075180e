"""The exactly-once sink as a data source of Spark: format ``kafka_exactly_once``.

What is here is pickled by value, and so is everything that it uses of ``tidemark``: neither the driver's nor the
executors' Python has it installed. They need confluent-kafka and pyarrow. For the same reason nothing here may be
imported inside of a function. Use :func:`tidemark.sink.start.write_exactly_once`, which shuffles the rows to the
partitions that this sink relies on; the format by itself cannot.

Per batch Spark makes a writer in the driver's Python (:meth:`KafkaExactlyOnce.streamWriter`), sends it to the tasks,
and makes another to tell it that all tasks are done. The first sees the checkpoint, the second has nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from tidemark.errors import SinkRefused
from tidemark.sink.fit import Task
from tidemark.sink.inflight import InFlight, must_be_fresh, newest
from tidemark.sink.options import SinkOptions, read_options
from tidemark.sink.records import check_columns
from tidemark.sink.transaction import Written, write_task

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "kafka_exactly_once"


@dataclass
class Done(WriterCommitMessage):
    """What a task tells the driver."""

    written: Written


class KafkaExactlyOnce(DataSource):
    """Rows to Kafka, each exactly once."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """Never read from; Spark asks all the same."""
        return "key BINARY, value BINARY"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """A writer; raises ``SinkRefused`` for options and columns that will not do."""
        options = read_options(self.options)
        check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, options.topic)
        if overwrite:
            raise SinkRefused("a Kafka topic cannot be overwritten", hint="use output mode append, or update")
        return Writer(options)


class Writer(DataSourceStreamArrowWriter):
    """Writes the partitions of one batch. Made in the driver's Python, which looks at the checkpoint; used in tasks."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._in_flight: InFlight | None = None

    def __getstate__(self) -> dict[str, Any]:
        """On its way to the tasks: now, and only now, the checkpoint's newest batch is the one to be written."""
        in_flight = newest(self._options.checkpoint)
        if in_flight is not None:
            must_be_fresh(in_flight, self._options.expiry_guard_s)
        return {"_options": self._options, "_in_flight": in_flight}

    def write(self, iterator: Iterator[Any]) -> Done:
        """One partition of one batch; raises what ``write_task`` raises."""
        return Done(write_task(iterator, self._task(), self._options))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: each task has committed its own."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing can be undone, and nothing need be: what is written is found when the batch is run again."""

    def _task(self) -> Task:
        context = TaskContext.get()
        if context is None:
            raise SinkRefused(
                "the exactly-once sink runs outside of a task", hint="use it in a streaming query"
            )
        told = {
            name: context.getLocalProperty(name)
            for name in (
                "sql.streaming.queryId",
                "streaming.sql.batchId",
                "spark.jobGroup.id",
                "__is_continuous_processing",
            )
        }
        query, batch, run, continuous = told.values()
        if query is None or batch is None or continuous == "true":
            raise SinkRefused(
                f"the query runs without micro-batches: {told}",
                detail="the ledger is kept by batch, and there are none to keep it by",
                hint="use a processing-time trigger or availableNow",
            )
        task = Task(
            query=query,
            run=run or "",
            batch=int(batch),
            partition=context.partitionId(),
            attempt=context.attemptNumber(),
            partitions=self._options.partitions,
            offsets=self._offsets_of(int(batch)),
        )
        if task.partition >= task.partitions:
            raise SinkRefused(
                f"there is a partition {task.partition}, but the sink was told of {task.partitions}",
                detail="which row is in which partition decides what is written again after a failure",
                hint="start the query with tidemark.sink.write_exactly_once, and change no data frame after it",
            )
        return task

    def _offsets_of(self, batch: int) -> str:
        seen = self._in_flight
        return seen.offsets if seen is not None and seen.batch == batch else ""
