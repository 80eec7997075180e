"""Runs cases one after the other on a driver that is up: a second or two each, with the evidence of any run.

Two programs are started once and serve every case: ``pipelines.session_server`` holds the session and runs the
queries (PySpark is the stack's); ``producers.slice_server`` publishes. Everything else is as in
:mod:`tidemark.runner`: a case has topics, a checkpoint and a run directory, what was planned and committed is read from
the checkpoint, and output is read back at ``read_committed`` after the query has ended.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidemark import paths
from tidemark.campaigns.case import Case
from tidemark.campaigns.state_stores import as_known_to, can_be_read
from tidemark.errors import PipelineFailed, TestbedError
from tidemark.formats.connect_url import with_parameters
from tidemark.formats.evidence import FORMAT, RunDirectory
from tidemark.formats.manifest import Manifest, StateInfo
from tidemark.formats.run_notes import slice_was_split
from tidemark.formats.trace import trace_sha256
from tidemark.kafka import client as kafka
from tidemark.kafka.connection import Broker
from tidemark.oracle import Verdict
from tidemark.runner.cleanup import Cleanup
from tidemark.runner.evidence_collector import batches_of, input_topics, promised
from tidemark.runner.kafka_access import kafka_access
from tidemark.runner.one_run import seal_and_judge
from tidemark.runner.pace import GRACE_S, TRIGGER_MS, Feed, now_and_then
from tidemark.runner.programs import Program
from tidemark.runner.run_options import SINKS
from tidemark.runner.state_reader import read_state, what_ran
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Driver, Stack, StackSpec
from tidemark.waiting import wait_until

ANSWER_S = 120.0
"""Calibration: a query starts in 0.2 s on a warm driver, in 10 s on a cold one on a busy machine."""

END_S = 300
"""Calibration: a case has a dozen batches of 0.3 s each; a busy machine takes ten times that."""

OUTPUT_PARTITIONS = 2


@dataclass
class _Starts:
    """The starts of one query: the batch that each began with, and whether that batch had been planned before."""

    first_batch: list[int] = field(default_factory=list)
    replays: list[bool] = field(default_factory=list)
    query_id: str | None = None
    progress: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class _Programs:
    """What serves the cases; the query of one of them as pacing sees it."""

    stack: Stack
    driver: Driver
    broker: Broker
    queries: Program
    publisher: Program

    def ask(self, command: str, timeout_s: float) -> dict[str, Any]:
        """Ask the program of the queries. Raises ``PipelineFailed`` if the query failed."""
        return self.queries.ask(command, timeout_s)

    @contextmanager
    def suspended(self) -> Iterator[bool]:
        """Stop the driver for the length of the block."""
        with self.stack.suspended(self.driver.name):
            yield True

    def began_after(self, _batch: int) -> bool:
        """Never: a query that fails is not started again."""
        return False


class WarmDriver:
    """A driver of a running stack, and the programs that use it. A context manager; not for several threads."""

    def __init__(self, stack: Stack, driver: Driver, logs: Path) -> None:
        self._stack = stack
        self._driver = driver
        self._logs = logs
        self._opened = Cleanup()
        self.grace_s = GRACE_S
        """How long a query that is followed may take to begin a no-data batch: less where none comes."""

    def __enter__(self) -> Self:
        with Cleanup() as opened:
            self._programs = self._start(opened)
            self._opened = opened.pop_all()
        return self

    def _start(self, opened: Cleanup) -> _Programs:
        """Start the programs, which ``opened`` ends; those that are up, too, if one does not start."""
        session_id, folder = str(uuid.uuid4()), self._stack.work_dir(f"login-{uuid.uuid4().hex[:8]}")
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        access = kafka_access(self._stack, folder)
        opened.enter_context(self._stack.register_session(session_id, self._driver.name))
        remote = f"--remote={with_parameters(self._driver.remote, session_id=session_id)}"
        queries = ["pipelines.session_server", remote, *access.for_pipelines]
        python = self._stack.spec.python
        serves_queries = opened.enter_context(Program(queries, self._logs / "pipelines.log", python=python))
        publisher = ["producers.slice_server", *access.for_producers]
        publishes = opened.enter_context(Program(publisher, self._logs / "producers.log"))
        serves_queries.answer(ANSWER_S)
        return _Programs(self._stack, self._driver, access.broker, serves_queries, publishes)

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        self._opened.close()

    def as_possible(self, case: Case) -> Case:
        """A case as this Spark can run it: without a state format that it has not, and without its state if it cannot
        be read.

        The exactly-once sink is of the harness's own PySpark: another one writes with Spark's.
        """
        spark, is_own = self._stack.versions.get("spark", ""), self._stack.spec.python == StackSpec.python
        return replace(
            case,
            conf=as_known_to(spark, case.conf),
            states=case.states if can_be_read(spark) else 0,
            sink=case.sink if is_own else SINKS[1],
        )

    def run(self, case: Case, folder: Path, drive: Callable[[CaseRun], None] | None = None) -> Verdict:
        """Run a case and judge it; the evidence is in ``folder`` afterwards.

        ``drive`` does, in the place of the case's own run mode, what is done between topics and verdict.

        Raises:
            PipelineFailed: the query failed.
            TidemarkError: the testbed did.
        """
        run = CaseRun(case, RunDirectory(folder), self._programs, self.grace_s)
        return run.go(drive or CaseRun.drive)


class CaseRun:
    """One case, from its topics to its verdict."""

    def __init__(
        self, case: Case, directory: RunDirectory, programs: _Programs, grace_s: float = GRACE_S
    ) -> None:
        """``grace_s`` is how long a query that is followed may take to begin a no-data batch."""
        self._case = case
        self._directory = directory
        self._programs = programs
        self._grace_s = grace_s
        self._stack = stack = programs.stack
        self._name = f"case-{uuid.uuid4().hex[:12]}"
        self.inputs = {topic: f"{self._name}-{topic}" for topic in case.topics}
        self.output = f"{self._name}-output"
        self.checkpoint = Checkpoint(stack.work_dir(self._name) / "checkpoint")
        self._starts = _Starts()
        self._notes: list[str] = []

    def go(self, drive: Callable[[CaseRun], None]) -> Verdict:
        """Publish, run, flush (that is ``drive``), collect, judge."""
        self._directory.path.mkdir(parents=True, exist_ok=True)
        self._directory.write_json("contract", self._case.contract.to_json())
        self._case.write(self._directory.path)
        broker = self._programs.broker
        layout = dict.fromkeys(self.inputs.values(), self._case.partitions) | {self.output: OUTPUT_PARTITIONS}
        with Cleanup() as cleanup:
            cleanup.callback(kafka.delete_topics, broker, list(layout))
            cleanup.callback(shutil.rmtree, self.checkpoint.path.parent, ignore_errors=True)
            kafka.create_topics(broker, layout, [self.inputs[topic] for topic in self._case.compacted])
            drive(self)
            self._collect(self._read_state())
        return seal_and_judge(self._directory)

    def drive(self) -> None:
        """The case's own run mode: what is published when, and when the query is stopped and started."""
        case = self._case
        if case.mode == "followed":
            self._follow()
            return
        if case.mode == "stepped":
            for number in range(case.slices):
                self.publish("trace", number)
                self.run_to_its_end()
        else:
            for number in range(case.slices):
                self.publish("trace", number)
            for batch in case.stops:
                self._run_until_planned(batch)
            self.run_to_its_end()
        for number in range(case.rounds):
            self.publish("flush", number)
            self.run_to_its_end()

    def _follow(self) -> None:
        """Slice after slice, each while the query sleeps; an answer to that is one batch, and a no-data batch."""
        case, broker = self._case, self._programs.broker

        def ends() -> dict[str, dict[str, int]]:
            found = kafka.end_offsets(broker, list(self.inputs.values()))
            return {topic: {str(part): end for part, end in parts.items()} for topic, parts in found.items()}

        self.publish("trace", 0)
        self._start(TRIGGER_MS)
        feed = Feed(self._programs, self.checkpoint, ends, grace_s=self._grace_s)
        feed.wait_until_read()
        for number in range(1, case.slices):
            if not feed.publish_one_batch(partial(self.publish, "trace", number)):
                self._notes.append(slice_was_split(number))
        for number in range(case.rounds):
            feed.publish_one_batch(partial(self.publish, "flush", number))
        self._stop()

    def publish(self, name: str, number: int) -> None:
        """Publish one slice of ``trace``, or one round of ``flush``."""
        trace = str((self._directory.path / f"{name}.jsonl").resolve())
        asked = {"trace": trace, "slice": number, "topics": self.inputs}
        self._programs.publisher.ask(f"publish {json.dumps(asked)}", ANSWER_S)

    def run_to_its_end(self) -> None:
        """Start the query, and wait until it has read all there is; one that failed may be started again.

        Raises:
            PipelineFailed: it failed.
        """
        self._start(None)
        try:
            answer = self._programs.ask(f"wait {END_S}", END_S + ANSWER_S)
        except PipelineFailed:
            self._stop()
            raise
        if answer["event"] != "ended":
            raise TestbedError(
                f"the query of case {self._case.name!r} did not end within {END_S} s",
                detail=f"planned {self.checkpoint.planned()[-3:]}, committed {self.checkpoint.committed()[-3:]}",
                hint="`tidemark status` says whether the stack is well",
            )
        self._starts.progress += answer["progress"]

    def _run_until_planned(self, batch: int) -> None:
        """Start the query, and stop it once a batch is planned: in the middle of it, as often as not."""
        self._start(0)
        ends = kafka.end_offsets(self._programs.broker, list(self.inputs.values()))

        def is_there() -> bool:
            planned = self.checkpoint.planned()
            if not planned or planned[-1] >= batch:
                return bool(planned)
            return self.checkpoint.running() is None and self.checkpoint.batch(planned[-1]).has_read(ends)

        def described() -> str:
            return f"batch {batch} of case {self._case.name!r}; planned {self.checkpoint.planned()[-3:]}"

        lives = now_and_then(partial(self._programs.ask, "check", ANSWER_S))
        wait_until(is_there, END_S, described, unless=lives, poll_s=0.02)
        self._stop()

    def _stop(self) -> None:
        """End the query now."""
        self._starts.progress += self._programs.ask("stop", ANSWER_S)["progress"]

    def _start(self, trigger_ms: int | None) -> None:
        case = self._case
        first, replays = self.checkpoint.next_batch(), self.checkpoint.running() is not None
        asked = {
            "contract": case.contract.to_json(), "inputs": self.inputs, "output": self.output, "conf": case.conf,
            "checkpoint": str(self.checkpoint.path), "sink": case.sink, "max_offsets": case.limits,
            "trigger_ms": trigger_ms, "pipeline": case.pipeline,
        }  # fmt: skip
        self._starts.query_id = self._programs.ask(f"start {json.dumps(asked)}", ANSWER_S)["query_id"]
        self._starts.first_batch.append(first)
        self._starts.replays.append(replays)

    def _read_state(self) -> StateInfo:
        ask, folder = self._programs.ask, self._directory.path
        most = self._case.states
        info = (
            read_state(ask, self.checkpoint, self._starts.progress, folder, most=most)
            if most
            else StateInfo()
        )
        conf = [f"{name}={value}" for name, value in self._case.conf.items()]
        return what_ran(self.checkpoint, conf, info) or info

    def _collect(self, state: StateInfo) -> None:
        broker = self._programs.broker
        self._directory.write_lines("output", kafka.read_all(broker, self.output))
        starts = list(zip(self._starts.first_batch, self._starts.replays, strict=True))
        self._directory.write_lines("batches", batches_of(self.checkpoint, self.inputs, starts))
        self._directory.write_lines("progress", self._starts.progress)
        manifest = Manifest(
            tidemark_evidence=FORMAT,
            contract=self._case.contract.to_json(),
            delivery=promised(self._case.contract, self._case.sink),
            pace=self._case.pace,
            inputs=input_topics(broker, self.inputs),
            seed=self._case.seed,
            trace_sha256=trace_sha256(self._directory.path / "trace.jsonl"),
            flush_sha256=trace_sha256(self._directory.path / "flush.jsonl"),
            versions=dict(self._stack.versions),
            code_sha256=paths.code_sha256(),
            backend=self._stack.spec.backend,
            sink=self._case.sink,
            query_id=self._starts.query_id,
            goals=list(self._case.goals),
            waived=[goal for goal in self._case.waived if goal not in self._case.goals],
            notes=self._notes,
            state=state,
            records=self._directory.count_records(),
        )
        self._directory.write_json("manifest", manifest)
