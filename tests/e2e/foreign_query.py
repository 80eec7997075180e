"""Runs ``foreign_join.py`` on a stack's broker, feeds it, and kills it: a query that tidemark did not start."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

import tidemark
from tests.support.delta import delta_jars
from tests.support.environment import classic_environment
from tidemark.auditor import AuditResult
from tidemark.errors import UsageError
from tidemark.formats.events import write_time
from tidemark.kafka import client as kafka
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.sparkfiles.progress_reports import read_reports
from tidemark.sparkfiles.query_log import read_query_log
from tidemark.stack.install import jars
from tidemark.stack.install.toolchain import find_java, find_spark
from tidemark.waiting import wait_until

PROGRAM = Path(__file__).with_name("foreign_join.py")
START_S = 600.0
"""Calibration: a classic session and its first batch take 10 s, and twenty times that on an overloaded machine."""
CONTRACT = {
    "name": "orders_paid",
    "kind": "left_outer",
    "left": {
        "topic": "orders", "id": "order_id", "keys": ["customer"], "time": "ordered_at", "watermark_delay_ms": 10000,
    },
    "right": {
        "topic": "payments", "id": "payment_id", "keys": ["customer"], "time": "paid_at", "watermark_delay_ms": 20000,
    },
    "bound": {"lower_ms": -20000, "upper_ms": 0},
    "output": {"left_id": "order_id", "left_ref": None, "right_id": "payment_id", "right_ref": None},
    "policy": "min",
}  # fmt: skip


READERS = '''"""Reads orders whose value is number and time, and whose key is the customer."""


def decode_order(record):
    name, time = record.value.decode().split("|")
    return {"order_id": name, "customer": record.key.decode(), "ordered_at": time}
'''
TEXT = {**CONTRACT, "left": {**CONTRACT["left"], "decode": "decode_order", "encode": "not_needed"}}
"""The same join of orders that are no JSON."""
IN_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass(frozen=True)
class ForeignSpark:
    """A PySpark that runs the program: its interpreter, and the groups of jars that its Kafka connector is of."""

    python: Path
    groups: tuple[str, ...]

    @staticmethod
    def of(python: Path) -> ForeignSpark:
        """That of an interpreter that a stack could run with, too."""
        groups = jars.groups_of(find_spark(python).version)
        return ForeignSpark(python, tuple(group for group in groups if group not in ("broker", "files")))

    def class_path(self, java: Path) -> str:
        """The jars of the connector; they are fetched by the Ivy of this process's PySpark."""
        provided = jars.provide(java, find_spark(Path(sys.executable)), self.groups, print)
        return ":".join(str(jar) for some in provided.values() for jar in some)


