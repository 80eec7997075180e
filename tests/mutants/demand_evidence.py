"""Mutants in how long a real run with faults took, and in how large its state was: each breaks what was demanded of it.

A :class:`Demanding` demands a little more than its run needs. ``damage`` draws the run out up to the demand, where
nothing is wrong (``beyond`` is 0), or one step beyond it. ``hide`` takes away what the demand is judged by: it is not
taken as met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import UNSET

from tests.mutants.evidence import Copy, change
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.formats.faults import Fault
from tidemark.formats.liveness import Demands
from tidemark.formats.time_forms import journal_ms
from tidemark.oracle import judge

JOIN = "left_outer"
FAULTS = "executor@planned,master@planned~10"
"""One that the query recovers from, and one that lasts, during which it commits batches."""
MANY_SLICES = ("--slices", "16")
"""So that batches are left for the other, whichever of the two comes first."""
MORE_MS, MORE_ROWS = 5_000, 100
"""So much more is demanded than the run needs."""
RECOVERY_STEP_MS = 10
"""The journal has recoveries in hundredths of a second."""
KEPT = Demands(
    recover_within_s=1e6, progress_batches=1, watermark_stands_at_most_s=1e6, state_rows_at_most=10**9
)
"""What is demanded besides, and kept by each mutant of another demand."""


@dataclass(frozen=True)
class Demanding:
    """``demands`` are the run's; ``killed_by`` must kill ``damage``, and nothing else but what ``also`` permits."""

    killed_by: str
    demands: Callable[[Copy], dict[str, Any]]
    damage: Callable[..., None]
    hide: Callable[[Copy], None]
    also: tuple[str, ...] = ()


def problems(run: RunDirectory, name: str, folder: Path) -> tuple[RunDirectory, list[str]]:
    """The evidence of a mutant, and what of it survived: beyond its demand, up to it, and with nothing to see."""
    mutant = DEMAND_EVIDENCE[name]
    beyond, up_to_it = partial(mutant.damage, beyond=1), partial(mutant.damage, beyond=0)
    damages = {"beyond": beyond, "up to it": up_to_it, "hidden": mutant.hide}
    damaged = {what: _damaged(run, mutant, damage, folder / name / what) for what, damage in damages.items()}
    said = {what: judge(one) for what, one in damaged.items()}
    found = {what: {*one.findings_total} - {*mutant.also} for what, one in said.items()}
    unseen = any("it was not judged whether" in why for why in said["hidden"].inconclusive)
    is_right = {
        "beyond": said["beyond"].verdict == "INVALID" and found["beyond"] == {mutant.killed_by},
        "up to it": not found["up to it"] and not said["up to it"].inconclusive,
        "hidden": said["hidden"].verdict == "UNKNOWN" and not found["hidden"] and unseen,
    }
    return damaged["beyond"], [
        f"{what}: {said[what].verdict} {said[what].findings_total} {said[what].inconclusive}"
        for what, right in is_right.items()
        if not right
    ]


def _damaged(
    run: RunDirectory, mutant: Demanding, damage: Callable[[Copy], None], folder: Path
) -> RunDirectory:
    copy = Copy(run, folder)
    copy.manifest = change(copy.manifest, demands=change(KEPT, **mutant.demands(copy)))
    damage(copy)
    return copy.write()


# A recovery


def _hit(copy: Copy, fault: Fault) -> Batch:
    return next(batch for batch in copy.batches if batch.batch == fault.batch)


def _recovery_ms(copy: Copy, fault: Fault) -> int:
    """As the journal has it, or else by the commit of its batch."""
    if fault.recovery_s is not None:
        return round(1000 * fault.recovery_s)
    return _committed_ms(_hit(copy, fault)) - journal_ms(fault.at_utc)


def _slowest(copy: Copy) -> Fault:
    return max((fault for fault in copy.faults if fault.injected), key=lambda one: _recovery_ms(copy, one))


