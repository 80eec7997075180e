"""What a run had to do in time: recover, go on during faults, move its watermark, keep its state small.

Free of I/O and of any clock: all times are those of the evidence. A demand (``tidemark.formats.liveness``) that is
broken is a finding, with the numbers. One of which the evidence does not say enough, or that nothing put to the test,
makes the run inconclusive: it is never taken as met.

Measured of every run with times of its batches, demanded or not: ``observed_ms`` is the time from the first commit,
since a first batch takes as long as a query takes to start, to the last, or to where a query that hung was given up;
``overdue_ms`` is the part of it in which a batch was overdue: planned, and not committed within ``in_time_ms``, which
is ``OVERDUE_FACTOR`` times the median of all batches and at least ``LEAST_IN_TIME_MS``. A query that hung is overdue
from its last commit on. Availability is the share of the rest. ``watermark_stood_ms`` is the longest time that a
watermark was in force, ``state_rows`` the most rows in the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tidemark.formats.events import write_time
from tidemark.formats.evidence import Batch
from tidemark.formats.faults import CommitPoint, Fault
from tidemark.formats.liveness import Demands, Hang
from tidemark.formats.time_forms import journal_ms
from tidemark.oracle.findings import Finding, FindingLog

OVERDUE_FACTOR = 3
LEAST_IN_TIME_MS = 1_000
"""Calibration: a batch takes from 200 ms to some seconds, and on a busy machine now and then twice as long."""
OF_TIME = ("slow_recoveries", "standstills", "stalled_watermarks", "oversized_states")
"""The properties of broken demands: no row is wrong, and no other contract makes them right."""


@dataclass(frozen=True)
class LivenessEvidence:
    """What the demands are judged by: batches by id, the journal of faults, Spark's reports, and a hang."""

    batches: Sequence[Batch]
    faults: Sequence[Fault]
    progress: Sequence[Mapping[str, Any]]
    hang: Hang | None = None
    """One in which a batch was still to come."""


def measured(about: LivenessEvidence) -> dict[str, int]:
    """The counts of this module's docstring; those that the evidence does not say are missing."""
    counts = _overdue(about)
    if counts and (stood := _stands(about)):
        counts["watermark_stood_ms"] = max(until - since for since, until, _ in stood)
    if counts and (rows := _state_rows(about.progress)):
        counts["state_rows"] = max(rows.values())
    return counts


def check_demands(demands: Demands, about: LivenessEvidence, log: FindingLog) -> list[str]:
    """Add a finding for whatever breaks a demand; returns why the run is inconclusive of the others."""
    checks: list[tuple[object, Callable[[Demands, LivenessEvidence, FindingLog], Iterator[str]]]] = [
        (demands.recover_within_s, _check_recoveries),
        (demands.progress_batches or demands.progress_rows, _check_progress),
        (demands.watermark_stands_at_most_s, _check_watermarks),
        (demands.state_rows_at_most, _check_state),
    ]
    return [why for demanded, check in checks if demanded is not None for why in check(demands, about, log)]


def _check_recoveries(demands: Demands, about: LivenessEvidence, log: FindingLog) -> Iterator[str]:
    limit_s = demands.recover_within_s
    assert limit_s is not None
    done = [fault for fault in about.faults if fault.injected]
    if not done:
        yield _not_judged(f"recovery within {limit_s:g} s", "no fault was injected")
    for fault in done:
        awaited, took_s, is_over = _recovery(fault, about)
        if took_s is not None and took_s > limit_s:
            what = f"was committed {took_s:.1f} s" if is_over else f"was still not committed {took_s:.1f} s"
            message = (
                f"batch {awaited} {what} after {_named(fault)}, and {limit_s:g} s are demanded"
                f" ({took_s - limit_s:.1f} s more)"
            )
            log.add(Finding(property="slow_recoveries", message=message, batch=awaited))
        elif took_s is None or not is_over:
            yield _not_judged(
                f"recovery within {limit_s:g} s",
                f"the evidence does not say when batch {awaited} was committed after {_named(fault)}",
            )


