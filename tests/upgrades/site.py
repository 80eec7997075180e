"""Topics, events and programs of some queries that run together: fed slice by slice, stopped or killed, started again.

The left and the right topic are shared, each query has an output and a checkpoint of its own. A slice is ten seconds
of events; a tenth of them are late. The id of a row says of which slice it is: ``L2-7``. Besides random rows each slice
has a left row that matches in it and once more in the next (``m``), a left row whose only partner is in the next
(``x``), and a right row whose only partner is (``y``): the state must have kept them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

import tidemark
from tests.e2e.foreign_query import ForeignQuery, ForeignSpark, moment
from tests.support.environment import classic_environment
from tidemark.auditor import AuditResult
from tidemark.errors import TestbedError
from tidemark.formats.evidence import OutputRecord
from tidemark.kafka import client as kafka
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.sparkfiles.query_log import read_query_log
from tidemark.stack.install.toolchain import find_java
from tidemark.waiting import wait_until

PROGRAM = Path(__file__).with_name("queries.py")
SLICE_S = 1200.0
"""Calibration: twenty queries need half a minute for a slice on two cores, and several minutes on busy ones."""
STOP_S = 300.0
"""Calibration: a session with ten queries stops within 5 s."""
ROWS = 12
"""Random rows of a side in a slice."""
KEYS, LOTS = 14, 5


@dataclass
class JoinQuery:
    """One query. ``conf`` are its settings, ``changes`` what else it is asked with (``queries.py``).

    ``stall`` is the left row before which its sink waits, ``refused`` what Spark said if it did not go on, ``place``
    the folder of its checkpoint, below that of the query.
    """

    name: str
    kind: str
    folder: Path
    conf: dict[str, str] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    stall: str = ""
    refused: str = ""
    output: str = ""
    place: str = "checkpoint"

    @property
    def checkpoint(self) -> Path:
        """Its checkpoint."""
        return self.folder / self.name / self.place

    def log(self) -> Checkpoint:
        """The checkpoint as it is now."""
        return Checkpoint(self.checkpoint)


class Site:
    """Some queries and what they read."""

    def __init__(self, bootstrap: str, folder: Path, queries: Sequence[JoinQuery], seed: int = 7) -> None:
        self.bootstrap, self.folder, self.queries = bootstrap, folder, list(queries)
        self._name = uuid.uuid4().hex[:8]
        self.left, self.right = f"left-{self._name}", f"right-{self._name}"
        self._random = random.Random(seed)
        self._slice = 0
        self._partitions = {"L": 2, "R": 1}
        for at, query in enumerate(self.queries):
            query.output = f"output-{self._name}-{at}"
            query.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        topics = {self.left: 2, self.right: 1, **{query.output: 1 for query in self.queries}}
        kafka.create_topics(bootstrap, topics)

    @contextmanager
    def running(self, spark: ForeignSpark, slots: int = 4, executors: int = 0) -> Iterator[psutil.Popen]:
        """The queries that were not refused, in a program of their own; stopped at exit, killed where that fails.

        ``executors`` are processes of their own; with none, tasks are threads of the driver.
        """
        java = find_java()
        jars = spark.class_path(java)
        options = f"--driver-memory 2g --driver-class-path {jars} --conf spark.executor.extraClassPath={jars}"
        asked = {
            "bootstrap": self.bootstrap, "slots": slots, "executors": executors,
            "queries": [
                {
                    "name": one.name, "kind": one.kind, "left": self.left, "right": self.right,
                    "output": one.output, "checkpoint": str(one.checkpoint), "conf": one.conf, "stall": one.stall,
                    **one.changes,
                }
                for one in self.queries if not one.refused
            ],
        }  # fmt: skip
        (self.folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
        with (self.folder / "said.jsonl").open("wb") as said, (self.folder / "program.log").open("ab") as log:
            program = psutil.Popen(
                [str(spark.python), "-P", str(PROGRAM), str(self.folder / "asked.json")],
                env={
                    **classic_environment(spark.python),
                    "JAVA_HOME": str(Path(os.path.realpath(java)).parents[1]),
                    "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell",
                },
                stdin=subprocess.PIPE, stdout=said, stderr=log, cwd=self.folder,
            )  # fmt: skip
        try:
            yield program
            if program.poll() is None:  # what it says while it is killed is no refusal
                self._note_refusals()
        finally:
            program.stdin.close()
            try:
                program.wait(0.1 if sys.exc_info()[0] else STOP_S)
            except psutil.TimeoutExpired:
                ForeignQuery.kill(program)

    def feed(self, *, at_end: bool = False) -> None:
        """A slice for all queries; ``at_end``: far in the future, so that every NULL row is due."""
        producer, number = Producer({"bootstrap.servers": self.bootstrap}), self._slice
        begin_s = 1_767_225_600 + 10 * number + (600 if at_end else 0)
        for at, (left, right) in enumerate(self._pairs(number, begin_s, at_end=at_end)):
            for topic, side, (name, time_s) in ((self.left, "L", left), (self.right, "R", right)):
                event = {
                    f"{side.lower()}_id": f"{side}{number}-{at}", f"{side.lower()}_key": name,
                    f"{side.lower()}_time": moment(time_s), f"{side.lower()}_price": self._random.randrange(100),
                    f"{side.lower()}_lot": f"t{at % LOTS}",
                }  # fmt: skip
                producer.produce(topic, json.dumps(event).encode(), partition=at % self._partitions[side])
        assert producer.flush(60) == 0
        self._slice += 1

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions; slices that are fed from now on are in all of them."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
            future.result(60)
        if topic in (self.left, self.right):
            self._partitions["L" if topic == self.left else "R"] = partitions

    def _pairs(self, number: int, begin_s: float, *, at_end: bool) -> Iterator[tuple[tuple[str, float], ...]]:
        """Key and seconds of a left row and of a right row; the last two match, and a sink may wait before them."""
        chance = self._random
        for _ in range(ROWS):
            at_s = begin_s + chance.uniform(0, 10) - (60 if chance.random() < 0.1 and not at_end else 0)
            right_s = at_s + chance.uniform(-8, 24)
            yield (f"k{chance.randrange(KEYS)}", at_s), (f"k{chance.randrange(KEYS)}", right_s)
        before = number - 1
        yield (f"m{number}", begin_s + 9), (f"m{number}", begin_s + 9.5)
        yield (f"x{number}", begin_s + 9), (f"m{before}", begin_s + 2)
        yield (f"y{before}", begin_s - 1.5), (f"x{before}", begin_s + 2)
        yield (f"z{number}", begin_s + 9), (f"y{number}", begin_s + 9)
        yield (f"z{number}", begin_s + 9), (f"z{number}", begin_s + 9)

    def await_read(self, program: psutil.Popen, *, stalled: bool = False) -> None:
        """Wait until each query has read all, and no batch of it is due any more.

        ``stalled``: those that have ``stall`` have planned a batch of all records, and written some of its rows.

        Raises ``TestbedError`` once the program has ended and a query is neither refused nor done.
        """
        self._await(
            program,
            lambda query, ends: (
                _is_half(query, ends, self.bootstrap) if stalled and query.stall else _is_done(query, ends)
            ),
        )

    def stop(self, program: psutil.Popen, query: JoinQuery) -> None:
        """Stop a query, and wait until it is. Raises ``TestbedError`` if the program has ended."""
        self._must_live(program, [query.name])
        program.stdin.write(f"{query.name}\n".encode())
        program.stdin.flush()
        line = json.dumps({"name": query.name, "what": "stopped", "words": ""})
        said = self.folder / "said.jsonl"
        wait_until(
            lambda: line in said.read_text(encoding="utf-8"),
            STOP_S,
            lambda: f"the end of {query.name}",
            unless=lambda: self._must_live(program, [query.name]),
            poll_s=0.3,
        )

    def kill(self, program: psutil.Popen) -> None:
        """SIGKILL to the program and its JVM. Raises ``TestbedError`` if it had ended by itself."""
        self._note_refusals()
        self._must_live(program, [one.name for one in self.queries if not one.refused])
        ForeignQuery.kill(program)

    def _await(self, program: psutil.Popen, is_done: Any) -> None:
        ends = kafka.end_offsets(self.bootstrap, [self.left, self.right])

        def waiting() -> list[str]:
            self._note_refusals()
            names = [one.name for one in self.queries if not one.refused and not is_done(one, ends)]
            self._must_live(program, names)
            return names

        wait_until(
            lambda: not waiting(),
            SLICE_S,
            lambda: f"queries {waiting()}; the log is {self.folder}",
            poll_s=0.3,
        )

    def _note_refusals(self) -> None:
        """Note which queries an exception has ended, by what the program says."""
        for line in (self.folder / "said.jsonl").read_text(encoding="utf-8").splitlines():
            said = json.loads(line)
            if said["what"] == "refused":
                next(one for one in self.queries if one.name == said["name"]).refused = said["words"]

    def _must_live(self, program: psutil.Popen, names: Sequence[str]) -> None:
        """Raise if the program has ended that these queries need: none of them goes on."""
        if names and (code := program.poll()) is not None:
            log = (self.folder / "program.log").read_text(encoding="utf-8", errors="replace")
            raise TestbedError(
                f"the program of the queries ended with exit code {code} before {', '.join(names)}",
                detail=log[-3000:],
                hint=f"read {self.folder / 'program.log'}",
            )

    def records(self, query: JoinQuery) -> list[OutputRecord]:
        """What it wrote."""
        return list(kafka.read_all(self.bootstrap, query.output))

    def audit(
        self, query: JoinQuery, run_dir: Path, contract: dict[str, Any] | None = None, **options: Any
    ) -> AuditResult:
        """Judge it as it is now, by the contract of what it is asked to do, if not by another."""
        path = query.checkpoint.parent / "contract.json"
        path.write_text(json.dumps(contract or contract_of(query)), encoding="utf-8")
        return tidemark.audit(
            query.checkpoint, path, self.bootstrap, query.output,
            topics={"left": self.left, "right": self.right}, run_dir=run_dir, **options,
        )  # fmt: skip

    def drop(self) -> None:
        """Delete its topics and its checkpoints."""
        kafka.delete_topics(self.bootstrap, [self.left, self.right, *(one.output for one in self.queries)])
        for query in self.queries:
            shutil.rmtree(query.checkpoint.parent, ignore_errors=True)


def last_left(number: int) -> str:
    """The id of the last left row of a slice, whose partner is the last right row."""
    return f"L{number}-{ROWS + 4}"


def contract_of(query: JoinQuery) -> dict[str, Any]:
    """The contract of the join that a query is asked to do."""
    delays_s, upper_s = query.changes.get("delays_s", (10, 20)), query.changes.get("upper_s", 20)
    side = {
        name: {
            "topic": "elsewhere" if name in query.changes.get("moved", "") else topic,
            "id": f"{name}_id", "time": f"{name}_time",
            "keys": [f"{name}_{key}" for key in query.changes.get("keys", ("key",))],
            "watermark_delay_ms": 1000 * delay_s,
        }
        for name, topic, delay_s in (("l", "left", delays_s[0]), ("r", "right", delays_s[1]))
    }  # fmt: skip
    if query.changes.get("where"):
        side["l"]["filters"] = [{"field": "l_price", "op": "<", "value": 50}]
    is_semi = query.kind == "left_semi"
    output = {"left_id": "l_id", "left_ref": None, "right_id": None if is_semi else "r_id", "right_ref": None}
    return {
        "name": query.name, "kind": query.kind, "left": side["l"], "right": side["r"],
        "bound": {"equal": True} if query.changes.get("equal") else {"lower_ms": -1000 * upper_s, "upper_ms": 0},
        "condition": [{"op": "<", "left": "l_price", "right": "r_price"}] if query.changes.get("condition") else [],
        "output": output, "policy": "min",
    }  # fmt: skip


def _is_done(query: JoinQuery, ends: Any) -> bool:
    log = query.log()
    if not log.committed() or log.running() is not None:
        return False
    read = read_query_log(query.checkpoint)
    last = read.planned[-1]
    return bool(last.has_read(ends)) and read.next_watermarks_ms.get(last.batch) == last.watermark_ms


def _is_half(query: JoinQuery, ends: Any, bootstrap: str) -> bool:
    log = query.log()
    batch = log.running()
    if batch is None or not log.batch(batch).has_read(ends):
        return False
    return any(one.header("batch") == str(batch) for one in kafka.read_all(bootstrap, query.output))