def within(copy: Copy) -> dict[str, Any]:
    """A recovery that takes some seconds longer than the slowest."""
    return {"recover_within_s": (_recovery_ms(copy, _slowest(copy)) + MORE_MS) / 1000}


def recovery_drawn_out(copy: Copy, beyond: int) -> None:
    """The slowest, and with it all that follows."""
    fault, by_ms = _slowest(copy), MORE_MS + RECOVERY_STEP_MS * beyond
    if fault.recovery_s is not None:
        longer = change(fault, recovery_s=(_recovery_ms(copy, fault) + by_ms) / 1000)
        copy.faults[copy.faults.index(fault)] = longer
    stand_still(copy, _committed_ms(_hit(copy, fault)), by_ms)


def within_by_commits(copy: Copy) -> dict[str, Any]:
    """The same of a journal without recoveries, as the fault injector leaves it if a run ends before them."""
    copy.faults = [change(fault, recovery_s=None) for fault in copy.faults]
    return within(copy)


def commit_of_a_fault_hidden(copy: Copy) -> None:
    """The journal has no recovery, and the batch no time of its commit."""
    slowest = _slowest(copy)
    hit = _hit(copy, slowest)
    copy.batches[copy.batches.index(hit)] = change(hit, committed_at_ms=UNSET)
    copy.faults = [change(fault, recovery_s=None) for fault in copy.faults]


# Progress


def _lasting(copy: Copy) -> Fault:
    [fault] = [one for one in copy.faults if one.injected and one.ended_at_utc is not None]
    return fault


def _progress(copy: Copy) -> list[tuple[Batch, int]]:
    """The batches that were committed during the fault, up to the last that has read rows; how many each has read."""
    fault = _lasting(copy)
    assert fault.ended_at_utc is not None
    begin_ms, end_ms = journal_ms(fault.at_utc), journal_ms(fault.ended_at_utc)
    read = [sum(sum(ends.values()) for ends in batch.end_offsets.values()) for batch in copy.batches]
    found = [
        (batch, now - before)
        for batch, now, before in zip(copy.batches, read, [0, *read], strict=False)
        if begin_ms < _committed_ms(batch) <= end_ms
    ]
    while found and not found[-1][1]:
        del found[-1]
    assert found, "no batch with input was committed while the fault lasted: this run shows no progress"
    return found


def batches_during_the_fault(copy: Copy) -> dict[str, Any]:
    return {"progress_batches": len(_progress(copy))}


def rows_during_the_fault(copy: Copy) -> dict[str, Any]:
    return {"progress_batches": None, "progress_rows": sum(rows for _, rows in _progress(copy))}


def batch_moved_out_of_the_fault(copy: Copy, beyond: int) -> None:
    """Its commit, and all that follows, to the end of the fault."""
    fault, (last, _) = _lasting(copy), _progress(copy)[-1]
    assert fault.ended_at_utc is not None
    at_ms = _committed_ms(last)
    stand_still(copy, at_ms, journal_ms(fault.ended_at_utc) - at_ms + beyond, but=fault)


def end_of_the_fault_hidden(copy: Copy) -> None:
    copy.faults = [change(fault, ended_at_utc=None) for fault in copy.faults]


# A watermark


def _longest_stand(copy: Copy) -> tuple[int, int]:
    """From when until when the watermark was in force that was it for longest."""
    begins = [
        min(_planned_ms(batch) for batch in batches)
        for _, batches in groupby(copy.batches, key=lambda batch: batch.watermark_ms)
    ]
    ends = [*begins[1:], max(_committed_ms(batch) for batch in copy.batches)]
    return max(zip(begins, ends, strict=True), key=lambda stand: stand[1] - stand[0])


def stands_at_most(copy: Copy) -> dict[str, Any]:
    begin_ms, end_ms = _longest_stand(copy)
    return {"watermark_stands_at_most_s": (end_ms - begin_ms + MORE_MS) / 1000}


def watermark_stands(copy: Copy, beyond: int) -> None:
    """The next one comes later, and all that follows."""
    stand_still(copy, _longest_stand(copy)[1], MORE_MS + beyond)


