"""A query from one topic to another, with the exactly-once sink or with Spark's; and how to stop it in its midst."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import uuid
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, rpad, udf

from tests.e2e.tasks import entries, is_open
from tests.support.environment import classic_environment
from tidemark.kafka import client as kafka
from tidemark.sink import write_exactly_once
from tidemark.stack import ComponentState, Driver, Stack
from tidemark.waiting import wait_until

WIDTH = 2000
"""Characters of a padded row: what is below 64 KiB waits in a buffer between two processes of Spark."""
SMALL_BATCHES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
    "spark.sql.execution.python.udf.maxRecordsPerBatch": "20",
}
"""So that a task hands rows on before it has seen all of them."""
PROGRAM_S = 300.0
"""Calibration: a session, a query of two batches and its end take 20 s, and ten times that on an overloaded machine."""
REACHED_S = 90.0
"""Calibration: the first batch of a query writes 3-8 s after its start."""


@contextmanager
def driver_of_ones_own(stack: Stack, **conf: str) -> Iterator[Driver]:
    """A driver that may be killed, for the length of the block."""
    driver = stack.start_driver(f"sink-{uuid.uuid4().hex[:6]}", conf)
    try:
        yield driver
    finally:
        stack.stop(driver.name)


@contextmanager
def connected(stack: Stack, driver: Driver) -> Iterator[SparkSession]:
    """A session whose queries share the driver's Python processes, for the length of the block."""
    session = SparkSession.builder.remote(driver.remote).create()
    session.conf.set("spark.sql.artifact.isolation.enabled", "false")
    try:
        yield session
    finally:
        states = {part.name: part.state for part in stack.status()}
        alive = states.get(driver.name) is ComponentState.RUNNING
        session.release_session_on_close = alive  # a driver that was killed would be asked for minutes
        session.stop()


class Trap:
    """A key expression that stops the task which is about to write a chosen row: holds it, kills its Python, or fails.

    A key is computed twice for a row: before the shuffle, to find its partition, and after it, where it is written.
    The trap closes the second time: rows before it are in Kafka by then, in a transaction that stays open.
    """

    def __init__(self, folder: Path, **rows: Sequence[int]) -> None:
        """``hold``, ``kill`` and ``fail`` are numbers of rows."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for row in rows.get("hold", ()):
            os.mkfifo(folder / f"hold-{row}")
        for what in ("kill", "fail"):
            for row in rows.get(what, ()):
                (folder / f"{what}-{row}").touch()

    def key(self, column: str = "key") -> Column:
        """The expression. Where no trap is, or is no more, it is the padded column."""
        folder, width = str(self.folder), WIDTH

        def trapped(key: str) -> str:
            traps = {what: f"{folder}/{what}-{key}" for what in ("hold", "kill", "fail")}
            if any(map(os.path.exists, traps.values())) and is_written(key):
                if os.path.exists(traps["kill"]):
                    os.kill(0, 9)  # Spark's Python daemon leads the group
                if os.path.exists(traps["fail"]):
                    raise RuntimeError(f"row {key} fails")
                with suppress(FileNotFoundError), open(traps["hold"]) as file:
                    file.read()  # until the other end is closed
            return key.ljust(width)

        def is_written(key: str) -> bool:
            """Whether the row has been through the shuffle: the first stage that sees it leaves its number."""
            stage = str(TaskContext.get().stageId())
            try:
                with open(f"{folder}/shuffled-{key}", "x") as file:
                    file.write(stage)
            except FileExistsError:
                with open(f"{folder}/shuffled-{key}") as file:
                    written = file.read() != stage
                if written:
                    with open(f"{folder}/reached-{key}", "a") as file:
                        file.write(f"{os.getcwd()}\n")
                return written
            return False

        return udf(trapped, "string", useArrow=True)(column)

    def times(self, row: int) -> int:
        """How often a task was about to write the row."""
        path = self.folder / f"reached-{row}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def await_task(self, row: int) -> str:
        """Wait until a task is about to write the row; returns the id of its executor."""
        wait_until(lambda: self.times(row), REACHED_S, lambda: f"a task to reach row {row}")
        return Path((self.folder / f"reached-{row}").read_text().splitlines()[-1]).name

    def let_go(self, row: int) -> None:
        """Open the trap for good: for who is in it, and for who comes."""
        path = self.folder / f"hold-{row}"
        opened = os.open(path, os.O_RDWR)
        path.unlink()
        os.close(opened)

    def repair(self, row: int) -> None:
        """Let no task die of the row, or fail with it, any more."""
        for what in ("kill", "fail"):
            (self.folder / f"{what}-{row}").unlink(missing_ok=True)


class Copy:
    """Input topic -> query -> output topic; each ``run`` takes what is there, in batches, and ends.

    With one partition of the input it is certain which row is in which batch, and in which order.
    """

    def __init__(self, stack: Stack, session: SparkSession, *, inputs: int = 2, outputs: int = 2) -> None:
        name = uuid.uuid4().hex[:8]
        self.bootstrap = stack.bootstrap_servers
        self.inside = stack.bootstrap_inside
        self.session = session
        self.input, self.output = f"copy-in-{name}", f"copy-out-{name}"
        self.checkpoint = stack.work_dir(f"copy-{name}")
        self.fed = 0
        self.extra: dict[str, str | None] = {}
        kafka.create_topics(self.bootstrap, {self.input: inputs, self.output: outputs})

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

    def padded(self, per_batch: int = 100) -> DataFrame:
        """The same with wide values, and a session that hands them on in small batches."""
        for name, value in SMALL_BATCHES.items():
            self.session.conf.set(name, value)
        return self.source(per_batch).withColumn("value", rpad("value", WIDTH, "."))

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

    def values(self, settle_s: float = 0.2) -> list[str]:
        """What a reader at read_committed sees once nothing more comes, sorted; less what pads it."""
        rows = kafka.drain(self.bootstrap, self.output, settle_s=settle_s)
        return in_order((row.value or "").rstrip(".") for row in rows)

    def counted(self) -> list[str]:
        """The same, looked at again a second later."""
        return self.values(kafka.SETTLE_S)

    def wanted(self) -> list[str]:
        """What ought to be there."""
        return [str(number) for number in range(self.fed)]

    def await_ledger(self, query: Any, wanted: Sequence[int]) -> None:
        """Wait until the entries of the query's partitions are these, sorted."""
        await_ledger(self.bootstrap, query.id, wanted)

    def await_open(self) -> None:
        """Wait until rows of a transaction that is open are in the output topic."""
        wait_until(self.is_open, REACHED_S, lambda: f"an open transaction in {self.output}")

    def is_open(self) -> bool:
        """Whether rows are in the output topic that a reader at read_committed does not see yet."""
        return is_open(self.bootstrap, self.output)

    def newest(self, log: str) -> Path:
        """The newest file of the checkpoint's ``offsets`` or ``commits``."""
        return max((self.checkpoint / log).glob("[0-9]*"), key=lambda path: int(path.name))

    def forget(self, log: str) -> int:
        """Remove the newest entry of a log, as if it had never been written; returns its batch."""
        path = self.newest(log)
        path.unlink()
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        return int(path.name)

    def backdate(self, batch: int, by_s: int) -> None:
        """Make a batch older than it is."""
        name = f"offsets/{batch}"
        version, about, *sources = self.read(name).split("\n")
        begun = json.loads(about)
        begun["batchTimestampMs"] -= 1000 * by_s
        self.rewrite(name, "\n".join([version, json.dumps(begun, separators=(",", ":")), *sources]))

    def read(self, name: str) -> str:
        """A file of the checkpoint."""
        return (self.checkpoint / name).read_text()

    def rewrite(self, name: str, text: str) -> None:
        """Write a file of the checkpoint."""
        path = self.checkpoint / name
        path.write_text(text)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def ledger(bootstrap: str, query: str) -> dict[int, int]:
    """Partition -> the batch after the last one of a query that the ledger says is in Kafka."""
    return {partition: entry.next_batch for partition, entry in entries(bootstrap, query).items()}


