"""What a run consisted of, in numbers for the report and for the coverage goals. Sentinels are not counted as rows.

Free of I/O. ``rows_in`` ``late`` ``unreadable`` ``null_key`` ``duplicate_events`` (an id seen before on its
side) and ``edge`` (within 1 ms of the late watermark) count input rows, ``<topic>_in`` ``<topic>_late`` those
of one topic; ``matched`` counts left rows with a partner;
``joined_rows`` ``null_rows`` ``semi_rows`` count right output rows that came, ``expected_rows`` those that
are predicted;
``recovery_ms`` is the longest recovery from a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tidemark.formats.contract import JoinKind
from tidemark.formats.faults import Fault
from tidemark.oracle.compare.join_comparison import Seen
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.input.history import ROW_MASK, Disposition, History
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, US_PER_MS

EDGE_US = 1 * US_PER_MS


def tally(history: History, prediction: Prediction, seen: Seen, faults: Sequence[Fault]) -> dict[str, int]:
    """All counts of a run, those of rows that its history leaves out included."""
    counts = {
        **_rows(history, prediction),
        **_output(history, prediction, seen),
        **of_batches(history),
        **of_faults(faults),
    }
    if (rest := history.rest) is not None:
        counts |= {name: counts[name] + many for name, many in rest.counts.items()}
        counts["duplicate_events"] = rest.duplicate_events
        counts |= {
            "data_batches": rest.data_batches,
            "no_data_batches": len(history.batches) - rest.data_batches,
        }
    return counts


def of_faults(faults: Sequence[Fault]) -> dict[str, int]:
    """How many faults there are in the journal, how many were injected, and the longest recovery."""
    return {
        "faults": len(faults),
        "faults_done": sum(fault.injected for fault in faults),
        "recovery_ms": round(1000 * max((fault.recovery_s or 0 for fault in faults), default=0)),
    }


def _rows(history: History, prediction: Prediction) -> dict[str, int]:
    rows = history.rows
    end = rows.first_sentinel
    side = np.frombuffer(rows.side, dtype=np.uint8)[:end]
    disposition = np.frombuffer(prediction.disposition, dtype=np.uint8)[:end]
    key = np.frombuffer(rows.key, dtype=np.int64)[:end]
    counts = {
        "rows_in": end - len(history.absent),
        "late": 0,
        "unreadable": 0,
        "null_key": 0,
        "duplicate_events": 0,
    }
    for number in (LEFT, RIGHT):
        mine, topic = side == number, history.side(number).topic
        late = int(np.sum(mine & (disposition == Disposition.LATE)))
        counts |= {f"{topic}_in": int(np.sum(mine)) - history.absent_of(number), f"{topic}_late": late}
        counts["late"] += late
        counts["duplicate_events"] += _repeated(rows.id[row] for row in np.flatnonzero(mine).tolist())
    counts["unreadable"] = int(np.sum(disposition == Disposition.UNREADABLE)) - len(history.absent)
    counts["null_key"] = int(np.sum((key < 0) & (disposition != Disposition.UNREADABLE)))
    counts["edge"] = _edge_rows(history, prediction, end)
    counts["matched"] = int(np.sum(np.frombuffer(prediction.matched, dtype=np.uint8)[:end][side == LEFT]))
    return counts


def _repeated(ids: Iterable[str | None]) -> int:
    known = [name for name in ids if name is not None]
    return len(known) - len(set(known))


def _edge_rows(history: History, prediction: Prediction, end: int) -> int:
    """Rows that took part, within 1 ms of a late watermark that is not the first one's 0."""
    rows = history.rows
    batch = np.frombuffer(rows.batch, dtype=np.int32)[:end]
    disposition = np.frombuffer(prediction.disposition, dtype=np.uint8)[:end]
    judged = (batch > 0) & ((disposition == Disposition.LATE) | (disposition == Disposition.ACCEPTED))
    late_us = np.array(
        [prediction.late_ms(number) * US_PER_MS for number in range(len(history.batches))] or [0]
    )
    limit_us = late_us[batch[judged]]
    time_us = np.frombuffer(rows.time_us, dtype=np.int64)[:end][judged]
    return int(np.sum((limit_us > 0) & (np.abs(time_us - limit_us) <= EDGE_US)))


def _output(history: History, prediction: Prediction, seen: Seen) -> dict[str, int]:
    came = np.array(seen.identities(), dtype=np.int64)
    joined = int(np.sum((came & ROW_MASK) != 0))
    alone = len(came) - joined
    semi = history.contract.kind is JoinKind.LEFT_SEMI
    names = ("output_records", "sentinel_rows", "duplicates_permitted", "not_compared")
    return {
        "joined_rows": joined,
        "null_rows": 0 if semi else alone,
        "semi_rows": alone if semi else 0,
        "expected_rows": len(prediction.batch_of),
        **{name: seen.counts[name] for name in names},
    }


def of_batches(history: History | ChainHistory) -> dict[str, int]:
    """How many batches were planned, committed, with data and run again."""
    plans = [batch.plan for batch in history.batches]
    with_data = sum(any(batch.rows) for batch in history.batches)
    return {
        "batches": history.planned,
        "committed_batches": sum(plan.committed for plan in plans),
        "data_batches": with_data,
        "no_data_batches": len(plans) - with_data,
        "batches_run_again": sum(plan.runs > 1 for plan in plans),
        "failed_tasks": sum(plan.failed_tasks for plan in plans),
    }
