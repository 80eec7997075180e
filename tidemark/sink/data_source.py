"""The exactly-once sink as a data source of Spark: format ``kafka_exactly_once``.

Use :func:`tidemark.sink.write_exactly_once`, which shuffles the rows to the partitions that this sink relies on;
the format by itself cannot.

What is here is pickled by value, because neither the driver's nor the executors' Python has ``tidemark`` installed.
Spark does that several times a batch, in four kinds of processes, of which two have nothing to do: so this is a shell
that pickles fast and imports nothing, and all that works is in it as bytes, pickled once.
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
USES = "tidemark uses"
LOADED = 2
"""Calibration: PySpark imports pandas on the way back from the first use."""


@dataclass
class Done(WriterCommitMessage):
    """What a task tells the driver: its partition, the rows of it that are in Kafka, and whether they are new."""

    partition: int
    rows: int
    new: bool


class KafkaExactlyOnce(DataSource):
    """Rows to Kafka, each exactly once."""

    parcel = b""
    """``prepare``, ``write`` and ``give_up`` of ``tidemark.sink.entry_points``, pickled by value and compressed."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """Never read from; Spark asks all the same."""
        return "key BINARY, value BINARY"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802
        """A writer. What is wrong with options and columns it says on its way to the tasks."""
        columns = {field.name: field.dataType.simpleString() for field in schema.fields}
        return Writer(self.parcel, dict(self.options), columns)


class Writer(DataSourceStreamArrowWriter):
    """Writes the partitions of one batch. Made in the driver's Python, which looks at the checkpoint; used in tasks.

    Spark makes another one when all tasks are done, which has nothing to do and never opens the parcel.
    """

    def __init__(self, parcel: bytes, options: Mapping[str, str], columns: Mapping[str, str]) -> None:
        self._parcel = parcel
        self._options = options
        self._columns = columns
        self._in_flight: tuple[int, str, bool] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """On its way to the tasks: now, and only now, the checkpoint's newest batch is the one to be written."""
        _settle()
        prepare, _, _ = _opened(self._parcel)
        return {**self.__dict__, "_in_flight": prepare(self._options, self._columns)}

    def write(self, iterator: Iterator[Any]) -> Done:
        """One partition of one batch; raises what ``tidemark.sink.entry_points.write`` raises."""
        _settle()
        _, write, _ = _opened(self._parcel)
        written = write(iterator, self._options, self._in_flight)
        return Done(written.partition, written.rows, written.new)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Nothing is left to do: each task has committed its own."""
        _settle()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Nothing can be undone, and nothing need be; but readers must not wait for what a killed task left open."""
        _, _, give_up = _opened(self._parcel)
        give_up(self._options)


def _settle() -> None:
    """Once in a process, when it has loaded what it needs: Spark collects garbage after each task, and need not look at
    all that was loaded. Counted in ``gc`` itself, because this module is another one each time it is unpickled.
    """
    known = vars(gc)
    known[USES] = known.get(USES, 0) + 1
    if known[USES] == LOADED:
        gc.freeze()


def _opened(parcel: bytes) -> Any:
    return pickle.loads(zlib.decompress(parcel))