def await_ledger(bootstrap: str, query: str, wanted: Sequence[int]) -> None:
    """Wait until the entries of the query's partitions are these, sorted."""

    def there() -> bool:
        return sorted(ledger(bootstrap, query).values()) == sorted(wanted)

    wait_until(there, REACHED_S, lambda: f"entries {wanted}, not {ledger(bootstrap, query)}")


def in_order(values: Iterable[str]) -> list[str]:
    """Numbers as text, by size."""
    return sorted(values, key=lambda text: (len(text), text))


class Program:
    """The sink in a classic session, a process of its own, whose Spark uses a Python without ``tidemark``."""

    def __init__(self, python: Path, told: Mapping[str, Any]) -> None:
        environment = classic_environment()
        environment.pop("PYTHONPATH", None)
        argv = [sys.executable, Path(__file__).with_name("sink_program.py"), json.dumps(told)]
        self.process = subprocess.Popen(
            argv,
            env={**environment, "PYSPARK_PYTHON": str(python)},
            cwd=Path(told["checkpoint"]).parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.family: list[psutil.Process] = []

    def look(self) -> list[list[str]]:
        """Spark's Python processes, as command lines."""
        self.family = psutil.Process(self.process.pid).children(recursive=True)
        lines = []
        for process in self.family:
            with suppress(psutil.NoSuchProcess):  # or a zombie, which is one of those
                lines.append(process.cmdline())
        return [line for line in lines if any(word.startswith("pyspark.") for word in line)]

    def kill(self) -> None:
        """SIGKILL, for it, its JVM and their Python processes."""
        self.look()
        for process in (self.process, *self.family):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.communicate()

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; returns the exit code and what was said."""
        try:
            out, error = self.process.communicate(timeout=PROGRAM_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.process.returncode, out, error


def await_batch(query: Any, batch: int) -> None:
    """Wait until a query has ended a batch, or has ended itself."""
    while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < batch):
        query.awaitTermination(1)


def end(query: Any, session: SparkSession) -> None:
    """Stop a query and its session; raises what the query failed with."""
    failure = query.exception()
    if failure is not None:
        raise failure
    query.stop()
    session.stop()


def bare_python(folder: Path) -> Path:
    """An interpreter with what this one has, less the projects that are being worked on (by path files)."""
    venv.create(folder, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "more.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return folder / "bin" / "python"
