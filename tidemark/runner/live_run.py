"""The steps of a run that need a stack: from creating the topics to collecting the evidence."""

from __future__ import annotations

import os
import random
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tidemark.errors import PipelineFailed, QueryHung
from tidemark.faults.injector import FaultInjector
from tidemark.faults.schedule import plan_faults
from tidemark.faults.sink_progress import watch_sink_progress
from tidemark.faults.target import FaultTarget
from tidemark.formats.chain import Chain
from tidemark.formats.client_settings import CONF_VARIABLE
from tidemark.formats.connect_url import with_parameters
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.project_files import PROJECT, keep_project
from tidemark.formats.run_notes import NOT_COMPARED, slice_was_split
from tidemark.formats.trace import Header, TraceReader
from tidemark.kafka import client as kafka
from tidemark.kafka.connection import connected_admin
from tidemark.runner.app_command import (
    CONNECT,
    app_path,
    app_words,
    output_field,
    sources_of_app,
    uses_connect,
)
from tidemark.runner.app_jobs import AppJob, ClassicJob, ConnectJob
from tidemark.runner.app_query import AppQuery
from tidemark.runner.cleanup import Cleanup, add_later
from tidemark.runner.evidence_collector import Collector, Places
from tidemark.runner.hung_query import HangRecorder
from tidemark.runner.kafka_access import KafkaAccess, kafka_access
from tidemark.runner.own_driver import must_take_jars, own_driver
from tidemark.runner.pace import TRIGGER_MS, Feed, follow_timed
from tidemark.runner.plan_check import check_plan
from tidemark.runner.possible_faults import needs_proxy
from tidemark.runner.programs import Program, program_environment
from tidemark.runner.query_runs import Query
from tidemark.runner.run_options import OWN_SINK, RunOptions
from tidemark.runner.run_watch import RunWatch
from tidemark.runner.standby import standby_of
from tidemark.runner.table_output import TableFolder
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.sparkfiles.query_log import read_query_log
from tidemark.stack import DRIVER, POWERS, Driver, Stack

SLICE_S = 300.0
"""Calibration: a slice of 30,000 records is acknowledged in half a second."""

STOP_S = 120.0
"""Calibration: a query stops within 1 s."""

OUTPUT_PARTITIONS = 2