class ForeignQuery:
    """One query: its topics, its checkpoint, and the events that it is fed.

    ``form`` is what it writes: ``kafka`` to a topic, ``parquet`` or ``delta`` to a folder.
    """

    texts = False

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        seed: int,
        *,
        form: str = "kafka",
        spark: ForeignSpark | None = None,
    ) -> None:
        name = uuid.uuid4().hex[:8]
        self.spark = spark or ForeignSpark.of(Path(sys.executable))
        self.bootstrap = bootstrap
        self.folder = folder
        self.orders, self.payments, self.output = (
            f"{what}-{name}" for what in ("orders", "payments", "output")
        )
        self.events = folder / "events"
        self.contract = folder / "orders_paid.json"
        self.contract.write_text(json.dumps(TEXT if self.texts else CONTRACT))
        self.readers = folder / "readers.py"
        self.readers.write_text(READERS)
        self._random = random.Random(seed)
        self.audits: dict[str, AuditResult] = {}
        self._now_s = 1_767_225_600
        self._orders = self._payments = 0
        self.form = form
        topics = {self.orders: 2, self.payments: 2}
        if form == "kafka":
            topics[self.output] = 1
        else:
            self.output = str(folder / "table")
        kafka.create_topics(bootstrap, topics)

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint as it is now."""
        return Checkpoint(self.folder / "checkpoint")

    @property
    def location(self) -> str:
        """Where the program writes it."""
        return str(self.folder / "checkpoint")

    @contextmanager
    def running(self, **conf: object) -> Iterator[psutil.Popen]:
        """The program; SIGKILL at exit. It ends by itself if this process does."""
        java, path = find_java(), self.spark.class_path(find_java())
        self.events.mkdir(exist_ok=True)
        named: dict[str, object] = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            **{name.replace("__", "."): value for name, value in conf.items()},
        }
        if self.form != "kafka":
            named["format"] = self.form
        if self.texts:
            named["orders"] = "text"
        if self.form == "delta":
            path = ":".join([path, *map(str, delta_jars())])
            named |= IN_DELTA
        pairs = [f"{name}={value}" for name, value in named.items()]
        topics = [self.orders, self.payments, self.output]
        with (self.folder / "program.log").open("ab") as log:
            program = psutil.Popen(
                [
                    str(self.spark.python),
                    str(PROGRAM),
                    self.bootstrap,
                    *topics,
                    self.location,
                    *pairs,
                ],
                env={
                    **classic_environment(self.spark.python),
                    "JAVA_HOME": str(Path(os.path.realpath(java)).parents[1]),
                    "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {path} pyspark-shell",
                },
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        try:
            yield program
        finally:
            self.kill(program)
            program.stdin.close()

    @staticmethod
    def kill(program: psutil.Popen) -> None:
        """SIGKILL to the program and to its JVM."""
        if not program.is_running():
            return
        family = [*program.children(recursive=True), program]
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass  # it ended by itself
        psutil.wait_procs(family, timeout=30)

    def run_with_a_kill(self, *, orders: int = 60, **conf: object) -> None:
        """A short life: late records, NULL rows, and a batch of so many orders whose first rows come again."""
        with self.running(slow__ms=20, **conf) as program:
            self.read_slices(program, 2)
            self.kill_in_a_batch(program, orders)
        with self.running(**conf) as program:
            self.await_all_read(program)
            self.read_slices(program, 2)

    def read_slices(self, program: psutil.Popen, slices: int) -> None:
        """Feed it slices of 20 orders, each once the one before has been read."""
        for _ in range(slices):
            self.feed(20)
            self.await_all_read(program)

    def kill_in_a_batch(self, program: psutil.Popen, orders: int = 150) -> None:
        """Feed it a slice, and kill it once a batch has written some rows, or a file, and is not committed."""
        self.feed(orders)
        self.await_half_written(program, 10 if self.form == "kafka" else 1)
        self.kill(program)

    def feed(self, orders: int, *, payments: bool = True) -> None:
        """A slice: orders over ten seconds, payments for half of them, a tenth of either late or out of order."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for _ in range(orders):
            self._orders += 1
            at_s = self._now_s + self._random.uniform(0, 10) - (60 if self._random.random() < 0.1 else 0)
            customer = f"c{self._random.randrange(orders)}-{self._now_s}"
            order = {"order_id": f"o{self._orders}", "customer": customer, "ordered_at": moment(at_s)}
            value, key = json.dumps(order), None
            if self.texts:
                value, key = f"o{self._orders}|{moment(at_s)}", customer
            producer.produce(self.orders, value.encode(), key, partition=self._orders % 2)
            if payments and self._random.random() < 0.5:
                self._payments += 1
                paid_s = at_s + self._random.uniform(0, 25)
                payment = {
                    "payment_id": f"p{self._payments}",
                    "customer": customer,
                    "paid_at": moment(paid_s),
                }
                producer.produce(self.payments, json.dumps(payment).encode(), partition=self._payments % 2)
        assert producer.flush(60) == 0
        self._now_s += 10

    def await_all_read(self, program: psutil.Popen) -> None:
        """Wait until a committed batch has read all, and no batch is due any more."""
        ends = kafka.end_offsets(self.bootstrap, [self.orders, self.payments])

        def is_done() -> bool:
            self._must_live(program)
            if not self.checkpoint.committed() or self.checkpoint.running() is not None:
                return False
            log = read_query_log(self.checkpoint.path)
            last = log.planned[-1]
            return last.has_read(ends) and log.next_watermarks_ms.get(last.batch) == last.watermark_ms

        wait_until(
            is_done, START_S, lambda: f"batches of all records; the log is {self.folder / 'program.log'}"
        )
        last = self.checkpoint.committed()[-1]
        wait_until(lambda: last in self._reported(), START_S, lambda: f"the progress report of batch {last}")

    def _reported(self) -> set[int]:
        """The batches of which there is a progress report in an event log; none while no report is written."""
        try:
            return {one.batch for one in read_reports([self.events], self.checkpoint.query_id())}
        except UsageError:
            return set()

    def await_half_written(self, program: psutil.Popen, least: int) -> None:
        """Wait until a batch that is not committed has written some rows."""
        before = self.written()
        written = lambda: self.written() >= before + least and self.checkpoint.running() is not None  # noqa: E731

        def is_half() -> bool:
            self._must_live(program)
            return written()

        wait_until(
            is_half, START_S, lambda: f"{least} rows of a batch; the log is {self.folder / 'program.log'}"
        )

    def _must_live(self, program: psutil.Popen) -> None:
        said = (self.folder / "program.log").read_text(errors="replace")
        assert program.poll() is None, f"the program ended: {said[-4000:]}"

    def written(self) -> int:
        """The records of the output, or the files in the folder of a table."""
        if self.form != "kafka":
            return len(list(Path(self.output).glob("*.parquet")))
        return sum(kafka.end_offsets(self.bootstrap, [self.output])[self.output].values())

    def repeats(self) -> int:
        """How many records of the output are there once more."""
        values = [record.value for record in kafka.read_all(self.bootstrap, self.output)]
        return len(values) - len(set(values))

    def audit(self, run_dir: Path, **options: object) -> AuditResult:
        """Audit it as it is now; the evidence is in ``run_dir``."""
        topics = {"orders": self.orders, "payments": self.payments}
        return tidemark.audit(
            self.checkpoint.path, self.contract, self.bootstrap, self.output, topics=topics, run_dir=run_dir,
            **options,
        )  # fmt: skip

    def delete_records(self, topic: str, before: dict[int, int]) -> None:
        """Delete what is before these offsets, as a broker does when its retention is over."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for future in admin.delete_records(places).values():
            future.result(30)

    def drop(self) -> None:
        """Delete its topics."""
        outputs = [self.output] if self.form == "kafka" else []
        kafka.delete_topics(self.bootstrap, [self.orders, self.payments, *outputs])


class ForeignTexts(ForeignQuery):
    """A query whose orders are no JSON, and which ``READERS`` reads."""

    texts = True


def moment(seconds: float) -> str:
    """An event time as text."""
    return write_time(round(seconds * 1000) * 1000)


def cluster_state(bootstrap: str) -> dict[str, object]:
    """What an audit must not change: consumer groups, topics, their settings and end offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    groups = sorted(group.group_id for group in admin.list_consumer_groups().result(30).valid)
    topics = kafka.partitions(bootstrap)
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    settings = {
        resource.name: {name: entry.value for name, entry in future.result(30).items()}
        for resource, future in admin.describe_configs(asked).items()
    }
    mine = [name for name in topics if not name.startswith("__")]
    return {
        "groups": groups,
        "topics": topics,
        "settings": settings,
        "ends": kafka.end_offsets(bootstrap, mine),
    }
