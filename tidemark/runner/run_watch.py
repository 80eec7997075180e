"""What is seen of a run while it goes on, for the live view of the command line.

It is made of what is there anyway: the checkpoint, the progress reports in the driver's event log, the trace, the
offsets that the runner asks for, the journal of faults. Nothing is asked of the query or of a broker for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from tidemark.errors import TidemarkError
from tidemark.faults.injector import FaultInjector
from tidemark.formats.chain import Chain
from tidemark.formats.contract import Contract
from tidemark.formats.decoded_records import decoded_values
from tidemark.formats.record_files import count_records
from tidemark.formats.trace import TraceReader
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle.spark.time_ranges import US_PER_MS
from tidemark.reports.batch_counts import COUNTED_RECORDS, event_reader, inputs_of
from tidemark.runner.query_runs import QueryRun
from tidemark.sparkfiles.checkpoint import Checkpoint, PlannedBatch
from tidemark.sparkfiles.eventlog import ProgressTail

_CHUNK_RECORDS = 1_000
_Record = tuple[str, int, bytes | str | None]
"""Topic, partition and value."""


class WatchedQuery(Protocol):
    """The interface of a running query that a watch uses: see :class:`tidemark.runner.query_runs.Query`."""

    runs: list[QueryRun]
    query_id: str | None

    def event_log(self) -> tuple[Path, int] | None:
        """The event log of the current driver, and where in it (bytes) the query began; ``None``: there is none yet."""


@dataclass(frozen=True)
class InputSeen:
    """An input: rows that batches were planned to read, and rows known to be published (``None``: not known).

    ``watermark_ms`` is the latest event time it has shown in committed batches, minus its delay; ``None``: it has no
    watermark, has shown no row since the query was started, or its event times are not read. ``waits`` says that it
    holds the watermark of the query back because it has shown no row.
    """

    name: str
    read: int = 0
    published: int | None = None
    watermark_ms: int | None = None
    holds_back: bool = False
    waits: bool = False


@dataclass(frozen=True)
class FaultsSeen:
    """How many faults are planned, were injected, and were followed by the commit of their batch."""

    planned: int
    injected: int = 0
    recovered: int = 0
    waits_for: str = ""


@dataclass(frozen=True)
class RunSeen:
    """A run at one moment.

    ``batch`` is the latest planned one, ``rows`` what it reads; ``watermark_ms`` is its eviction watermark. ``out`` is
    how many rows Spark reports to have written; ``None``: it has reported nothing. ``starts`` counts the starts of the
    query.
    """

    inputs: Sequence[InputSeen]
    batch: int | None = None
    is_running: bool = False
    rows: int = 0
    committed: int = 0
    watermark_ms: int = 0
    out: int | None = None
    starts: int = 0
    waits_for: str = ""
    faults: FaultsSeen | None = None


class RunWatch:
    """A run to be looked at now and then. The runner says what it does; ``look`` is for one other thread."""

    def __init__(
        self,
        contract: Contract | Chain,
        traces: Sequence[Path],
        topics: Mapping[str, str],
        checkpoint: Checkpoint,
        query: WatchedQuery,
    ) -> None:
        """``traces`` are what is published, in order; ``topics`` are Kafka's, by logical name."""
        self.name = contract.name
        self.injector: FaultInjector | None = None
        self._waits_for = ""
        self._published: Mapping[str, Mapping[str, int]] = {}
        self._names = [one.topic for one in inputs_of(contract)]
        self._topics = topics
        self._checkpoint = checkpoint
        self._query = query
        self._delays_ms = [one.watermark_delay_ms for one in inputs_of(contract)]
        self._tracker = WatermarkTracker(self._delays_ms, contract.policy)
        self._times: _EventTimes | None = _EventTimes(contract, traces)
        self._plans: dict[int, PlannedBatch] = {}
        self._followed = -1
        """The last batch whose event times are in the watermarks."""
        self._tail: ProgressTail | None = None
        self._out: dict[int, int] = {}
        self._seen = RunSeen([InputSeen(name) for name in self._names])

    def waits(self, what: str) -> None:
        """Note what is waited for; nothing, if it is empty."""
        self._waits_for = what

    def published(self, ends: Mapping[str, Mapping[str, int]]) -> None:
        """Note the end offsets of the input topics."""
        self._published = ends

    def look(self) -> RunSeen:
        """The run as it is now; once its files are gone, as it was last."""
        try:
            self._seen = self._look()
        except (OSError, ValueError, LookupError):  # a file that is written or removed just now
            pass
        return self._seen

    def _look(self) -> RunSeen:
        planned, committed = self._checkpoint.planned(), self._checkpoint.committed()
        self._follow(committed)
        self._read_reports()
        faults, starts = _faults_of(self.injector), len(self._query.runs)
        if not planned:
            return RunSeen(self._seen.inputs, waits_for=self._waits_for, starts=starts, faults=faults)
        batch = planned[-1]
        before = self._rows_read(planned[-2]) if len(planned) > 1 else []
        return RunSeen(
            inputs=self._inputs(batch),
            batch=batch,
            is_running=batch not in committed,
            rows=sum(self._rows_read(batch)) - sum(before),
            committed=committed[-1] + 1 if committed else 0,
            watermark_ms=max(self._plan(batch).watermark_ms, 0),
            out=sum(self._out.values()) if self._out else None,
            starts=starts,
            waits_for=self._waits_for,
            faults=faults,
        )

    def _plan(self, batch: int) -> PlannedBatch:
        if batch not in self._plans:
            self._plans[batch] = self._checkpoint.batch(batch)
        return self._plans[batch]

    def _rows_read(self, batch: int) -> list[int]:
        ends = self._plan(batch).end_offsets
        return [sum(ends.get(self._topics[name], {}).values()) for name in self._names]

    def _inputs(self, batch: int) -> list[InputSeen]:
        held, waits = self._tracker.held_by()
        latest = self._tracker.latest_ms
        seen = []
        for at, (name, read) in enumerate(zip(self._names, self._rows_read(batch), strict=True)):
            ends, latest_ms, delay_ms = (
                self._published.get(self._topics[name]),
                latest[at],
                self._delays_ms[at],
            )
            published = None if ends is None else max(read, sum(ends.values()))
            reached_ms = None if latest_ms is None or delay_ms is None else latest_ms - delay_ms
            seen.append(InputSeen(name, read, published, reached_ms, at in held, waits and at in held))
        return seen

    def _follow(self, committed: Sequence[int]) -> None:
        """Take the event times of batches into account that were committed since."""
        for batch in committed:
            if batch <= self._followed or self._times is None:
                continue
            ends = self._plan(batch).end_offsets
            try:
                latest = self._times.until({name: ends.get(self._topics[name], {}) for name in self._names})
            except TidemarkError:  # the run says what is wrong with its trace
                latest = None
            if latest is None:
                self._times = None
                self._tracker.restart()
                return
            if any(run.first_batch == batch for run in self._query.runs[1:]):
                self._tracker.restart()
            for number, time_ms in enumerate(latest):
                if time_ms is not None:
                    self._tracker.observe(number, time_ms)
            self._tracker.advance()
            self._followed = batch

    def _read_reports(self) -> None:
        log, query_id = self._query.event_log(), self._query.query_id
        if log is None or query_id is None:
            return
        if self._tail is None or self._tail.began_in != log[0]:
            self._tail = ProgressTail(*log)
        for report in self._tail.new(query_id):
            rows = report.get("sink", {}).get("numOutputRows", -1)
            if rows >= 0:
                self._out[report["batchId"]] = rows


