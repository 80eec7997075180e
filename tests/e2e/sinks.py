"""A query from one topic to another, on a stack's driver, with the exactly-once sink or with Spark's own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from tidemark import kafka
from tidemark.sink.start import write_exactly_once
from tidemark.stack import Stack
from tidemark.wait import wait_until


class Copy:
    """Input topic -> query -> output topic; each ``run`` takes what is there, in batches, and ends."""

    def __init__(self, stack: Stack, session: SparkSession) -> None:
        name = uuid.uuid4().hex[:8]
        self.bootstrap = stack.bootstrap_servers
        self.inside = stack.bootstrap_inside
        self.session = session
        self.input, self.output = f"copy-in-{name}", f"copy-out-{name}"
        self.checkpoint = stack.work_dir(f"copy-{name}")
        self.fed = 0
        self.extra: dict[str, str | None] = {}
        kafka.create_topics(self.bootstrap, {self.input: 2, self.output: 2})

    def feed(self, count: int, values: Sequence[bytes] | None = None) -> None:
        """Append records ``0``, ``1``, …, or these values."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for number in range(self.fed, self.fed + count):
            producer.produce(self.input, values[number - self.fed] if values else str(number), str(number))
        producer.flush()
        self.fed += count

    def source(self, per_batch: int = 100) -> DataFrame:
        """Records with text as key and value."""
        read = (
            self.session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.inside)
            .option("subscribe", self.input)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", per_batch)
            .load()
        )
        return read.select(col("key").cast("string"), col("value").cast("string"))

    def options(self, **more: str) -> dict[str, str]:
        """What either sink is told."""
        basics = {"kafka.bootstrap.servers": self.inside, "topic": self.output}
        every = {**basics, "checkpointLocation": str(self.checkpoint), **self.extra, **more}
        return {name: text for name, text in every.items() if text is not None}

    def start(self, records: DataFrame | None = None, **how: Any) -> Any:
        """Start the query with the exactly-once sink. ``options`` are added to those of all."""
        options = self.options(**how.pop("options", {}))
        how = {"partitions": 2, "key": "key", **how}
        writer = write_exactly_once(self.source() if records is None else records, options, **how)
        return writer.trigger(availableNow=True).start()

    def run(self, records: DataFrame | None = None, **how: Any) -> Any:
        """Start, and wait for the end; returns the query. Raises what it ended with."""
        query = self.start(records, **how)
        assert query.awaitTermination(120)
        return query

    def run_with_spark(self) -> None:
        """The same with Spark's own Kafka sink."""
        query = self.source().repartition(2, "key").writeStream.format("kafka").options(**self.options())
        assert query.trigger(availableNow=True).start().awaitTermination(120)

    def values(self) -> list[str]:
        """What a reader at read_committed sees, sorted."""
        rows = kafka.drain(self.bootstrap, self.output, settle_s=0.2)
        return sorted((row.value or "" for row in rows), key=lambda text: (len(text), text))

    def wanted(self) -> list[str]:
        """What ought to be there."""
        return [str(number) for number in range(self.fed)]

    def newest(self, log: str) -> Path:
        """The newest file of the checkpoint's ``offsets`` or ``commits``."""
        return max((self.checkpoint / log).glob("[0-9]*"), key=lambda path: int(path.name))

    def forget(self, log: str) -> int:
        """Remove the newest entry of a log, as if it had never been written; returns its batch."""
        path = self.newest(log)
        path.unlink()
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        return int(path.name)


def await_output(copy: Copy, rows: int) -> None:
    """Wait until so many rows have reached the output topic, be they committed or not."""

    def there() -> bool:
        return sum(kafka.end_offsets(copy.bootstrap, [copy.output])[copy.output].values()) >= rows

    wait_until(there, 60, lambda: f"{rows} rows in {copy.output}")


def batches(query: Any) -> list[int]:
    """The ids of the batches that a query reported."""
    return sorted({json.loads(report.json)["batchId"] for report in query.recentProgress})
