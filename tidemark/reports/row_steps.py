"""The life of one row, step by step and in words: what was expected of it, and what was observed.

Decides nothing: what was expected the model says, and a step is wrong if a finding of the verdict is about it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemark.formats.contract import Delivery
from tidemark.oracle.compare.wording import moment
from tidemark.oracle.input.history import NO_BATCH, Disposition, alone, first_of, right_of
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import LEFT, US_PER_MS, evicted_at_ms
from tidemark.reports.replayed_rows import ReplayedRows
from tidemark.reports.row_candidates import key_text, span
from tidemark.reports.row_life import LifeStep, MadeRow, OutputArrival

OF_STATE = ("lost_state", "leaked_state", "wrong_flags")
_SIDES = ("left", "right")


@dataclass(frozen=True)
class WrongRows:
    """What findings are about: input rows whose state is wrong, output rows with what was expected of them instead.

    ``due`` are the batches in which output rows were expected that never came, as far as findings know them.
    """

    in_state: Collection[int]
    expected: Mapping[int, str]
    due: Mapping[int, int]
    watermarks: bool


class RowSteps:
    """The steps of the rows of one run; ``wrong`` is what findings say of it."""

    def __init__(self, replayed: ReplayedRows, wrong: WrongRows) -> None:
        self._replayed = replayed
        self._account = replayed.account
        self._wrong = wrong
        self._history = replayed.history

    def of(self, row: int, made: list[MadeRow]) -> list[LifeStep]:
        """All steps of a row. ``made`` are the output rows that it is a part of."""
        batch = self._history.rows.batch[row]
        words, when = self._replayed.words, ""
        if (published := self._account.published.get(words.place(row))) is not None:
            when = published.text(self._history.rows.event_us[row])
        read = "by no batch" if batch == NO_BATCH else f"{self._account.by_batch(batch)}{self._ran(batch)}"
        steps = [
            LifeStep(what="published", observed=f"{words.place(row)}, event time {words.time(row)}{when}"),
            LifeStep(what="read", observed=read, batch=None if batch == NO_BATCH else batch),
        ]
        if batch != NO_BATCH:
            steps += [self._compared(row, batch), *self._state(row)]
        return steps + [self._made(one) for one in made]

    def _ran(self, batch: int) -> str:
        """What sets a batch apart, for a row that it read or wrote."""
        plan = self._history.batches[batch].plan
        return "".join([
            f", which ran {plan.runs} times" if plan.runs > 1 else "",
            f", of which {plan.failed_tasks} tasks failed" if plan.failed_tasks else "",
            "" if plan.committed else ", which was not committed",
        ])  # fmt: skip

    def _compared(self, row: int, batch: int) -> LifeStep:
        """With which late watermark it was compared."""
        if batch == self._account.before:
            return LifeStep(what="compared", expected=self._account.compared(row), batch=batch)
        replayed, late_ms = self._replayed, self._replayed.late_ms(row)
        observed_ms = replayed.observed_late_ms(row)
        expected = self._taken(row, late_ms)
        side = self._history.side(self._history.rows.side[row])
        has_watermark = side.watermark_delay_ms is not None
        return LifeStep(
            what="compared",
            expected=expected,
            observed=f"late watermark {moment(observed_ms)} in the checkpoint" if has_watermark else "",
            batch=batch,
            wrong=self._wrong.watermarks and has_watermark and observed_ms != late_ms,
        )

    def _taken(self, row: int, late_ms: int) -> str:
        """Whether the row is late, in words."""
        disposition = self._replayed.prediction.disposition[row]
        if disposition == Disposition.UNREADABLE:
            return "it is not an event: filtered out"
        if disposition == Disposition.FILTERED:
            return "it has a NULL join key or fails a filter: filtered out"
        if disposition == Disposition.UNREAD:
            return ""
        side, time_us = self._history.rows.side[row], self._replayed.time_us(row)
        if self._history.side(side).watermark_delay_ms is None:
            return f"accepted: the {_SIDES[side]} side has no watermark, so that no row of it is late"
        if time_us is None:
            return "accepted: a row without event time is never late"
        if not late_ms:
            return "accepted: there is no late watermark yet"
        apart_us = time_us - late_ms * US_PER_MS
        where = f"the late watermark {moment(late_ms)}"
        if disposition == Disposition.LATE:
            return f"late, and dropped: {f'{span(-apart_us)} before' if apart_us else 'exactly at'} {where}"
        return f"accepted: {span(apart_us)} after {where}"

    def _state(self, row: int) -> Iterator[LifeStep]:
        """When it was in the state."""
        if self._replayed.prediction.disposition[row] != Disposition.ACCEPTED:
            return
        stored, removed = self._replayed.prediction.stored[row], self._replayed.prediction.removed[row]
        seen = list(self._replayed.state_seen(row))
        observed = _seen_text(seen)
        is_wrong = row in self._wrong.in_state
        if stored == NO_BATCH:
            yield LifeStep(
                what="state", expected=self._why_not_stored(row), observed=observed, wrong=is_wrong
            )
            return
        expected = f"stored {self._account.by_batch(stored)}"
        yield LifeStep(what="stored", expected=expected, observed=observed, batch=stored, wrong=is_wrong)
        yield self._evicted(row, removed)

    def _why_not_stored(self, row: int) -> str:
        rows, due = self._history.rows, self._replayed.prediction.batch_of
        side = rows.side[row]
        if self._fails_early(row):
            return "not stored: it fails the condition on its own side"
        if side == LEFT and alone(row) in due:
            return "not stored: it matched at once"
        state = f"the {_SIDES[side]} state watermark of batch {rows.batch[row]}"
        return f"not stored: it is at or before {state}, and is evictable at once"

    def _fails_early(self, row: int) -> bool:
        side, rows = self._history.rows.side[row], self._history.rows
        early = self._history.pushdown.early[side]
        return any(not passes(rows.numbers[side][what.field][row], what) for what in early)

    def _evicted(self, row: int, removed: int) -> LifeStep:
        evicted_ms = self.evicted_ms(row)
        if removed != NO_BATCH:
            watermark_ms = self._replayed.prediction.watermarks_ms[removed]
            if evicted_ms is None or watermark_ms < evicted_ms:
                by = self._account.by_batch(removed)
                return LifeStep(what="removed", expected=f"{by}, which emits it", batch=removed)
            reached = f"{moment(watermark_ms)} has reached {moment(evicted_ms)}"
            how = f"{self._account.by_batch(removed)}, whose eviction watermark {reached}"
            plan_ms = max(self._history.batches[removed].plan.watermark_ms, 0)
            observed = f"eviction watermark {moment(plan_ms)} in the checkpoint"
            wrong = self._wrong.watermarks and plan_ms != watermark_ms
            return LifeStep(what="evicted", expected=how, observed=observed, batch=removed, wrong=wrong)
        if evicted_ms is None:
            return LifeStep(what="evicted", expected="never: nothing lets it expire")
        return LifeStep(
            what="evicted", expected=f"not yet: when the eviction watermark reaches {moment(evicted_ms)}"
        )

    def evicted_ms(self, row: int) -> int | None:
        """The smallest eviction watermark that evicts a row."""
        rows = self._history.rows
        side = rows.side[row]
        return evicted_at_ms(
            self._history.contract, side, rows.time_us[row], self._history.pushdown.limits_ms[side]
        )

    def made(self, row: int, index: Mapping[int, int]) -> list[MadeRow]:
        """The output rows that a row is a part of; ``index`` has the places of the rows that are followed."""
        found = []
        for identity in self._replayed.made_of.get(row, ()):
            first, right = first_of(identity), right_of(identity)
            other = None if right is None else right if row == first else first
            due = self._replayed.prediction.batch_of.get(identity)
            due = self._wrong.due.get(identity) if due is None else due
            came = self._replayed.arrivals.get(identity, [])
            with_batch = [one for one in came if one.batch is not None]
            found.append(
                MadeRow(
                    name=self.name_of(row, identity),
                    expected=self._wrong.expected.get(identity) or self._expected(identity),
                    due=due if len(with_batch) == len(came) else None,
                    partner=None if other is None else index.get(other, -1),
                    came=with_batch,
                    observed=came_text(came),
                    wrong=identity in self._wrong.expected,
                )
            )
        return found

    def _expected(self, identity: int) -> str:
        """How often an output row that no finding is about is expected, and where."""
        due = self._replayed.prediction.batch_of.get(identity)
        came = self._replayed.arrivals.get(identity, [])
        if self._history.gaps and any((one.batch or 0) >= len(self._history.batches) for one in came):
            return "not compared: batches are missing before it"
        if why := self._account.open_because(identity, due):
            return why
        if due is None:
            return "no such row"
        is_once = self._history.manifest.delivery is Delivery.EXACTLY_ONCE
        or_before = " or before" if due == self._account.before else ""
        return f"{'once' if is_once else 'at least once'}, in batch {due}{or_before}"

    def name_of(self, row: int, identity: int) -> str:
        """An output row, seen from one of its rows."""
        right = right_of(identity)
        if right is not None:
            other = right if row == first_of(identity) else first_of(identity)
            name = self._history.rows.id[other]
            return f"the row with {self._replayed.words.place(other) if name is None else name}"
        return "the semi row" if self._history.contract.output.right_id is None else "the NULL row"

    def _made(self, made: MadeRow) -> LifeStep:
        return LifeStep(
            what=made.name,
            expected=made.expected,
            observed=made.observed,
            batch=made.due if not made.came else made.came[-1].batch,
            wrong=made.wrong,
        )


def _seen_text(seen: Sequence[tuple[int, bool]]) -> str:
    """After which batches a row was in Spark's state."""
    inside = [str(batch) for batch, is_there in seen if is_there]
    outside = [str(batch) for batch, is_there in seen if not is_there]
    batches = ", ".join(inside or outside)
    word = "batch" if len(inside or outside) == 1 else "batches"
    if not inside:
        return f"not in Spark's state after {word} {batches}" if outside else ""
    return f"in Spark's state after {word} {batches}" + (
        f", not after {', '.join(outside)}" if outside else ""
    )


def came_text(came: list[OutputArrival]) -> str:
    """Where an output row came."""
    if not came:
        return "never came"
    said = [_arrival_text(one) for one in came[:4]]
    more = f" and {len(came) - 4} times more" if len(came) > 4 else ""
    return f"came {', again '.join(said)}{more}"


def _arrival_text(one: OutputArrival) -> str:
    if one.batch is None:
        return f"as output {one.place}, which names no batch"
    task = f", task {one.partition}" if one.partition else ""
    attempt = f", attempt {one.attempt}" if one.attempt else ""
    return f"in batch {one.batch} (output {one.place}{task}{attempt})"


def key_of(replayed: ReplayedRows, row: int) -> str:
    """The join key of a row as one text."""
    return key_text(replayed.history.key_of(row))