def _recovery(fault: Fault, about: LivenessEvidence) -> tuple[int | None, float | None, bool]:
    """The batch whose commit ends the recovery, seconds from the fault to that, or to where the run was given up, and
    whether it is committed.
    """
    # At that point its batch was committed before: the next one shows the recovery.
    is_after = fault.point is CommitPoint.COMMITTED
    hit = None if fault.batch is None else fault.batch + is_after
    if fault.recovery_s is not None:
        return hit, fault.recovery_s, True
    batch = next((one for one in about.batches if one.batch == hit), None)
    committed_ms = None if batch is None or not batch.committed else _number(batch.committed_at_ms)
    if committed_ms is not None:
        return hit, max(0.0, (committed_ms - journal_ms(fault.at_utc)) / 1000), True
    if about.hang is not None and (is_after if batch is None else not batch.committed):
        return hit, (journal_ms(about.hang.seen_utc) - journal_ms(fault.at_utc)) / 1000, False
    return hit, None, False


def _check_progress(demands: Demands, about: LivenessEvidence, log: FindingLog) -> Iterator[str]:
    in_rows = demands.progress_batches is None
    least = demands.progress_rows if in_rows else demands.progress_batches
    what = f"{least} {'rows' if in_rows else 'batches'} during each fault"
    lasting = [
        (fault, fault.ended_at_utc)
        for fault in about.faults
        if fault.injected and fault.ended_at_utc is not None
    ]
    if not lasting:
        yield _not_judged(what, "no fault was injected that lasts: a pause, an outage, one of the network")
        return
    commits = _commits(about.batches)
    if commits is None:
        yield _not_judged(what, "the evidence does not say when each batch was committed")
        return
    rows = _rows_read(about.batches)
    for fault, end in lasting:
        begin_ms, end_ms = journal_ms(fault.at_utc), journal_ms(end)
        found = [batch for batch, at_ms in commits if begin_ms < at_ms <= end_ms]
        many = sum(rows[batch] for batch in found) if in_rows else len(found)
        if least is not None and many < least:
            counted = f"{many} input rows were in committed batches" if in_rows else _were_committed(many)
            message = (
                f"{counted} while {_named(fault)} lasted for {(end_ms - begin_ms) / 1000:.1f} s"
                f" (from {fault.at_utc}), and {least} are demanded"
            )
            log.add(Finding(property="standstills", message=message, batch=fault.batch))


def _check_watermarks(demands: Demands, about: LivenessEvidence, log: FindingLog) -> Iterator[str]:
    limit_s = demands.watermark_stands_at_most_s
    assert limit_s is not None
    stood = _stands(about)
    if not stood:
        why = (
            "the evidence does not say when each batch was planned and committed"
            if stood is None
            else "there is no batch"
        )
        yield _not_judged(f"a watermark that stands for at most {limit_s:g} s", why)
        return
    for since_ms, until_ms, batches in stood:
        if (until_ms - since_ms) / 1000 > limit_s:  # 1000 * 1.001 is less than 1001
            first, last = batches[0], batches[-1]
            which = f"batch {first.batch}" if first is last else f"batches {first.batch} to {last.batch}"
            message = (
                f"the watermark stood at {_moment(first.watermark_ms)} for {(until_ms - since_ms) / 1000:.1f} s"
                f" ({which}), and {limit_s:g} s are demanded"
            )
            log.add(Finding(property="stalled_watermarks", message=message, batch=first.batch))


def _check_state(demands: Demands, about: LivenessEvidence, log: FindingLog) -> Iterator[str]:
    limit = demands.state_rows_at_most
    assert limit is not None
    rows, what = _state_rows(about.progress), f"at most {limit:,} rows of state"
    if beyond := [batch for batch, many in sorted(rows.items()) if many > limit]:
        most = max(beyond, key=lambda batch: rows[batch])
        others = f"; {len(beyond)} batches left more than that, the first is batch {beyond[0]}"
        message = (
            f"batch {most} left {rows[most]:,} rows in the state, and at most {limit:,} are demanded"
            f"{others if len(beyond) > 1 else ''}"
        )
        log.add(Finding(property="oversized_states", message=message, batch=most))
        return
    committed = [batch.batch for batch in about.batches if batch.committed]
    at_most = _left_before(about.progress)
    unknown = [batch for batch in committed if batch not in rows and at_most.get(batch, limit + 1) > limit]
    if unknown or not committed:
        missing = (
            f"Spark's reports do not say how many batch {unknown[0]} left" if unknown else "there is none"
        )
        more = f" (nor {len(unknown) - 1:,} others)" if len(unknown) > 1 else ""
        yield _not_judged(what, f"{missing}{more}")


