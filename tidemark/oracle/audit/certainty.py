"""Which output rows of an audited query are certain, which are possible, and which are owed.

Free of I/O. The SQL oracle answers with the watermarks of the log. Where rows are ``unsure`` it is asked with all of
them accepted, and again with those dropped that would make a difference. A row that is right both ways is certain; one
that is right in one is possible. The rules are monotonous, so that no mixture has to be tried:

* a pair is certain if both rows are sure, else possible;
* a NULL row is possible if no sure row of the other side is its partner; it is certain if its own row is sure, none of
  the other side is its partner, and no record of that side was deleted that could be;
* a left semi row is certain if it is sure and has a sure partner; it is possible with any partner, and with none if
  records of the right side were deleted;
* of a row that is in the state before the first batch that can be judged the state says whether it has met a partner.

All that was deleted counts as a partner, for nothing in a log bounds the event times of records that are gone; only
the caller may state one (``deleted_until_ms``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tidemark.formats.contract import PRESERVED
from tidemark.oracle.audit.audited_history import AuditedHistory, without
from tidemark.oracle.compare.join_comparison import Defects
from tidemark.oracle.expectation import defects_of, matched_rows
from tidemark.oracle.input.history import ROW_BITS, Disposition, History, alone, first_of, right_of
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS, window
from tidemark.oracle.sql.join_answer import SqlAnswer, ask


@dataclass(frozen=True)
class Certainty:
    """Output rows by identity: those that may come, and of them those that are right for certain."""

    possible: set[int]
    certain: set[int]


@dataclass(frozen=True)
class Expected:
    """What may come of an audited query, and what must.

    ``rows`` is up to the last planned batch, ``owed`` up to the last one that owes its rows. ``due`` is the batch of
    each row that Spark gives; ``not_due`` are preserved rows without a partner whose NULL row no batch owes yet.
    ``disposition`` takes every unsure row for accepted, and those for late that the state shows to have been.
    """

    rows: Certainty
    owed: Certainty
    due: dict[int, int]
    defects: Defects
    not_due: list[int]
    disposition: np.ndarray
    matched: set[int] = field(default_factory=set)

    def lost_by_defect(self, identity: int) -> str | None:
        """The known defect by which Spark does not give a row that is right."""
        return self.defects.lost.get(identity)


def expect(audited: AuditedHistory) -> Expected:
    """Ask the SQL oracle."""
    history = audited.counted()
    owing = audited.owing(history)
    answer = ask(history, by_checkpoint=True)
    now = answer if owing is history else ask(owing, by_checkpoint=True)
    rows = _certainty(audited, history, answer)
    owed = rows if owing is history else _certainty(audited, owing, now)
    matched = set(
        np.flatnonzero(np.frombuffer(matched_rows(history, answer.identity[answer.is_right]), bool)).tolist()
    )
    comes = np.flatnonzero(answer.comes)
    disposition = answer.disposition.copy()
    disposition[list(audited.by_state.late)] = Disposition.LATE
    return Expected(
        rows=rows,
        owed=owed,
        due=dict(zip(answer.identity[comes].tolist(), answer.batch[comes].tolist(), strict=True)),
        defects=Defects(lost=defects_of(now).lost, added=defects_of(answer).added),
        not_due=_not_due(audited, now, matched),
        disposition=disposition,
        matched=matched,
    )


def _certainty(audited: AuditedHistory, history: History, answer: SqlAnswer) -> Certainty:
    right = set(answer.identity[answer.is_right].tolist())
    if history.contract.output.right_id is None:
        return _of_semi(audited, history, answer, right)
    unsure = audited.unsure
    pairs = {identity for identity in right if right_of(identity) is not None}
    possible, certain = set(pairs), set(pairs)
    if unsure:
        certain = {one for one in pairs if not {first_of(one), right_of(one)} & unsure}
    for side in PRESERVED.get(history.contract.kind, ()):
        nulls = _nulls_of(history, right - pairs, side)
        others = [row for row in unsure if history.rows.side[row] != side]
        at_most = _nulls_of(history, _right_without(history, others), side) if others else nulls
        possible |= at_most | nulls
        of_unmatched = {one for one in at_most if first_of(one) in audited.by_state.unmatched}
        certain |= {
            one
            for one in nulls | of_unmatched
            if first_of(one) not in unsure and not _may_have(audited, first_of(one))
        }
    never = {alone(row) for row in audited.by_state.matched}
    return Certainty(possible - never, certain - never)


def _of_semi(audited: AuditedHistory, history: History, answer: SqlAnswer, right: set[int]) -> Certainty:
    certain = _right_without(history, audited.unsure) if audited.unsure else set(right)
    possible = set(right)
    if audited.may_lack(RIGHT):
        side = np.frombuffer(bytes(history.rows.side), dtype=np.uint8)
        accepted = np.flatnonzero((answer.disposition == Disposition.ACCEPTED) & (side == LEFT))
        possible |= {alone(row) for row in accepted.tolist() if _may_have(audited, row)}
    else:
        possible -= {alone(row) for row in audited.by_state.unmatched} - certain
    return Certainty(possible, certain)


def _may_have(audited: AuditedHistory, row: int) -> bool:
    """Whether a record that is not here any more may be the partner of a row; a NULL key matches nothing."""
    rows, until_ms = audited.history.rows, audited.about.deleted_until_ms
    side, time_us = rows.side[row], rows.time_us[row]
    if not audited.may_lack(1 - side) or rows.key[row] < 0:
        return False
    matches = window(audited.history.contract.bound)
    if until_ms is None or matches.is_boundless:
        return True
    if time_us == NULL_TIME_US:
        return False  # it matches nothing where times are compared
    earliest_us = time_us - matches.upper_us if side == LEFT else time_us + matches.lower_us
    return earliest_us <= latest_of(audited.history, until_ms)


def latest_of(history: History, until_ms: int) -> int:
    """The latest time, or end of a window, of a record up to an event time in milliseconds."""
    until_us = (until_ms + 1) * US_PER_MS - 1
    length_ms = history.contract.bound.window_ms
    return (
        until_us if length_ms is None else (until_us // (length_ms * US_PER_MS) + 1) * length_ms * US_PER_MS
    )


def _right_without(history: History, rows: frozenset[int] | list[int]) -> set[int]:
    answer = ask(without(history, rows), by_checkpoint=True)
    return set(answer.identity[answer.is_right].tolist())


def _nulls_of(history: History, right: set[int], side: int) -> set[int]:
    return {one for one in right if right_of(one) is None and history.rows.side[first_of(one)] == side}


def _not_due(audited: AuditedHistory, owing: SqlAnswer, matched: set[int]) -> list[int]:
    """Preserved rows that were accepted, have no partner, and whose NULL row no batch owes yet."""
    history = audited.history
    preserved = PRESERVED.get(history.contract.kind, ())
    owed = set((owing.identity[owing.is_right] >> ROW_BITS).tolist())
    accepted = np.flatnonzero(owing.disposition == Disposition.ACCEPTED).tolist()
    return [
        row
        for row in accepted
        if history.rows.side[row] in preserved and row not in matched and row not in owed
        and row not in audited.unsure and row not in audited.by_state.matched
    ]  # fmt: skip
