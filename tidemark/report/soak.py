"""A soak for people: a line for each run while it lasts, and a document of what was done at which point."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemark.cases.soak import Soak, SoakRun

COMMAND = "tidemark soak --minutes M --seed S --markdown FILE"


def run_line(one: SoakRun) -> str:
    """What became of a run, in a line."""
    done = sum(fault.done for fault in one.faults)
    said = one.problem or _list(one.findings) or "; ".join(one.doubts)
    known = f" ({', '.join(one.known_defects)})" if one.known_defects else ""
    head = f"run {one.number:>3}  {one.pipeline:<12} {one.sink:<13} {one.verdict}{known}"
    tail = f"{done} of {len(one.faults)} faults, {one.rows:,} rows, {one.seconds:.0f} s"
    return f"{head}  {tail}{f': {said}' if said else ''}"


def lines(soak: Soak) -> Iterator[str]:
    """The summary."""
    for name, value in soak.summary().items():
        yield f"{name.replace('_', ' '):<22} {_shown(value)}"
    for one in soak.runs:
        if one.findings or one.failed:
            yield run_line(one)
            yield f"  evidence: {one.run_dir}; again: {one.command}"


def _shown(value: object) -> str:
    return (_list(value) or "none") if isinstance(value, Mapping) else f"{value:,}"


def _list(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def markdown(soak: Soak, versions: Mapping[str, str]) -> str:
    """The document."""
    return "\n".join([*_opening(soak, versions), *_points(soak), *_recovery(soak), *_runs(soak), ""])


def _opening(soak: Soak, versions: Mapping[str, str]) -> Iterator[str]:
    said = soak.summary()
    outcome = {0: "it holds", 1: "something was found"}.get(soak.exit_code, "too much missed or failed")
    of = f"Spark {versions.get('spark', '?')}, Kafka {versions.get('kafka', '?')}, seed {soak.options.seed}"
    yield from (
        "# Joins under faults",
        "",
        f"Made by `{COMMAND}`: run after run on one stack, each with a join, a sink, a trace and a schedule of",
        "faults of its seed; every fault is proved in the journal of its run, every row is judged. A soak holds if",
        "nothing is found that is no known defect of Spark, no run fails, and at most one fault in ten misses.",
        "",
        f"{of}, {said['minutes']} minutes: **{outcome}**.",
        "",
    )
    for name, value in said.items():
        if name not in ("minutes", "kinds", "recovery_s"):
            yield f"- {name.replace('_', ' ')}: {_shown(value)}"
    yield ""


def _points(soak: Soak) -> Iterator[str]:
    """Faults that were done, by point and join."""
    pipelines = sorted({one.pipeline for one in soak.runs})
    done = Counter((fault.fault, fault.point, one.pipeline) for one, fault in soak.faults if fault.done)
    missed = Counter((fault.fault, fault.point) for _, fault in soak.faults if not fault.done)
    yield f"| fault | point | {' | '.join(pipelines)} | missed |"
    yield f"|---|---|{'---:|' * (len(pipelines) + 1)}"
    for fault, point in sorted({*missed, *((name, at) for name, at, _ in done)}, key=str):
        cells = [str(done[fault, point, name] or "-") for name in pipelines]
        yield f"| {fault} | {point} | {' | '.join(cells)} | {missed[fault, point] or '-'} |"
    yield ""


def _recovery(soak: Soak) -> Iterator[str]:
    """From a strike to the commit of the batch that it hit, in seconds."""
    times: dict[str, list[float]] = defaultdict(list)
    for _, fault in soak.faults:
        if fault.done and fault.recovery_s is not None:
            times[fault.fault].append(fault.recovery_s)
    yield "| recovery, s | faults | min | median | max |"
    yield "|---|---:|---:|---:|---:|"
    for name, found in sorted(times.items()):
        yield f"| {name} | {len(found)} | {min(found):.1f} | {median(found):.1f} | {max(found):.1f} |"
    yield ""


def _runs(soak: Soak) -> Iterator[str]:
    for one in soak.runs:
        if one.findings or one.failed:
            yield f"- {run_line(one)}"
