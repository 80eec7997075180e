"""The timeline of a run as a trace file for ui.perfetto.dev or chrome://tracing: components, batches, phases, faults.

Free of judgement and of I/O. It is in the *Trace Event Format*. Times are the wall clock of Spark's reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tidemark.oracle.spark.time_ranges import US_PER_MS
from tidemark.reports.run_view import BatchView, RunView

_RUN, _COMPONENTS = 1, 2
_PHASES = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
"""In the order in which Spark does them (``MicroBatchExecution``); it reports how long each took, not when it began."""


def perfetto_trace(view: RunView) -> bytes:
    """The trace of a run; it has no batches where Spark's progress reports are missing."""
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": list(_events(view))})


def _events(view: RunView) -> Iterator[dict[str, Any]]:
    yield _named("process_name", "run", _RUN)
    yield _named("thread_name", "batches", _RUN, 0)
    yield _named("process_name", "components", _COMPONENTS)
    for batch in view.batches:
        if batch.started_ms is not None:
            yield from _of_batch(view, batch, batch.started_ms)
    for number, track in enumerate(view.tracks):
        yield _named("thread_name", track.name, _COMPONENTS, number)
        for begin, end in track.spans:
            yield _span(track.name, begin, end - begin, {}, (_COMPONENTS, number))
    numbers = {track.name: number for number, track in enumerate(view.tracks)}
    for fault in view.faults:
        if not fault.injected or fault.at_ms is None:
            continue
        for name in fault.components:
            at = {"pid": _COMPONENTS, "tid": numbers.get(name, 0), "ts": fault.at_ms * US_PER_MS}
            yield {"ph": "i", "s": "g", "name": f"{fault.label} at {fault.point}", "cat": "fault", **at}


def _of_batch(view: RunView, batch: BatchView, begin: int) -> Iterator[dict[str, Any]]:
    """A batch, its phases one after the other below it, and what is counted after it."""
    rows = {one.name: mine.rows for one, mine in zip(view.inputs, batch.inputs, strict=True)}
    known = {
        "rows in": rows,
        "watermark_ms": batch.watermark_ms,
        "late_watermark_ms": batch.late_watermark_ms,
    }
    more = {view.rows: batch.joined, "NULL rows": batch.nulls, "findings": batch.findings or None}
    args = known | {name: value for name, value in more.items() if value is not None}
    place = _RUN, 0
    yield _span(f"batch {batch.batch}", begin, batch.duration_ms or 0, args, place)
    at = begin
    order = [name for name in _PHASES if name in batch.phases_ms]
    for name in [*order, *(name for name in batch.phases_ms if name not in order)]:
        ms = batch.phases_ms[name]
        length = min(ms, begin + (batch.duration_ms or 0) - at)
        if length > 0:
            yield _span(name, at, length, {}, place)
            at += length
    if batch.state_rows is not None:
        end = begin + (batch.duration_ms or 0)
        yield {
            "ph": "C", "name": "state rows", "pid": _RUN, "ts": end * US_PER_MS, "args": {"rows": batch.state_rows},
        }  # fmt: skip


def _span(name: str, begin: int, length: int, args: dict[str, Any], place: tuple[int, int]) -> dict[str, Any]:
    times = {"ts": begin * US_PER_MS, "dur": max(length, 0) * US_PER_MS}
    return {"ph": "X", "name": name, **times, "pid": place[0], "tid": place[1], "args": args}


def _named(kind: str, name: str, process: int, thread: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