def plan_of_a_batch_hidden(copy: Copy) -> None:
    copy.batches[-1] = change(copy.batches[-1], planned_at_ms=UNSET)


# The state


def _largest(copy: Copy) -> tuple[int, dict[str, Any]]:
    """The rows of the largest state, and the report of it."""
    found = [
        (sum(one["numRowsTotal"] for one in report["stateOperators"]), report) for report in copy.progress
    ]
    return max(found, key=lambda one: one[0])


def rows_at_most(copy: Copy) -> dict[str, Any]:
    return {"state_rows_at_most": _largest(copy)[0] + MORE_ROWS}


def state_grows(copy: Copy, beyond: int) -> None:
    """By rows that the input does not explain."""
    _largest(copy)[1]["stateOperators"][0]["numRowsTotal"] += MORE_ROWS + beyond


def as_many_rows(copy: Copy) -> dict[str, Any]:
    return {"state_rows_at_most": _largest(copy)[0]}


def fewer_rows_demanded(copy: Copy, beyond: int) -> None:
    """Another promise than the one that the run kept."""
    rows = _largest(copy)[0] - beyond
    copy.manifest = change(copy.manifest, demands=change(copy.manifest.demands, state_rows_at_most=rows))


def reports_of_the_state_hidden(copy: Copy) -> None:
    """That of the largest, and of all that follow it."""
    largest = _largest(copy)[1]["batchId"]
    copy.progress = [report for report in copy.progress if report["batchId"] < largest]


# Times


def stand_still(copy: Copy, at_ms: int, by_ms: int, *, but: Fault | None = None) -> None:
    """All that was at this time or after it is so much later; of a fault that is named only what is not its end."""

    def later(value: Any) -> Any:
        return value + by_ms if isinstance(value, int) and value >= at_ms else value

    copy.batches = [
        change(
            batch, planned_at_ms=later(batch.planned_at_ms), committed_at_ms=later(batch.committed_at_ms)
        )
        for batch in copy.batches
    ]  # fmt: skip
    copy.faults = [
        change(
            fault,
            at_utc=_later(fault.at_utc, at_ms, by_ms),
            ended_at_utc=fault.ended_at_utc
            if fault == but or fault.ended_at_utc is None
            else _later(fault.ended_at_utc, at_ms, by_ms),
        )
        for fault in copy.faults
    ]


def _later(text: str, at_ms: int, by_ms: int) -> str:
    if journal_ms(text) < at_ms:
        return text
    return (datetime.fromisoformat(text) + timedelta(milliseconds=by_ms)).isoformat(timespec="milliseconds")


def _planned_ms(batch: Batch) -> int:
    assert isinstance(batch.planned_at_ms, int)
    return batch.planned_at_ms


def _committed_ms(batch: Batch) -> int:
    assert isinstance(batch.committed_at_ms, int)
    return batch.committed_at_ms


DEMAND_EVIDENCE = {
    "recovery drawn out": Demanding("slow_recoveries", within, recovery_drawn_out, commit_of_a_fault_hidden),
    "recovery drawn out that only the commit shows": Demanding(
        "slow_recoveries", within_by_commits, recovery_drawn_out, commit_of_a_fault_hidden
    ),
    "batch moved out of a fault": Demanding(
        "standstills", batches_during_the_fault, batch_moved_out_of_the_fault, end_of_the_fault_hidden
    ),
    "rows moved out of a fault": Demanding(
        "standstills", rows_during_the_fault, batch_moved_out_of_the_fault, end_of_the_fault_hidden
    ),
    "watermark that stands": Demanding(
        "stalled_watermarks", stands_at_most, watermark_stands, plan_of_a_batch_hidden
    ),
    "state that grows": Demanding(
        "oversized_states", rows_at_most, state_grows, reports_of_the_state_hidden, ("wrong_metrics",)
    ),
    "state of a row less demanded": Demanding(
        "oversized_states", as_many_rows, fewer_rows_demanded, reports_of_the_state_hidden
    ),
}
