"""What the state after the last batch before a trimmed log says of the rows that were read until then.

Free of I/O. Whether such a row was late is not in the log, but the state after the batch before the first that can be
judged has what was accepted and may still be needed. Rows of the state and of the input are compared as multisets, by
key, time and place, as far as the state has these:

* a row that is in the state was accepted;
* a row that would be in the state had it been accepted, and is not there, was late;
* all that a row owes came until then if it was evicted, if a condition of its own side kept it out of the state, or if
  it is a left semi row that has met its partner: it is ``passed``, and what it gave is of batches that no log has;
* a row of a preserved side that is in the state and was ``matched`` is owed no NULL row. One that is ``unmatched`` has
  met no partner until then, whichever of them were late; so has a left semi row that is in the state, unless it is
  marked as matched, as those that came are before Spark 4.2.

What it does not say: which of several rows with the same key and time are in the state, if only some are; whether a row
was accepted that had been evicted by then. A row that is in the state although it had to be evicted is there by a known
defect of Spark, which may give what it owes later or never: it counts as passed. A state that does not fit the input is
not used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.formats.evidence import StateRow
from tidemark.oracle.compare.state_comparison import NAMES, Kept, as_kept, kept_of
from tidemark.oracle.input.history import BatchRows, Disposition, History
from tidemark.oracle.input.state_fields import fields_of
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS, evicted_at_ms


@dataclass(frozen=True)
class StateKnowledge:
    """Rows that were read before the first batch that can be judged, by what the state says of them.

    ``accepted`` and ``late`` are those whose disposition was not known. ``passed`` can give nothing any more; without a
    state these are the evicted rows, and those that a condition kept out. ``matched`` are in the state and owed no NULL
    row; ``unmatched`` are in the state, and have met no partner until then.
    ``ambiguous`` counts rows that the state does not tell apart. ``misfit`` says why the state was not used.
    """

    accepted: frozenset[int] = frozenset()
    late: frozenset[int] = frozenset()
    passed: frozenset[int] = frozenset()
    matched: frozenset[int] = frozenset()
    unmatched: frozenset[int] = frozenset()
    ambiguous: int = 0
    misfit: str = ""
    is_read: bool = False


@dataclass
class _Found:
    """What is known so far."""

    accepted: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    passed: set[int] = field(default_factory=set)
    matched: set[int] = field(default_factory=set)
    unmatched: set[int] = field(default_factory=set)
    ambiguous: int = 0
    unexplained: int = 0
    missing: int = 0


def without_state(history: History, unsure: Iterable[int]) -> StateKnowledge:
    """What follows from the times of rows alone."""
    first = history.batches[0] if history.batches else None
    if first is None:
        return StateKnowledge()
    return StateKnowledge(passed=frozenset(row for row in unsure if _is_out(history, first, row)))


def from_state(
    history: History, unsure: frozenset[int], state: Iterable[StateRow], *, is_whole: bool
) -> StateKnowledge:
    """Compare the state with the rows of the first batch; ``is_whole``: no record of the input was deleted."""
    first = history.batches[0]
    read: tuple[list[StateRow], list[StateRow]] = ([], [])
    for kept in state:
        if kept.batch == first.plan.batch:
            read[NAMES.index(kept.side)].append(kept)
    found = _Found()
    for side in (LEFT, RIGHT):
        _compare(history, unsure, side, read[side], found)
    if found.missing or (is_whole and found.unexplained):
        plain = without_state(history, unsure)
        return StateKnowledge(passed=plain.passed, misfit=_misfit(found), is_read=True)
    return StateKnowledge(
        accepted=frozenset(found.accepted & unsure),
        late=frozenset(found.late & unsure),
        passed=frozenset(found.passed & unsure),
        matched=frozenset(found.matched),
        unmatched=frozenset(found.unmatched),
        ambiguous=found.ambiguous,
        is_read=True,
    )


def _compare(
    history: History, unsure: frozenset[int], side: int, read: Sequence[StateRow], found: _Found
) -> None:
    """Compare one side, group by group of rows that look alike."""
    known = fields_of(read)
    there: dict[Kept, list[StateRow]] = defaultdict(list)
    for kept in read:
        there[as_kept(kept, known)].append(kept)
    ours: dict[Kept, list[int]] = defaultdict(list)
    for row in _candidates(history, side):
        ours[kept_of(history, row, known)].append(row)
    for group, rows in ours.items():
        kept_rows = there.get(group, ())
        _settle(history, unsure, rows, kept_rows, found)
        if len(kept_rows) >= len(rows):
            _take_flags(history, rows, kept_rows, found)
    for row in history.optional.intersection(history.batches[0].rows[side]):
        ours[kept_of(history, row, known)].append(row)  # Spark may have stored it, or not
    found.unexplained += sum(max(0, len(some) - len(ours.get(group, ()))) for group, some in there.items())


def _take_flags(history: History, rows: Sequence[int], kept: Sequence[StateRow], found: _Found) -> None:
    """Say whether rows that are in the state were matched.

    A left semi row leaves the state with its first match; before Spark 4.2 it stays there, and is marked as matched.
    """
    side, kind = history.rows.side[rows[0]], history.contract.kind
    rows = [row for row in rows if not _is_out(history, history.batches[0], row)]
    flags = {one.matched for one in kept}
    if kind is JoinKind.LEFT_SEMI and side == LEFT:
        if True not in flags:
            found.unmatched.update(rows)
        elif flags == {True}:
            found.passed.update(rows)
    elif side in PRESERVED.get(kind, ()) and flags == {True}:
        found.matched.update(rows)
    elif side in PRESERVED.get(kind, ()) and flags == {False}:
        found.unmatched.update(rows)


def _settle(
    history: History, unsure: frozenset[int], rows: Sequence[int], kept: Sequence[StateRow], found: _Found
) -> None:
    """Say what the state has of rows that look alike."""
    first = history.batches[0]
    loose = [row for row in rows if _may_be_out(history, first, row)]
    firm = [row for row in rows if row not in set(loose)]
    sure = [row for row in firm if row not in unsure]
    if len(kept) >= len(rows):
        found.accepted.update(row for row in rows if not _is_out(history, first, row))
        found.passed.update(row for row in rows if _is_out(history, first, row))
    elif not kept:
        found.late.update(row for row in firm if row in unsure)
        found.passed.update(loose)
        found.missing += len(sure)
    elif not loose and len(kept) <= len(sure):
        found.late.update(row for row in firm if row in unsure)
        found.missing += len(sure) - len(kept)
    else:
        found.ambiguous += sum(row in unsure for row in rows)


def _candidates(history: History, side: int) -> Iterator[int]:
    """The rows of a side that may be in that part of the state which is read: those up to the watermark."""
    first, rows = history.batches[0], history.rows
    limit_us = first.plan.watermark_ms * US_PER_MS
    for row in first.rows[side]:
        is_early = rows.time_us[row] <= limit_us or rows.time_us[row] == NULL_TIME_US
        if is_early and rows.disposition[row] not in (Disposition.UNREADABLE, Disposition.FILTERED):
            yield row


def _may_be_out(history: History, first: BatchRows, row: int) -> bool:
    """Whether a row may not be in the state although it was accepted."""
    is_semi = history.contract.kind is JoinKind.LEFT_SEMI and history.rows.side[row] == LEFT
    return is_semi or _is_out(history, first, row)


def _is_out(history: History, first: BatchRows, row: int) -> bool:
    """Whether a row has been evicted by the end of a batch, or never was in the state."""
    rows, pushdown = history.rows, history.pushdown
    side = rows.side[row]
    numbers: Mapping[str, list[int | None]] = rows.numbers[side]
    if not all(passes(numbers[what.field][row], what) for what in pushdown.early[side]):
        return True
    last_ms = evicted_at_ms(history.contract, side, rows.time_us[row], pushdown.limits_ms[side])
    return last_ms is not None and last_ms <= first.plan.watermark_ms


def _misfit(found: _Found) -> str:
    said = []
    if found.unexplained:
        said.append(f"{found.unexplained:,} of its rows are of no record")
    if found.missing:
        said.append(f"{found.missing:,} rows that were certainly accepted are not in it")
    return " and ".join(said)