def _overdue(about: LivenessEvidence) -> dict[str, int]:
    """How long the run was observed, how long a batch was overdue, and what is in time."""
    spans = _spans(about)
    if not spans:
        return {}
    begin_ms, end_ms = spans[0][1], max(committed for _, committed in spans)
    in_time_ms = max(LEAST_IN_TIME_MS, round(OVERDUE_FACTOR * median(end - start for start, end in spans)))
    late = [(start + in_time_ms, end) for start, end in spans[1:] if end - start > in_time_ms]
    if about.hang is not None:
        seen_ms = journal_ms(about.hang.seen_utc)
        if seen_ms > end_ms:
            late.append((end_ms, seen_ms))
            end_ms = seen_ms
    return {
        "observed_ms": max(end_ms - begin_ms, 0),
        "overdue_ms": sum(end - start for start, end in late),
        "in_time_ms": in_time_ms,
    }


def _spans(about: LivenessEvidence) -> list[tuple[int, int]]:
    """Plan and commit of each committed batch, in order; empty if one of these times is not known."""
    spans = []
    for batch in about.batches:
        planned_ms, committed_ms = _number(batch.planned_at_ms), _number(batch.committed_at_ms)
        if not batch.committed:
            continue
        if planned_ms is None or committed_ms is None:
            return []
        spans.append((planned_ms, max(planned_ms, committed_ms)))
    return spans


def _stands(about: LivenessEvidence) -> list[tuple[int, int, list[Batch]]] | None:
    """For how long each watermark was in force, and the batches that had it; ``None`` if times are not known."""
    ends = [_number(batch.committed_at_ms) for batch in about.batches if batch.committed]
    begins = [_number(batch.planned_at_ms) for batch in about.batches]
    known, planned = [at for at in ends if at is not None], [at for at in begins if at is not None]
    if len(known) < len(ends) or len(planned) < len(begins):
        return None
    over_ms = max(
        [*known, *planned, *([] if about.hang is None else [journal_ms(about.hang.seen_utc)])], default=0
    )
    found: list[tuple[int, int, list[Batch]]] = []
    for batch, at_ms in zip(about.batches, planned, strict=True):
        if found and batch.watermark_ms <= found[-1][2][0].watermark_ms:
            found[-1][2].append(batch)
            continue
        if found:
            since_ms, _, batches = found[-1]
            found[-1] = (since_ms, at_ms, batches)
        found.append((at_ms, over_ms, [batch]))
    return found


def _commits(batches: Sequence[Batch]) -> list[tuple[int, int]] | None:
    """Each committed batch and the time of its commit; ``None`` if one of them is not known."""
    found = [(batch.batch, _number(batch.committed_at_ms)) for batch in batches if batch.committed]
    known = [(batch, at_ms) for batch, at_ms in found if at_ms is not None]
    return known if len(known) == len(found) else None


def _rows_read(batches: Sequence[Batch]) -> dict[int, int]:
    """How many offsets of the inputs each batch read."""
    found, before = {}, 0
    for batch in batches:
        now = sum(sum(ends.values()) for ends in batch.end_offsets.values())
        found[batch.batch], before = now - before, now
    return found


def _state_rows(progress: Sequence[Mapping[str, Any]], name: str = "numRowsTotal") -> dict[int, int]:
    """The rows that each batch left in the state of all operators together, where Spark reported them; or another count
    of its operators.
    """
    found = {}
    for report in progress:
        counts = [operator.get(name) for operator in report.get("stateOperators", [])]
        if counts and all(isinstance(one, int) for one in counts):
            found[int(report["batchId"])] = sum(counts)
    return found


def _left_before(progress: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """At most so many rows were left by the batch before each that is reported: what it left, and what it removed.

    A driver that was killed right after a commit has not reported that batch.
    """
    left, removed = _state_rows(progress), _state_rows(progress, "numRowsRemoved")
    return {batch - 1: left[batch] + removed[batch] for batch in left if batch in removed}


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _moment(watermark_ms: int) -> str:
    return write_time(watermark_ms * 1000) if watermark_ms else "its beginning"


def _named(fault: Fault) -> str:
    return f"{fault.label} at {fault.point} of batch {fault.batch}"


def _were_committed(many: int) -> str:
    return "1 batch was committed" if many == 1 else f"{many or 'no'} batches were committed"


def _not_judged(demand: str, why: str) -> str:
    return f"it was not judged whether there was {demand}: {why}"
