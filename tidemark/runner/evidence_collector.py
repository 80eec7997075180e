"""Collects the evidence of a run, including a run that failed or was interrupted."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET

from tidemark import paths
from tidemark.errors import DeadlineExceeded, DrainHung, OpenTransaction, QueryHung, TidemarkError, UsageError
from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.chain import Chain
from tidemark.formats.contract import Contract, Delivery
from tidemark.formats.evidence import FORMAT, Batch, ExecutorAssignment, OutputRecord, RunDirectory, StateRow
from tidemark.formats.faults import Fault
from tidemark.formats.jsonlines import write_lines
from tidemark.formats.liveness import Hang
from tidemark.formats.manifest import InputTopic, Manifest, StateInfo
from tidemark.formats.project_files import PROJECT, project_sha256
from tidemark.formats.record_files import PARQUET, count_records
from tidemark.formats.seal import file_sha256
from tidemark.formats.storage import convert_file, parquet_digests, write_records
from tidemark.formats.time_forms import moment_ms
from tidemark.formats.trace import Header, TraceReader, trace_sha256
from tidemark.kafka import client as kafka
from tidemark.kafka.connection import Broker
from tidemark.oracle.coverage import written_kills
from tidemark.runner.app_query import AppQuery
from tidemark.runner.cleanup import first_of
from tidemark.runner.log_files import keep_checkpoint, keep_logs
from tidemark.runner.own_driver import jar_digests
from tidemark.runner.query_runs import Query
from tidemark.runner.run_options import OWN_SINK, RunOptions
from tidemark.runner.state_reader import read_state, what_ran
from tidemark.runner.table_output import COMPLETE_S, TableFolder
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.sparkfiles.eventlog import QueryEvents
from tidemark.sparkfiles.output_tables import OutputTable
from tidemark.stack import Stack
from tidemark.waiting import wait_until

LOG_S = 90.0
"""Calibration: Spark's listener bus logs the end of a job within milliseconds; it may lag on a busy machine."""

STATUS_S = 60.0
"""Calibration: a driver answers in milliseconds."""

_OF_SLICES = ("late_row_dropped", "edge_row_seen")
"""Goals of a trace that are sure to be met only where each of its slices is a batch."""
_OF_SINK = {
    "exactly-once": Delivery.EXACTLY_ONCE,
    "spark": Delivery.AT_LEAST_ONCE,
    OWN_SINK: Delivery.AT_LEAST_ONCE,
}


def promised(contract: Contract | Chain, sink: str, table: OutputTable | None = None) -> Delivery:
    """The delivery guarantee that a run is judged by: the contract's, or else that of the table, or of the sink."""
    own = None if isinstance(contract, Chain) else contract.delivery
    return own or (_OF_SINK[sink] if table is None else table.delivery)


@dataclass(frozen=True)
class Places:
    """Trace, topics (``inputs`` by logical name), checkpoint and query of a run; ``table`` may be the output, too.

    ``broker`` has the settings of a Kafka client.
    """

    broker: Broker
    trace: Path
    inputs: dict[str, str]
    output: str
    checkpoint: Checkpoint
    query: Query | AppQuery
    table: TableFolder | None = None