class LiveRun:
    """One query over one trace on one stack; ``go`` writes the evidence to the run directory, also after an error."""

    def __init__(
        self,
        options: RunOptions,
        contract: Contract | Chain,
        directory: RunDirectory,
        trace: Path,
        stack: Stack,
    ) -> None:
        self._options = options
        self._contract = contract
        self._directory = directory
        self._trace = trace
        self._stack = stack
        # One name for topics, checkpoint, query and driver; unique, because a stack serves many runs at once.
        self._name = f"{re.sub(r'[^a-z0-9_]+', '-', contract.name.lower())[:40]}-{uuid.uuid4().hex[:8]}"
        self._checkpoint = Checkpoint(stack.work_dir(self._name) / "checkpoint")
        self._kafka: KafkaAccess
        self._watch: RunWatch
        self._header = _header(trace)
        self._pace = options.pace or self._header.pace
        self._inputs = {topic: f"{self._name}-{topic}" for topic in self._header.topics}
        self._output = f"{self._name}-output"
        self._table = self._table_folder()
        self._registry = stack.registry
        """The URL of the schema registry that the query gets."""
        self._reads_all = False

    def go(self) -> None:
        """Run, from creating the topics to collecting the evidence."""
        with Cleanup() as cleanup:
            work = self._checkpoint.path.parent
            cleanup.callback(shutil.rmtree, work, ignore_errors=True)
            through_proxy = needs_proxy(self._options.fault_specs, self._stack.spec.backend)
            proxied = self._stack.start_proxy(self._options.say) if through_proxy else None
            if self._options.needs_proxied_registry:
                self._stack.start_proxy(self._options.say)
                self._registry = self._stack.proxied_registry
            self._kafka = kafka_access(self._stack, work, self._options.kafka_conf, inside=proxied)
            self._create_topics(cleanup)
            query = self._app(cleanup) if self._options.app else self._on_driver(cleanup)
            places = Places(
                self._kafka.broker,
                self._trace,
                self._inputs,
                self._output,
                self._checkpoint,
                query,
                self._table,
            )
            collector = Collector(self._options, self._contract, self._directory, self._stack, places)
            traces = [self._trace, self._directory.file("flush")]
            self._watch = RunWatch(self._contract, traces, self._inputs, self._checkpoint, query)
            self._options.watch(self._watch)
            cleanup.callback(self._finish, collector, query)
            self._query(collector, query)

    def _finish(self, collector: Collector, query: Query | AppQuery) -> None:
        self._watch.waits("")
        if isinstance(query, Query) and query.standby:
            for failure in query.standby.failures():
                collector.note(f"the query had no standby for a time: {failure}")
        self._options.report("evidence", 0, 1)
        collector.finish()
        self._options.report("evidence", 1, 1)

    def _table_folder(self) -> TableFolder | None:
        """The folder of an output table; ``None`` if the query has no table of its own to write."""
        command = self._options.app
        if self._options.sink != OWN_SINK or (command and output_field(command) != "table"):
            return None
        return TableFolder(self._checkpoint.path.parent / "table", self._checkpoint, is_asked=bool(command))

    def _on_driver(self, cleanup: Cleanup) -> Query:
        """The query of a pipeline, on a driver."""
        self._options.report("driver", 0, 1)
        driver = cleanup.enter_context(self._driver())
        self._options.report("driver", 1, 1)
        again = bool(self._options.fault_specs)
        query = Query(self._stack, driver, self._checkpoint, self._pipeline, again=again)
        if self._options.standby:
            query.standby = cleanup.enter_context(standby_of(self._stack, self._name, self._options.code))
        return query

    def _app(self, cleanup: Cleanup) -> AppQuery:
        """The query of a user's job, which has a driver of its own."""
        command, code = self._options.app, self._options.code
        driver = None
        if uses_connect(command):
            driver = cleanup.enter_context(own_driver(self._stack, self._name, code))
        values = {
            "bootstrap": self._kafka.bootstrap_inside,
            **({} if driver is None else {CONNECT: driver.remote}),
            **{f"topic:{name}": topic for name, topic in self._inputs.items()},
            "output": self._output,
            "table": "" if self._table is None else str(self._table.path),
            "checkpoint": str(self._checkpoint.path),
        }
        optional = {"registry": self._registry, "kafka-conf": self._kafka.spark_file}
        words = app_words(command, values, code, optional)
        environment = program_environment(None, self._registry)
        if self._kafka.spark_file:
            environment[CONF_VARIABLE] = self._kafka.spark_file
        theirs = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        environment["PYTHONPATH"] = os.pathsep.join([*app_path(command, code), *theirs])
        environment["PYTHONUNBUFFERED"] = "1"
        keep_project(sources_of_app(command, code), self._directory.path / PROJECT)
        log = self._directory.path / "logs" / "app.log"
        job: AppJob
        if driver is None:
            job = ClassicJob(self._stack, self._name, words, environment, log)
        else:
            job = ConnectJob(self._stack, driver, words, environment, log)
        return AppQuery(self._stack, self._checkpoint, job, log, again=bool(self._options.fault_specs))

    def _query(self, collector: Collector, query: Query | AppQuery) -> None:
        """Start the query, publish the trace at its pace with faults on the way, flush, drain."""
        with Cleanup() as programs:
            programs.enter_context(query)  # its program starts in the meantime
            publisher = programs.enter_context(self._publisher(self._trace))
            for number in range(self._before_start()):
                publisher.ask(f"publish {number}", SLICE_S)
                self._options.report("publish", number + 1, self._header.slices)
            ends, waits = self._input_ends, self._watch.waits
            hung_after_s = self._options.given_up_after_s
            query.start_s = max(query.start_s, hung_after_s)
            feed = Feed(
                query, self._checkpoint, ends, self._must_read_all, waits=waits, hung_after_s=hung_after_s
            )
            hangs = HangRecorder(
                self._stack, self._checkpoint, self._directory.path, collector, self._options
            )
            try:
                self._place(query, collector)
                with self._faults(collector, query, feed) as feed_under_faults:
                    query.start()  # watched from its first batch on: of a backlog the next ones follow at once
                    self._publish(publisher, feed_under_faults, collector)
                    feed_under_faults.wait_until_read()
                self._flush(feed, programs)
            except QueryHung as error:
                hangs.keep(error, query.driver_name)
                hangs.stop(error, query)
            else:
                programs.callback(self._stop, collector, query, hangs)  # also if the output is not complete
                self._drain(collector, query, hangs)

    def _drain(self, collector: Collector, query: Query | AppQuery, hangs: HangRecorder) -> None:
        """Read the output; one that does not end is read once the query has stopped, as far as it is stable."""
        self._options.report("drain", 0, 1)
        try:
            collector.drain()
        except QueryHung as error:
            hangs.keep(error, query.driver_name)
        self._options.report("drain", 1, 1)

    def _stop(self, collector: Collector, query: Query | AppQuery, hangs: HangRecorder) -> None:
        """Stop the query, and read its state before its session ends; of one that does not stop nothing is read."""
        stop_s = max(STOP_S, self._options.given_up_after_s)
        try:
            if self._options.sink == OWN_SINK:
                self._compare(query.ask("explain", stop_s), collector)
            collector.stopped(query.ask("stop", stop_s))
        except QueryHung as error:
            hangs.keep(error, query.driver_name)
        else:
            collector.read_state()

    def _place(self, query: Query | AppQuery, collector: Collector) -> None:
        """Compare contract and plan, where there is a plan before the start; the run goes on, and shows its rows."""
        answer = query.plan()
        if self._options.sink != OWN_SINK:
            self._compare(answer, collector)

    def _compare(self, answer: Mapping[str, Any], collector: Collector) -> None:
        """Report differences between contract and plan, and unsafe joins."""
        plan, spark_version = str(answer["plan"]), self._stack.versions.get("spark", "")
        if not plan:
            collector.note(f"{NOT_COMPARED}anything: the event log of the job has no plan of its join")
            return
        (self._directory.path / "logs" / "plan.txt").write_text(plan)
        plan_check = check_plan(self._contract, plan, str(answer["policy"]), spark_version)
        keep_project(answer["sources"], self._directory.path / PROJECT)
        for note in plan_check.notes():
            collector.note(note)
        collector.plan_differs = [str(mismatch) for mismatch in plan_check.comparison.mismatches]
        plan_check.tell(self._options.say)

    def _publish(self, publisher: Program, feed: Feed, collector: Collector) -> None:
        if self._pace == "timed":
            follow_timed(publisher, feed.check)
            return
        feed.wait_until_read()
        for number in range(self._before_start(), self._header.slices):
            if not feed.publish_one_batch(partial(publisher.ask, f"publish {number}", SLICE_S)):
                collector.note(slice_was_split(number))
            self._options.report("publish", number + 1, self._header.slices)

    def _before_start(self) -> int:
        """Slices that are published before the query starts: on empty topics it would run an empty batch first."""
        return {"backlog": self._header.slices, "stepped": 1}.get(self._pace, 0)

    def _flush(self, feed: Feed, programs: Cleanup) -> None:
        """Publish one sentinel per input, far in the future, so that all pending output is emitted."""
        self._options.report("flush", 0, 1)
        flush = self._directory.file("flush")
        publisher = programs.enter_context(self._publisher(flush, interactive=True))
        feed.publish_one_batch(partial(publisher.ask, "publish 0", SLICE_S))
        self._options.report("flush", 1, 1)

    @contextmanager
    def _faults(self, collector: Collector, query: Query | AppQuery, feed: Feed) -> Iterator[Feed]:
        """Inject while the trace is published by the feed that it gives; afterwards the journal is complete."""
        if not self._options.fault_specs:
            yield feed
            return
        rng = random.Random(f"faults-{self._options.seed}")
        # In a backlog batch of data follows batch of data; else every other slice or so moves the watermark.
        idle = 0 if self._pace == "backlog" else self._header.slices // 2
        faults = plan_faults(rng, self._options.fault_specs, self._header.slices + idle)
        broker = self._kafka.broker
        with watch_sink_progress(self._options.sink, broker, self._output, self._checkpoint) as progress:
            target = FaultTarget(self._stack, lambda: query.driver_name, self._checkpoint, progress)
            waits = self._pace == "stepped"  # else batches come while a standby is started
            if waits and isinstance(query, Query) and query.standby:
                target = replace(target, standby_is_settled=query.standby.is_settled)
            injector = FaultInjector(target, faults, self._options.say, self._options.given_up_after_s)
            self._watch.injector = injector
            injector.start()
            try:
                yield replace(feed, well=_both(injector.check, feed.well), ready=injector.is_armed)
            except BaseException as error:
                injector.abort()
                if injector.error is not None and injector.error is not error:
                    add_later(error, injector.error)
                raise
            finally:
                try:
                    injector.finish()
                finally:
                    collector.journal(injector.journal)  # also after Ctrl-C while its thread is awaited
        injector.check()

    @contextmanager
    def _driver(self) -> Iterator[Driver]:
        """The requested driver, the shared one, or one of the run's own.

        A fault must not hit another run's driver, and what is sent to a driver stays in its Python workers.
        """
        must_take_jars(self._stack, self._options.code)
        if not self._options.has_own_driver or "processes" not in POWERS[self._stack.spec.backend]:
            yield self._stack.driver(self._options.driver or DRIVER)
            return
        with own_driver(self._stack, self._name, self._options.code) as driver:
            yield driver

    def _publisher(self, trace: Path, *, interactive: bool = False) -> Program:
        topics = [f"--topic={name}={topic}" for name, topic in self._inputs.items()]
        timed = self._pace == "timed" and not interactive
        timed_mode = ["--pace", "timed", "--speed", str(self._options.speed), "--end-with-stdin"]
        mode = timed_mode if timed else ["--interactive"]
        return Program(
            ["producers", "replay", str(trace), *self._kafka.for_producers, *topics, *mode],
            self._directory.path / "logs" / "publisher.log",
        )

    def _pipeline(self, driver: Driver, session_id: str) -> Program:
        arguments = [
            *self._options.code.arguments(),
            f"--remote={with_parameters(driver.remote, session_id=session_id)}",
            *self._kafka.for_pipelines,
            *(f"--input={logical}={topic}" for logical, topic in self._inputs.items()),
            f"--output={self._output}", f"--checkpoint={self._checkpoint.path}",
            f"--query-name={self._name}", f"--trigger-ms={TRIGGER_MS}", "--wait",
            *self._limits(), *(f"--conf={pair}" for pair in self._options.conf),
            *(["--send"] if self._options.sends_code else []),
            *([f"--sink={self._options.sink}"] if self._options.sink != OWN_SINK else []),
            *([f"--table={self._table.path}"] if self._table is not None else []),
        ]  # fmt: skip
        return Program(
            arguments,
            self._directory.path / "logs" / "pipeline.log",
            code=self._directory.path / "code.zip",
            python=self._options.python,
            registry=self._registry,
        )

    def _limits(self) -> list[str]:
        """A backlog is read in about as many batches as the trace has slices, on both topics alike."""
        if self._pace != "backlog":
            return []
        with TraceReader(self._trace) as records:
            totals = Counter(record.topic for record in records)
        slices = self._header.slices
        return [f"--max-offsets={name}={-(-total // slices)}" for name, total in totals.items()]

    def _must_read_all(self) -> None:
        """Raise ``PipelineFailed`` if a query with sources of its own does not read all that is published."""
        if self._reads_all or self._options.sink != OWN_SINK or not self._checkpoint.planned():
            return
        log = read_query_log(self._checkpoint.path)
        for name, topic in self._inputs.items():
            late = max(log.started.get(topic, {}).values(), default=0)
            if topic not in log.topics or late:
                raise PipelineFailed(
                    f"the query does not read the topic of {name!r}"
                    + (f" from its beginning, but from offset {late}" if late else ""),
                    detail=f"topics of its checkpoint: {', '.join(sorted(log.topics)) or 'none'}; it was told {topic}",
                    hint=f'read it with .options(**io.source("{name}")), in the query that `start` returns',
                )
        self._reads_all = True

    def _input_ends(self) -> dict[str, dict[str, int]]:
        ends = kafka.end_offsets(self._kafka.broker, list(self._inputs.values()))
        by_text = {topic: {str(p): end for p, end in parts.items()} for topic, parts in ends.items()}
        self._watch.published(by_text)
        return by_text

    def _create_topics(self, cleanup: Cleanup) -> None:
        layout = {self._inputs[name]: spec.partitions for name, spec in self._header.topics.items()}
        layout[self._output] = OUTPUT_PARTITIONS
        connected_admin(self._kafka.broker)  # nothing is to be deleted where nobody is let in
        cleanup.callback(kafka.delete_topics, self._kafka.broker, list(layout))
        compacted = [self._inputs[name] for name in self._header.compacted]
        kafka.create_topics(self._kafka.broker, layout, compacted)


def _both(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


def _header(trace: Path) -> Header:
    with TraceReader(trace) as reader:
        return reader.header
