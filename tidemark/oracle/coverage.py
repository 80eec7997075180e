"""Coverage goals: what a run has to meet before "nothing was wrong" means anything.

Free of I/O. A coverage goal that is required and not met makes the verdict ``UNKNOWN``. ``flushed`` and
``all_input_read`` are asked of every run, ``every_fault_done`` of every run with faults, others by the contract
(``tidemark.oracle.contract_coverage``); the manifest asks for more, and waives some by name. One that the kind of join
cannot reach is not asked.

``flushed``                   a committed batch has a watermark past the last expiry of every row, so that all
                              is owed
``all_input_read``            records were published, and committed batches read all of them
``every_fault_done``          each fault in the journal was injected
``rows_joined``               a joined row came in its batch (inner, outer)
``semi_row_emitted``          a semi row came in its batch (left semi)
``null_row_after_eviction``     a NULL row of each preserved side came in its batch (outer)
``each_input_accepted``    a row of each input was accepted: it was readable, not filtered and not late
``most_records_readable``  at most half of the records of each input are unreadable
``each_key_field_decides``  for each key field two rows differ in it alone and would match without it
``each_bound_end_decides``  for each end of the bound two rows with the same key are beyond it
``late_row_dropped``          a row was late
``edge_row_seen``             a row lay within 1 ms of the late watermark of its batch
``unreadable_filtered``       a record was no event
``null_key_seen``             an event had no join key
``duplicate_event_seen``      two events of one side had the same id
``duplicate_permitted``         the sink wrote a row twice because its batch or task was run again
``written_kills_doubled``     drivers were killed when rows of their batch had been written by a sink without a
                              ledger, and in each of these batches rows came again
``fault_hit_running_batch``   faults were injected, and each proof says that its batch was planned and not committed,
                              or committed, if that is its point
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.formats.faults import AFTER_COMMIT, Fault, FaultComponent
from tidemark.oracle.compare.join_comparison import Seen
from tidemark.oracle.contract_coverage import Exercised, exercised, implied
from tidemark.oracle.input.history import NO_BATCH, History
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS, evicted_at_ms

Goals = Mapping[str, Exercised]
"""Coverage goals by name."""
ALWAYS_REQUIRED = ("flushed", "all_input_read")
WAIVABLE = (
    "rows_joined",
    "semi_row_emitted",
    "null_row_after_eviction",
    "each_input_accepted",
    "most_records_readable",
    "each_key_field_decides",
    "each_bound_end_decides",
    "late_row_dropped",
    "edge_row_seen",
    "unreadable_filtered",
    "null_key_seen",
    "duplicate_event_seen",
    "duplicate_permitted",
    "rows_came",
    "duplicate_dropped",
    "limit_reached",
)
"""What a run need not meet if it says so. The others say whether there was anything to judge, or whether the faults
happened that were asked for."""

_KINDS = {
    "rows_joined": (JoinKind.INNER, *PRESERVED),
    "semi_row_emitted": (JoinKind.LEFT_SEMI,),
    "null_row_after_eviction": (*PRESERVED,),
}


def reached(
    history: History, prediction: Prediction, counts: dict[str, int], faults: Sequence[Fault], seen: Seen
) -> Goals:
    """Each coverage goal of this kind of join, and whether the run met it."""
    semi = history.contract.kind is JoinKind.LEFT_SEMI
    pairs = {"semi_row_emitted": counts["semi_rows"]} if semi else {"rows_joined": counts["joined_rows"]}
    return {
        "flushed": Exercised(_flushed(history, prediction)),
        "all_input_read": Exercised(_all_read(history)),
        **{name: Exercised(count > 0) for name, count in pairs.items()},
        **exercised(history, prediction, seen),
        "edge_row_seen": Exercised(counts["edge"] > 0),
        **of_any_query(counts, faults, seen.permitted),
    }


def of_any_query(counts: Mapping[str, int], faults: Sequence[Fault], permitted: Mapping[int, int]) -> Goals:
    """The coverage goals that a join and a chain share."""
    met = {
        "every_fault_done": all(fault.injected for fault in faults),
        "late_row_dropped": counts["late"] > 0,
        "unreadable_filtered": counts["unreadable"] > 0,
        "null_key_seen": counts["null_key"] > 0,
        "duplicate_event_seen": counts["duplicate_events"] > 0,
        "duplicate_permitted": counts["duplicates_permitted"] > 0,
        "written_kills_doubled": written_kills_doubled(faults, permitted),
        "fault_hit_running_batch": hit_running_batches(faults),
    }
    return {name: Exercised(was) for name, was in met.items()}


def written_kills(faults: Sequence[Fault]) -> list[Fault]:
    """Those that killed a driver when rows of its batch had been written by a sink without a ledger."""
    return [
        fault
        for fault in faults
        if fault.killed(FaultComponent.DRIVER) and sum(fault.proof.get("rows", {}).values())
    ]


def written_kills_doubled(faults: Sequence[Fault], permitted: Mapping[int, int]) -> bool:
    """Whether there are such kills, and rows of each of their batches came again (``permitted``: batch -> how many)."""
    batches = {fault.batch for fault in written_kills(faults)}
    return bool(batches) and all(batch is not None and permitted.get(batch, 0) > 0 for batch in batches)


def hit_running_batches(faults: Sequence[Fault]) -> bool:
    """Whether faults were injected, each between the plan of its batch and its commit, or where its point is later."""
    proofs = [(fault.proof, fault.point in AFTER_COMMIT) for fault in faults if fault.injected]
    proofs += [(proof["again"], False) for proof, _ in proofs if "again" in proof]
    return bool(proofs) and all(
        proof.get("planned") is True and proof.get("committed") is is_committed
        for proof, is_committed in proofs
    )


def asked(history: History, faults: Sequence[Fault]) -> list[str]:
    """The coverage goals that a run has to meet unless it waives them, without those that its kind of join cannot."""
    names = [*required(faults), *history.manifest.goals, *implied(history)]
    kind = history.contract.kind
    return [name for name in dict.fromkeys(names) if kind in _KINDS.get(name, (kind,))]


def required(faults: Sequence[Fault]) -> list[str]:
    """What every run has to meet, and every run with faults."""
    return [*ALWAYS_REQUIRED, *(["every_fault_done"] if faults else [])]


def waived_in_vain(waived: Sequence[str]) -> list[str]:
    """Why a run is inconclusive that waives what cannot be waived."""
    return [
        f"the coverage goal {name!r} cannot be waived; these can: {', '.join(WAIVABLE)}"
        for name in waived
        if name not in WAIVABLE
    ]


def _all_read(history: History) -> bool:
    """Whether there are records besides the sentinels, and all of them are in a committed batch."""
    committed = {batch.plan.batch for batch in history.batches if batch.plan.committed}
    last = max(committed, default=NO_BATCH)
    read = history.rows.batch[: history.rows.first_sentinel]
    return len(read) > 0 and min(read) != NO_BATCH and max(read) <= last


def _flushed(history: History, prediction: Prediction) -> bool:
    """Whether nothing but sentinels can still be in the state, or be owed a row."""
    committed = [batch.plan.batch for batch in history.batches if batch.plan.committed]
    if not committed:
        return False
    watermark_ms = prediction.watermarks_ms[committed[-1]]
    ends_ms = (_last_eviction_ms(history, side) for side in (LEFT, RIGHT))
    return all(end_ms is None or end_ms <= watermark_ms for end_ms in ends_ms)


def _last_eviction_ms(history: History, side: int) -> int | None:
    """The smallest watermark that evicts all rows of a side that any watermark evicts; ``None``: there are none.

    Rows behind a limit are never evicted, and those up to it are.
    """
    rows, limits_ms = history.rows, history.pushdown.limits_ms[side]
    limit_us = min(limits_ms, default=math.inf) * US_PER_MS
    latest_us = max(
        (
            time_us
            for time_us, of, disposition in zip(
                rows.time_us[: rows.first_sentinel], rows.side, rows.disposition, strict=False
            )
            if of == side and not disposition and time_us != NULL_TIME_US and time_us <= limit_us
        ),
        default=None,
    )
    return None if latest_us is None else evicted_at_ms(history.contract, side, latest_us, limits_ms)