class Collector:
    """Collects evidence during a run; ``finish`` writes it."""

    def __init__(
        self,
        options: RunOptions,
        contract: Contract | Chain,
        directory: RunDirectory,
        stack: Stack,
        places: Places,
    ) -> None:
        self._options = options
        self._contract = contract
        self._directory = directory
        self._stack = stack
        self._broker = places.broker
        self._trace = places.trace
        self._inputs = places.inputs
        self._output = places.output
        self._checkpoint = places.checkpoint
        self._query = places.query
        self._folder = places.table
        self._table: OutputTable | None = None
        self._started_utc = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._faults: list[Fault] = []
        self._last_progress: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self.plan_differs: list[str] = []
        self.hang: Hang | None = None
        """Set if the query hung: what there is then is judged."""
        self._is_drained = False
        self._state = StateInfo()
        self._errors: list[BaseException] = []
        """Errors that occurred while the evidence was collected."""

    def stopped(self, answer: dict[str, Any]) -> None:
        """Record the progress reports of the last run, which the query returned when it was stopped."""
        self._last_progress = answer["progress"]

    def read_state(self) -> None:
        """Read the state after some of the batches; needs the query's session."""
        if self._options.sink == OWN_SINK:
            return  # its program has no session that would be asked
        reports = self._reports_of_all_runs()
        self._state = read_state(self._query.ask, self._checkpoint, reports, self._directory.path)

    def journal(self, faults: list[Fault]) -> None:
        """Record injected faults."""
        self._faults += faults

    def note(self, text: str) -> None:
        """Add a note to the manifest."""
        self._notes.append(text)

    def drain(self) -> None:
        """Read the output until no more records arrive, or a table once it is complete; write it as it comes.

        Raises ``DrainHung`` if that does not end.
        """
        hint = "see the logs of the executors: one may still write, or have died in a transaction"
        try:
            if self._folder is not None and self._folder.is_written(self._most_records()):
                self._folder.await_complete(lambda: self._query.ask("status", STATUS_S))
        except DeadlineExceeded as error:
            what = error.waited_for if isinstance(error, QueryHung) else "its table to be complete"
            raise DrainHung(what, COMPLETE_S, detail=error.message, hint=hint) from error
        try:
            self._write_output(kafka.drain)
        except OpenTransaction as error:
            what = "its output to have an end without an open transaction"
            raise DrainHung(what, kafka.DRAIN_S, detail=error.message, hint=hint) from error

    def finish(self) -> None:
        """Write every evidence file that can be collected; the fault journal first, which needs no stack.

        A file that cannot be collected is left out and named in the manifest's notes. At the end the first error is
        raised, with the others as its notes. Ctrl-C ends the current step only; the next steps still run.
        """
        self._attempt("faults.jsonl", lambda: self._directory.write_lines("faults", self._faults))
        if not self._is_drained or self._faults or self.hang is not None:
            self._attempt("logs", self._keep_logs)
        if self._options.keep_checkpoint:
            self._attempt("the checkpoint", self._keep_checkpoint)
        if not self._is_drained:  # the run did not get as far, or the output did not settle
            self._attempt("the output", partial(self._write_output, kafka.read_all))
        self._attempt("the state as Parquet", self._store_state)
        logs = list(self._event_logs())
        if self._query.query_id is not None and len(logs) < len(self._query.runs):
            self.note("no event log of the driver is readable, so failed tasks are not known")
        self._attempt("the end of the event log", lambda: self._await_last_batch(logs))
        self._attempt("batches.jsonl", lambda: self._directory.write_lines("batches", self._batches(logs)))
        self._attempt("progress.jsonl", lambda: self._directory.write_lines("progress", self._progress(logs)))
        self._attempt(
            "executors.jsonl", lambda: self._directory.write_lines("executors", _executor_assignments(logs))
        )
        self._attempt("logs/spark-events.jsonl.zst", lambda: self._write_events(logs))
        self._attempt("manifest.json", lambda: self._directory.write_json("manifest", self._manifest()))
        if self._errors:
            raise first_of(self._errors)
        self._must_have_first_batch()

    def _must_have_first_batch(self) -> None:
        """Raise ``UsageError`` if the query has let Spark delete batches, and cannot be judged from a later one on."""
        planned = self._checkpoint.planned()
        if planned and planned[0] and self._options.sink != OWN_SINK:
            raise UsageError(
                f"the checkpoint of the query begins with batch {planned[0]}",
                detail="Spark deletes older batches beyond spark.sql.streaming.minBatchesToRetain, and a run is judged"
                " from its first batch on",
                hint="do not set it in the pipeline: a run keeps all batches",
            )

    def _attempt(self, what: str, collect: Callable[[], object]) -> None:
        """Collect a piece of evidence; an error is recorded, and the other pieces are still collected."""
        try:
            collect()
        except BaseException as error:  # noqa: BLE001 (raised once the rest is collected)
            self._errors.append(error)
            said = error.message if isinstance(error, TidemarkError) else f"{type(error).__name__}: {error}"
            self.note(f"{what} could not be collected: {said}")

    def _keep_logs(self) -> None:
        keep_logs(self._stack, (run.driver for run in self._query.runs), self._directory.path / "logs")

    def _keep_checkpoint(self) -> None:
        self._notes += keep_checkpoint(self._checkpoint.path, self._directory.path / "checkpoint")

    def _write_output(self, read: Callable[[Broker, str], Iterator[OutputRecord]]) -> None:
        most, query = self._most_records(), self._query.query_id
        if self._folder is not None and self._folder.is_written(most):
            self._table = self._folder.read(query)
            most, records = self._table.most_rows, self._table.judged_records(query)
        else:
            records = read(self._broker, self._output)
            if self._folder is not None and self._folder.is_asked:
                self.note(f"nothing was written to {{table}}, the folder {self._folder.path}")
        path = self._directory.path / f"output.{self._options.storage_of(most)}"
        write_records(path, OutputRecord, records)
        self._is_drained = True

    def _most_records(self) -> int:
        """At most so many are in the topic: what was aborted, and what ends a transaction, is counted, too."""
        return sum(kafka.end_offsets(self._broker, [self._output])[self._output].values())

    def _store_state(self) -> None:
        """Store the state as the run was asked to; the query's program writes it as JSON Lines."""
        path = self._directory.file("state")
        if isinstance(self._contract, Chain):
            return  # it has other fields
        if path.is_file() and self._options.storage_of(count_records(path)) == "parquet":
            convert_file(path, path.with_suffix(PARQUET), StateRow, has_header=False)
            path.unlink()

    def _batches(self, logs: Sequence[QueryEvents]) -> list[Batch]:
        """Every planned batch; failed tasks are missing if their event log cannot be read."""
        failed = Counter[int]()
        for log in logs:
            self._attempt(f"failed tasks of {log.path.name}", partial(_add_failed, failed, log))
        starts = [(run.first_batch, run.replays) for run in self._query.runs]
        return batches_of(self._checkpoint, self._inputs, starts, failed)

    def _write_events(self, logs: Sequence[QueryEvents]) -> None:
        events = (line for log in logs for line in log.excerpt())
        write_lines(self._directory.path / "logs" / "spark-events.jsonl.zst", events)

    def _event_logs(self) -> Iterator[QueryEvents]:
        """One event log for each run of the query whose driver has one."""
        query_id = self._query.query_id
        if query_id is None:
            return  # it never started
        runs = self._query.runs
        for run, following in itertools.zip_longest(runs, runs[1:]):
            if run.driver.event_log is not None:
                same = following is not None and following.driver.event_log == run.driver.event_log
                end = following.log_start if same else None
                yield QueryEvents(run.driver.event_log, run.log_start, query_id, end)

    def _await_last_batch(self, logs: list[QueryEvents]) -> None:
        """Wait until the event log has caught up with the checkpoint, unless the last run committed no batch."""
        committed = self._checkpoint.committed()
        if logs and committed and committed[-1] >= self._query.runs[-1].first_batch:
            last = committed[-1]
            if self._options.sink == OWN_SINK and not logs[-1].job_started(last):
                return  # what `foreachBatch` runs is no job of the query
            ended = lambda: logs[-1].job_ended(last)  # noqa: E731
            if self.hang is not None and not logs[-1].job_ended(last):
                self.note(f"the event log has no end of batch {last}: the query hung")
                return
            wait_until(ended, LOG_S, lambda: f"the end of batch {last} in the event log")

    def _progress(self, logs: list[QueryEvents]) -> list[dict[str, Any]]:
        """Progress reports of all runs; those of runs whose driver died are in the event log only."""
        last = {report["runId"] for report in self._last_progress}
        earlier = (report for log in logs for report in log.progress() if report["runId"] not in last)
        return [*earlier, *self._last_progress]

    def _reports_of_all_runs(self) -> list[dict[str, Any]]:
        """What :meth:`_progress` gives while the query's program still answers, or else the last run's reports."""
        logs = list(self._event_logs()) if len(self._query.runs) > 1 else []
        try:
            return self._progress(logs)
        except OSError:  # of that `finish` makes an error
            return self._last_progress

    def _manifest(self) -> Manifest:
        inputs = self._read_inputs()  # used if the brokers do not return the end offsets
        self._attempt(
            "the end offsets of the inputs",
            lambda: inputs.update(input_topics(self._broker, self._inputs)),
        )
        with TraceReader(self._trace) as reader:
            header = reader.header
        flush = self._directory.file("flush")
        kept = self._options.kept_pipeline(self._directory.path)
        project = self._directory.path / PROJECT
        return Manifest(
            tidemark_evidence=FORMAT,
            contract=self._contract.to_json(),
            delivery=promised(self._contract, self._options.sink, self._table),
            pace=self._options.pace or header.pace,
            inputs=inputs,
            goals=["flushed", "all_input_read", *self._goals_of(header), *self._fault_goals()],
            waived=list(dict.fromkeys([*header.waived, *self._options.waive])),
            seed=self._options.seed,
            trace_sha256=trace_sha256(self._trace),
            flush_sha256=trace_sha256(flush) if flush.is_file() else None,
            versions={**self._stack.versions, **jar_digests(self._options.code)},
            code_sha256=paths.code_sha256(),
            pipeline_sha256=None if kept is None else file_sha256(kept),
            project_sha256=project_sha256(project) if project.is_dir() else None,
            backend=self._stack.spec.backend,
            sink=self._options.sink,
            query_id=self._query.query_id,
            started_utc=self._started_utc,
            command=self._options.command(self._directory.path),
            notes=[
                *self._notes,
                *(f"the query was started again after: {why}" for why in self._query.failures),
            ],
            state=what_ran(self._checkpoint, self._options.conf, self._state),
            plan_differs=self.plan_differs,
            records=self._directory.count_records(),
            parquet_sha256=parquet_digests(self._directory),
            audit=self._audit(),
            demands=self._options.demands,
            hang=self.hang,
        )

    def _audit(self) -> AuditedQuery | None:
        """That a query with a sink of its own is judged as an audit does, if its records name no batch.

        A table is, whether its log names batches or not, and so is a query that let Spark delete its first batches.
        """
        planned, committed = self._checkpoint.planned(), self._checkpoint.committed()
        if self._options.sink != OWN_SINK or not planned:
            return None
        first = next(self._directory.output(), None) if self._is_drained else None
        names_batch = first is not None and first.header("batch") is not None
        if self._table is None and names_batch and not planned[0]:
            return None
        last = planned[-1]
        begin = planned[0] + 1 if planned[0] else 0
        about = AuditedQuery(
            first_batch=begin,
            from_batch=begin,
            to_batch=last,
            owed_to=committed[-1] if committed else -1,
            next_watermark_ms=self._checkpoint.next_watermark_ms(last) if last in committed else None,
            time_zone=self._checkpoint.conf().get("spark.sql.session.timeZone"),
            output_topic=self._output if self._table is None else None,
            reported=(0, last),
        )
        return about if self._table is None else self._table.told_in(about)

    def _read_inputs(self) -> dict[str, InputTopic]:
        """The input topics up to the last planned batch; at least these records were published."""
        planned = self._checkpoint.planned()
        ends = self._checkpoint.batch(planned[-1]).end_offsets if planned else {}
        return {
            name: InputTopic(topic, dict.fromkeys(ends.get(topic, {}), 0), ends.get(topic, {}))
            for name, topic in self._inputs.items()
        }

    def _goals_of(self, header: Header) -> list[str]:
        """The goals of a trace, but for those that depend on its slices where the run has another pace."""
        is_another = self._options.pace not in (None, header.pace)
        return [goal for goal in header.goals if not (is_another and goal in _OF_SLICES)]

    def _fault_goals(self) -> list[str]:
        """Goals of a run with faults: a batch that Spark's own sink wrote before a driver kill must appear twice."""
        asked = ["fault_hit_running_batch"] if self._options.fault_specs else []
        return [*asked, "written_kills_doubled"] if written_kills(self._faults) else asked


