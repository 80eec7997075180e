"""Bounds, delays and clocks that the evidence itself names: no grid is searched.

Free of I/O. The end of a bound lies between the distance of the pairs that came and that of the pairs that did not;
NULL rows and rows of the state, which leave by the watermark and the bound, narrow it. A delay is the distance of
watermarks from the latest times that were read before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tidemark.diagnosis.asking import Answer, Asker, made_of
from tidemark.diagnosis.contract_changes import SIDES
from tidemark.diagnosis.setting import Change, TimeReading
from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle.causes.common_facts import duration, is_of_zones, zone_of
from tidemark.oracle.input.history import ROW_BITS, ROW_MASK, Disposition
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS

_ROUND_MS = (
    86_400_000,
    3_600_000,
    1_800_000,
    600_000,
    60_000,
    30_000,
    10_000,
    5_000,
    1_000,
    500,
    100,
    50,
    10,
    5,
    1,
)
"""What numbers of people are multiples of."""
_MOST_PAIRS = 500_000
_DELAYS = 4
"""So many delays are asked about of each input: one that fits shows itself in the first batches."""
_SHIFTS = 6


@dataclass
class _Limits:
    """``low_ms <= x < high_ms``; ``None``: no such limit."""

    low_ms: int | None = None
    high_ms: int | None = None

    def at_least(self, ms: int | None) -> None:
        """Raise the lower limit."""
        if ms is not None and (self.low_ms is None or ms > self.low_ms):
            self.low_ms = ms

    def below(self, ms: int | None) -> None:
        """Lower the upper limit."""
        if ms is not None and (self.high_ms is None or ms < self.high_ms):
            self.high_ms = ms

    @property
    def is_empty(self) -> bool:
        """Whether nothing is between."""
        return None not in (self.low_ms, self.high_ms) and self.low_ms >= self.high_ms  # type: ignore[operator]


def fitted_changes(asker: Asker, answer: Answer) -> list[Change]:
    """Changes of the setting of an answer with a number that the differences name."""
    found: list[Change] = []
    if not answer.watermarks_fit:
        found += [*_delays(answer), *_shifts(asker, answer)]
    if answer.wrong:
        found += _bounds(asker, answer)
    return found


def roundest(low_ms: int, high_ms: int) -> int:
    """The number in ``low_ms <= x < high_ms`` that a person would have written."""
    for unit in _ROUND_MS:
        first = -(-low_ms // unit) * unit
        if first < high_ms:
            # Of several the one nearest to zero: bounds are mostly short.
            last = (high_ms - 1) // unit * unit
            return 0 if first <= 0 <= last else min(first, last, key=abs)
    return low_ms


# Bounds


def _bounds(asker: Asker, answer: Answer) -> Iterator[Change]:
    contract = answer.setting.contract
    bound, topics = contract.bound, (contract.left.topic, contract.right.topic)
    if bound.window_ms is not None or bound.equal:
        return
    limits = _pair_limits(asker, answer)
    if limits is None:
        return
    for end, of_pairs in zip(("lower", "upper"), limits, strict=True):
        narrowed = _narrowed(asker, answer, end, of_pairs)
        said_ms = bound.lower_ms if end == "lower" else bound.upper_ms
        for ms in _values(narrowed, said_ms):
            changed: dict[str, Any] = {f"{end}_ms": ms, f"{end}_strict": False}
            if replace(bound, **changed) == bound or replace(bound, **changed).problem:
                continue
            yield Change(
                f"{end}_ms={ms}", f"this contract with `{end}_ms={ms}` gives",
                f"the {end} end of its time bound is {_span(ms)}, not {_span(said_ms)}"
                f" (of {topics[0]}.{contract.left.time} - {topics[1]}.{contract.right.time})",
                lambda one, changed=changed: replace(  # type: ignore[misc]
                    one,
                    contract=replace(one.contract, bound=replace(one.contract.bound, **changed)),
                ),
                is_fitted=True, also=_others(narrowed), family=f"{end} end",
            )  # fmt: skip


def _span(ms: int | None) -> str:
    return "open" if ms is None else duration(ms * US_PER_MS)


def _others(limits: _Limits) -> str:
    """What else would give the same, as far as the rows tell."""
    low, high = limits.low_ms, limits.high_ms
    if low is None or high is None:
        side = f"from {_span(low)} on" if low is not None else f"below {_span(high)}"
        return f"any {side} fits the pairs that came"
    return "" if high - low <= 1 else f"any from {_span(low)} to below {_span(high)} fits the rows that came"


def _values(limits: _Limits, said_ms: int | None) -> Iterator[int]:
    """The numbers to ask about: the roundest, and the two ends."""
    if limits.is_empty or (limits.low_ms is None and limits.high_ms is None):
        return
    low = limits.low_ms if limits.low_ms is not None else limits.high_ms - 1  # type: ignore[operator]
    high = limits.high_ms if limits.high_ms is not None else low + 1
    inside = said_ms is not None and low <= said_ms < high
    if inside:
        return
    yield from dict.fromkeys([roundest(low, high), low, high - 1])


def _pair_limits(asker: Asker, answer: Answer) -> tuple[_Limits, _Limits] | None:
    """Where the two ends can be, by the pairs that came and those that did not."""
    came = asker.observed(answer.setting.reading).rows
    distances = _distances(answer)
    if distances is None:
        return None
    has_right = asker.contract.output.right_id is not None
    if has_right and answer.setting.contract.kind is not JoinKind.LEFT_SEMI:
        pairs = {identity for identity, _ in came if identity & ROW_MASK}
        inside = [d for rows in distances.values() for d, pair in rows if pair in pairs]
        outside = sorted(d for rows in distances.values() for d, pair in rows if pair not in pairs)
        if not inside:
            return None
        return _around(min(inside), max(inside), outside)
    lefts = {identity >> ROW_BITS for identity, _ in came}
    return _semi_limits(answer, distances, lefts)


def _around(first: int, last: int, outside: Sequence[int]) -> tuple[_Limits, _Limits]:
    """Of distances in microseconds the limits of both ends: the pairs that came lie from first to last."""
    before, behind = bisect_left(outside, first), bisect_left(outside, last + 1)
    lower, upper = _Limits(), _Limits()
    lower.below(first // US_PER_MS + 1)  # an end at or before the first: a whole millisecond
    if before:
        lower.at_least(outside[before - 1] // US_PER_MS + 1)
    upper.at_least(-(-last // US_PER_MS))
    if behind < len(outside):
        upper.below(-(-outside[behind] // US_PER_MS))
    return lower, upper


def _semi_limits(
    answer: Answer, distances: dict[int, list[tuple[int, int]]], came: set[int]
) -> tuple[_Limits, _Limits]:
    """The same, where left rows tell only that a partner was there."""
    bound = answer.setting.contract.bound
    low_us = -(1 << 62) if bound.lower_ms is None else bound.lower_ms * US_PER_MS
    high_us = 1 << 62 if bound.upper_ms is None else bound.upper_ms * US_PER_MS
    nearest = {
        left: min((d for d, _ in rows if d >= low_us), default=None) for left, rows in distances.items()
    }
    farthest = {
        left: max((d for d, _ in rows if d <= high_us), default=None) for left, rows in distances.items()
    }
    lower, upper = _Limits(), _Limits()
    last = max((d for left, d in nearest.items() if d is not None and left in came), default=None)
    first = min((d for left, d in farthest.items() if d is not None and left in came), default=None)
    if last is not None:
        upper.at_least(-(-last // US_PER_MS))
        behind = [d for left, d in nearest.items() if d is not None and left not in came and d > last]
        upper.below(-(-min(behind) // US_PER_MS) if behind else None)
    if first is not None:
        lower.below(first // US_PER_MS + 1)
        before = [d for left, d in farthest.items() if d is not None and left not in came and d < first]
        lower.at_least(max(before) // US_PER_MS + 1 if before else None)
    return lower, upper


def _distances(answer: Answer) -> dict[int, list[tuple[int, int]]] | None:
    """Of each left row that was accepted: distance in microseconds and identity of each pair with its key.

    ``None``: there are too many.
    """
    rows, disposition = answer.history.rows, answer.replayed.disposition
    of_key: tuple[dict[int, list[int]], dict[int, list[int]]] = (defaultdict(list), defaultdict(list))
    for row in np.flatnonzero((disposition == Disposition.ACCEPTED) & answer.replayed.sample.rows).tolist():
        if row < rows.first_sentinel and rows.key[row] >= 0 and rows.time_us[row] != NULL_TIME_US:
            of_key[rows.side[row]][rows.key[row]].append(row)
    if sum(len(lefts) * len(of_key[RIGHT].get(key, ())) for key, lefts in of_key[LEFT].items()) > _MOST_PAIRS:
        return None
    times = rows.time_us
    return {
        left: [
            (times[left] - times[right], left << ROW_BITS | (right + 1))
            for right in of_key[RIGHT].get(key, ())
        ]
        for key, lefts in of_key[LEFT].items()
        for left in lefts
    }


def _narrowed(asker: Asker, answer: Answer, end: str, of_pairs: _Limits) -> _Limits:
    """The limits of an end, narrowed by when rows left: left rows tell of the lower end, right ones of the upper.

    A left row of time ``t`` leaves in the first batch with ``t <= W + lower - 1 ms``, a right one with
    ``t <= W - upper - 1 ms`` (``time_ranges.state_ms``).
    """
    narrowed = _Limits(of_pairs.low_ms, of_pairs.high_ms)
    side = LEFT if end == "lower" else RIGHT
    planned_ms = [batch.plan.watermark_ms for batch in answer.history.batches]
    for time_us, batch, is_gone in [*_null_rows(asker, answer, side), *_state_rows(asker, answer, side)]:
        x_ms = -(-time_us // US_PER_MS) - planned_ms[batch] + 1
        if is_gone == (side == LEFT):
            narrowed.at_least(x_ms if side == LEFT else 1 - x_ms)
        else:
            narrowed.below(x_ms if side == LEFT else 1 - x_ms)
    return of_pairs if narrowed.is_empty else narrowed


def _null_rows(asker: Asker, answer: Answer, side: int) -> Iterator[tuple[int, int, bool]]:
    """Time and batch of each NULL row that came of a side: gone by its batch, there in the batch before."""
    rows = answer.history.rows
    if side not in PRESERVED.get(answer.setting.contract.kind, ()):
        return
    for identity, batch in asker.observed(answer.setting.reading).rows:
        [row, *others] = made_of(identity)
        if others or rows.side[row] != side or not 0 <= batch < len(answer.history.batches):
            continue
        if rows.batch[row] > batch or rows.time_us[row] == NULL_TIME_US:
            continue
        yield rows.time_us[row], batch, True
        if batch > rows.batch[row]:
            yield rows.time_us[row], batch - 1, False


def _state_rows(asker: Asker, answer: Answer, side: int) -> Iterator[tuple[int, int, bool]]:
    """Of each batch whose state was read: the earliest row that is there, and the latest that is gone."""
    history, there = answer.history, defaultdict[int, set[int]](set)
    for one in asker.evidence.state() or ():
        if one.side == SIDES[side] and one.time_us is not None:
            there[one.batch].add(one.time_us)
    rows, disposition = history.rows, answer.replayed.disposition
    is_removed = answer.setting.contract.kind is JoinKind.LEFT_SEMI and side == LEFT
    accepted = [
        row
        for row in np.flatnonzero(disposition == Disposition.ACCEPTED).tolist()
        if rows.side[row] == side and not is_removed and not history.pushdown.early[side]
    ]
    for batch, times in there.items():
        if not 0 <= batch < len(history.batches):
            continue
        yield min(times), batch, False
        gone = [
            rows.time_us[row]
            for row in accepted
            if rows.batch[row] <= batch and rows.time_us[row] not in times
        ]
        if gone:
            yield max(gone), batch, True


# Delays


def _latest(answer: Answer) -> list[tuple[int | None, int | None]]:
    """The latest event time of each side in each batch, in milliseconds, of all rows that move the watermark."""
    history = answer.history
    if history.rest is not None:
        return list(history.rest.latest_ms)
    rows, found = history.rows, []
    for batch in history.batches:
        of_sides = [
            max(
                (
                    rows.event_us[row] // US_PER_MS
                    for row in batch.rows[side]
                    if rows.disposition[row] == Disposition.UNREAD and rows.event_us[row] != NULL_TIME_US
                ),
                default=None,
            )
            for side in (LEFT, RIGHT)
        ]
        found.append((of_sides[LEFT], of_sides[RIGHT]))
    return found


def _watermarks(
    answer: Answer, latest: Iterable[tuple[int | None, int | None]], delays: Sequence[int | None]
) -> list[int]:
    tracker = WatermarkTracker(delays, answer.setting.contract.policy)
    found = []
    for batch, of_sides in zip(answer.history.batches, latest, strict=True):
        found.append(tracker.watermark_ms)
        if batch.plan.restarted or batch.plan.runs > 1:
            tracker.restart()
        for side, latest_ms in enumerate(of_sides):
            if latest_ms is not None:
                tracker.observe(side, latest_ms)
        tracker.advance()
    return found


def _apart(latest: Sequence[tuple[int | None, int | None]], side: int, had_ms: Sequence[int]) -> list[int]:
    """How far watermarks are behind the times that a side had shown, in milliseconds; the most frequent first."""
    seen: int | None = None
    found: Counter[int] = Counter()
    for of_sides, had in zip(latest, had_ms[1:], strict=False):
        now = of_sides[side]
        seen = now if seen is None or (now is not None and now > seen) else seen
        if seen is not None and had > 0:
            found[seen - had] += 1
    return [ms for ms, _ in found.most_common()]


def _delays(answer: Answer) -> Iterator[Change]:
    """One delay is another, or both are."""
    contract, latest = answer.setting.contract, _latest(answer)
    had_ms = [batch.plan.watermark_ms for batch in answer.history.batches]
    delays = contract.left.watermark_delay_ms, contract.right.watermark_delay_ms
    tried: list[list[int]] = []
    for side in (LEFT, RIGHT):
        apart = [ms for ms in _apart(latest, side, had_ms) if ms >= 0 and ms != delays[side]]
        most = [min(apart)] if apart else []
        tried.append(list(dict.fromkeys([*apart[:_DELAYS], *most, *([0] if apart else [])])))
    for side in (LEFT, RIGHT):
        if delays[side] is None:
            continue
        for ms in tried[side]:
            changed = [ms if one == side else delays[one] for one in (LEFT, RIGHT)]
            if _watermarks(answer, latest, changed) == had_ms:
                yield _delay(answer, latest, had_ms, side, ms)
                break


def _delay(
    answer: Answer, latest: Sequence[tuple[int | None, int | None]], had_ms: Sequence[int], side: int, ms: int
) -> Change:
    """Another delay of one side; a shorter one than that fits as well where the other side holds the watermark."""
    contract, name = answer.setting.contract, SIDES[side]
    topic = (contract.left, contract.right)[side].topic
    said = (contract.left, contract.right)[side].watermark_delay_ms
    delays: list[int | None] = [contract.left.watermark_delay_ms, contract.right.watermark_delay_ms]
    delays[side] = 0
    is_open = ms > 0 and _watermarks(answer, latest, delays) == had_ms
    what = f"at most {duration(ms * US_PER_MS)}" if is_open else duration(ms * US_PER_MS)
    return Change(
        f"{name}.watermark_delay_ms{'<=' if is_open else '='}{ms}",
        f"this contract with a delay of {'at most ' if is_open else ''}{ms} ms on {topic} gives",
        f"the watermark delay of {topic} is {what}, not {_span(said)}",
        lambda one: replace(
            one,
            contract=replace(
                one.contract, **{name: replace(getattr(one.contract, name), watermark_delay_ms=ms)}
            ),
        ),
        is_fitted=True,
        also=f"any shorter delay fits as well: {topic} does not hold the watermark back" if is_open else "",
        family=f"{name} delay",
    )  # fmt: skip


def _apart_in_state(asker: Asker, answer: Answer, side: int) -> list[int]:
    """How far times in Spark's state are from those of their records, in microseconds, if all are as far."""
    rows, found = answer.history.rows, set[int]()
    for one in asker.evidence.state() or ():
        if one.side == SIDES[side] and one.ref is not None and one.time_us is not None:
            partition = answer.history.partitions[side].get(one.ref[0])
            try:
                row = partition.row_at(one.ref[1]) if partition is not None else -1
            except IndexError:
                continue
            if row >= 0 and rows.event_us[row] != NULL_TIME_US:
                found.add(one.time_us - rows.time_us[row])
    return [us for us in found if us] if len(found) == 1 else []


