"""The exactly-once sink as a Python data source of Spark: format ``kafka_exactly_once``.

Use it through :func:`tidemark.sink.write_exactly_once`, which also shuffles the rows into the partitions that the sink
relies on; a data source cannot do that.

These classes are pickled by value, because ``tidemark`` is installed neither on the driver nor on the executors. Spark
pickles them several times per batch, in four kinds of processes, two of which do no work. So they are a thin shell that
pickles fast and imports nothing; the implementation is a payload of bytes inside, pickled once.
"""

from __future__ import annotations

import gc
import pickle
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "kafka_exactly_once"
USE_COUNT = "tidemark uses"
USES_TO_LOAD = 2
"""Calibration: PySpark imports pandas when it returns from the first use."""


@dataclass
class Done(WriterCommitMessage):
    """A task's commit message: its partition, the number of its rows in Kafka, and whether this attempt wrote them."""

    partition: int
    rows: int
    new: bool


class KafkaExactlyOnce(DataSource):
    """Data source that writes each row to Kafka exactly once."""

    payload = b""
    """``prepare``, ``write`` and ``end_batch`` of ``tidemark.sink.entry_points``, pickled by value and compressed."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """Required by Spark; the source is never read."""
        return "key BINARY, value BINARY"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802
        """A writer; options and columns are checked when it is pickled for the tasks."""
        columns = {field.name: field.dataType.simpleString() for field in schema.fields}
        return KafkaStreamWriter(self.payload, dict(self.options), columns)


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes the partitions of one batch. Created on the driver, which reads the checkpoint; used in tasks.

    Spark creates a second one for ``commit``, which does nothing and never unpickles the payload.
    """

    def __init__(self, payload: bytes, options: Mapping[str, str], columns: Mapping[str, str]) -> None:
        self._payload = payload
        self._options = options
        self._columns = columns
        self._in_flight: tuple[int, str, bool] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Called when Spark pickles it for the tasks: only then is the checkpoint's newest batch the one to write."""
        _freeze_loaded_modules()
        prepare, _, _ = _unpickled(self._payload)
        return {**self.__dict__, "_in_flight": prepare(self._options, self._columns)}

    def write(self, iterator: Iterator[Any]) -> Done:
        """Write one partition of one batch; raises what ``tidemark.sink.entry_points.write`` raises."""
        _freeze_loaded_modules()
        _, write, _ = _unpickled(self._payload)
        written = write(iterator, self._options, self._in_flight)
        return Done(written.partition, written.rows, written.new)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Nothing to do: each task has committed its own transaction."""
        _freeze_loaded_modules()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """End the transactions that killed tasks left open, so that readers need not wait for their timeout."""
        _, _, end_batch = _unpickled(self._payload)
        end_batch(self._options)


def _freeze_loaded_modules() -> None:
    """Freeze the loaded modules once per process, so that Spark's ``gc.collect`` after each task skips them.

    The counter lives in ``gc``, because this module is a new one each time it is unpickled.
    """
    known = vars(gc)
    known[USE_COUNT] = known.get(USE_COUNT, 0) + 1
    if known[USE_COUNT] == USES_TO_LOAD:
        gc.freeze()


def _unpickled(payload: bytes) -> Any:
    return pickle.loads(zlib.decompress(payload))