def input_topics(broker: Broker, inputs: Mapping[str, str]) -> dict[str, InputTopic]:
    """Logical name -> topic with its current end offsets. ``inputs`` has the run's own topics."""
    ends = kafka.end_offsets(broker, list(inputs.values()))
    return {
        name: InputTopic(
            topic=topic,
            start_offsets={str(partition): 0 for partition in ends[topic]},
            end_offsets={str(partition): end for partition, end in ends[topic].items()},
        )
        for name, topic in inputs.items()
    }


def batches_of(
    checkpoint: Checkpoint,
    inputs: Mapping[str, str],
    starts: Sequence[tuple[int, bool]],
    failed: Mapping[int, int] | None = None,
) -> list[Batch]:
    """Every planned batch, with its end offsets in ``inputs``; a query may read other topics, too.

    ``starts`` has the first batch of each run of the query, and whether an earlier run had planned it; ``failed``
    has the number of failed task attempts by batch.
    """
    logical = {topic: name for name, topic in inputs.items()}
    committed, later = set(checkpoint.committed()), starts[1:]
    return [
        Batch(
            batch=number,
            watermark_ms=planned.watermark_ms,
            end_offsets={
                logical[topic]: ends for topic, ends in planned.end_offsets.items() if topic in logical
            },
            committed=number in committed,
            runs=1 + sum(first == number and replays for first, replays in later),
            restarted=any(first == number for first, _ in later),
            failed_tasks=(failed or {}).get(number, 0),
            planned_at_ms=moment_ms(checkpoint.planned_at(number)),
            committed_at_ms=moment_ms(checkpoint.committed_at(number)) if number in committed else UNSET,
        )
        for number in checkpoint.planned()
        for planned in [checkpoint.batch(number)]
    ]


def _add_failed(failed: Counter[int], log: QueryEvents) -> None:
    failed.update(log.failed_tasks())


def _executor_assignments(logs: list[QueryEvents]) -> list[ExecutorAssignment]:
    """Executor assignments of all runs; for a batch that was run again, that of its last run."""
    found: dict[int, ExecutorAssignment] = {}
    drivers = list(dict.fromkeys(log.path for log in logs))
    for log in logs:
        for placement in log.executor_assignments(drivers.index(log.path) + 1):
            before = found.get(placement.batch)
            if before is not None:
                placement.lost[:0] = before.lost
            found[placement.batch] = placement
    return [found[batch] for batch in sorted(found)]