def _shifts(asker: Asker, answer: Answer) -> Iterator[Change]:
    """The times of one input are read a constant later or earlier, as in another time zone."""
    contract, latest = answer.setting.contract, _latest(answer)
    had_ms = [batch.plan.watermark_ms for batch in answer.history.batches]
    delays = contract.left.watermark_delay_ms, contract.right.watermark_delay_ms
    for side, name in enumerate(SIDES):
        delay = delays[side]
        if delay is None:
            continue
        apart = [(delay - ms) * US_PER_MS for ms in _apart(latest, side, had_ms)]
        zones = [
            *_apart_in_state(asker, answer, side),
            *(us for us in dict.fromkeys(apart) if is_of_zones(us)),
        ]
        hours = [sign * 3_600_000_000 for sign in (1, -1)]
        topic = (contract.left, contract.right)[side].topic
        for us in list(dict.fromkeys([*zones, *hours]))[:_SHIFTS]:
            is_guess = us in hours and us not in zones
            order = "later" if us > 0 else "earlier"
            yield Change(
                f"{name} times {duration(us)}",
                f"this contract gives, if the times of {topic} are read {duration(abs(us))} {order}",
                f"the query takes the event times of {topic} for {duration(abs(us))} {order} than the contract"
                + ("" if is_guess else zone_of(us)),
                lambda one, side=side, us=us: replace(  # type: ignore[misc]
                    one, readings=(*one.readings, TimeReading(side, later_us=us))
                ),
                is_fitted=True, family=f"{name} times",
                also="other distances may fit as well" if is_guess else "",
            )  # fmt: skip