def _faults_of(injector: FaultInjector | None) -> FaultsSeen | None:
    if injector is None:
        return None
    done = [fault for fault in list(injector.journal) if fault.injected]
    recovered = sum(fault.recovery_s is not None for fault in done)
    return FaultsSeen(injector.planned, len(done), recovered, injector.waits_for)


class _EventTimes:
    """The event times of traces, read only as far as batches have read them."""

    def __init__(self, contract: Contract | Chain, traces: Sequence[Path]) -> None:
        self._contract = contract
        self._traces = traces
        self._inputs = [one.topic for one in inputs_of(contract)]
        self._readers = [event_reader(contract, number) for number in range(len(self._inputs))]
        self._chunks: Iterator[list[_Record]] | None = None
        self._waiting: dict[tuple[str, int], deque[int | None]] = {}
        """Times in milliseconds of records that no batch has read, by topic and partition."""
        self._taken: dict[tuple[str, int], int] = {}
        """How many records batches have read."""

    def until(self, ends: Mapping[str, Mapping[str, int]]) -> list[int | None] | None:
        """The latest time of each input among records before these end offsets that were not read before.

        ``None`` if there are more records than are read.
        """
        if self._chunks is None:
            if sum(map(count_records, self._traces)) > COUNTED_RECORDS:
                return None
            self._chunks = self._in_chunks()
        wanted = {
            (name, int(partition)): end for name, parts in ends.items() for partition, end in parts.items()
        }
        while any(
            self._taken.get(at, 0) + len(self._waiting.get(at, ())) < end for at, end in wanted.items()
        ):
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._read(chunk)
        found: list[int | None] = [None] * len(self._inputs)
        for (name, partition), end in wanted.items():
            number, waiting = self._inputs.index(name), self._waiting.get((name, partition), deque())
            some = [
                waiting.popleft()
                for _ in range(min(end - self._taken.get((name, partition), 0), len(waiting)))
            ]
            self._taken[name, partition] = self._taken.get((name, partition), 0) + len(some)
            times = [time for time in (*some, found[number]) if time is not None]
            found[number] = max(times, default=None)
        return found

    def _read(self, chunk: Sequence[_Record]) -> None:
        for name, read in zip(self._inputs, self._readers, strict=True):
            some = [(partition, value) for topic, partition, value in chunk if topic == name]
            for (partition, _), (time_us, _) in zip(some, read([value for _, value in some]), strict=True):
                times = self._waiting.setdefault((name, partition), deque())
                times.append(None if time_us is None else time_us // US_PER_MS)

    def _in_chunks(self) -> Iterator[list[_Record]]:
        for path in self._traces:
            with TraceReader(path) as reader, decoded_values(path, self._contract.to_json()) as decoded:
                records = ((one.topic, one.partition, decoded(one)) for one in reader)
                while chunk := list(islice(records, _CHUNK_RECORDS)):
                    yield chunk
