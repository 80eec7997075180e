"""Which other query would have had the watermarks that a run had: one without a filter, with other delays, …

Free of I/O; decides nothing. What the rows of each batch give is computed once more with one thing changed; a change is
named only if it gives the watermark of every batch. A filter that the contract lacks cannot be found this way: which
records it would drop is not known.

Times that are read a constant too early or too late move a watermark as another delay does. Where the contract's delay
and another one are whole quarter hours apart, as zones of time are, both are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tidemark.formats.contract import PRESERVED, Contract, WatermarkPolicy
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle.causes.common_facts import Kind, is_of_zones, read_elsewhere, written
from tidemark.oracle.input.history import Disposition, History
from tidemark.oracle.spark.pushdown import as_planned, must_be_there, passes, place
from tidemark.oracle.spark.time_ranges import NULL_TIME_US, US_PER_MS

_LONGER = (1_000, 1_000_000, 1_000_000_000)
"""How many times longer a unit of time is than another one."""
_DELAYS = 3
"""So many delays are tried for each input: one that fits shows itself in the first batches that are wrong.

As many more are tried that are whole quarter hours from the contract's.
"""

Filters = frozenset[int]
"""Filters of one side, by their place among those that are below its watermark."""
_NONE: tuple[Filters, Filters] = (frozenset(), frozenset())
Latest = tuple[Mapping[Filters, int], Mapping[Filters, int]]
"""The latest event time of the rows of a batch, left and right, in milliseconds, by the filters that they fail."""


@dataclass(frozen=True)
class _Query:
    """What makes the watermarks: by side the delay in milliseconds, what is done to a time and which of the contract's
    filters are ``forgotten``; and the policy.
    """

    delays_ms: tuple[int | None, int | None]
    policy: WatermarkPolicy
    times: tuple[Callable[[int], int], Callable[[int], int]] = (lambda ms: ms, lambda ms: ms)
    forgotten: tuple[Filters, Filters] = _NONE


def watermark_cause(history: History, predicted_ms: Sequence[int] | None = None) -> str:
    """A sentence about the query that would have these watermarks; empty if none is found.

    ``predicted_ms`` are those of the contract: of each batch, and perhaps of the one that would come next; without them
    those that the rows give.
    """
    latest = [_latest_of(history, number) for number in range(len(history.batches))]
    contract = history.contract
    sides = (contract.left, contract.right)
    promised = _Query((sides[0].watermark_delay_ms, sides[1].watermark_delay_ms), contract.policy)
    had_ms = [batch.plan.watermark_ms for batch in history.batches]
    given_ms = _watermarks(history, latest, promised)
    if predicted_ms is not None and given_ms != list(predicted_ms[: len(had_ms)]):
        return ""  # Spark had a choice, or not all rows are here
    topics = (sides[0].topic, sides[1].topic)
    changed = [*_filters(history, promised, topics), *_alone(promised, topics)]
    changed += [*_units(promised, topics), *_policies(promised)]
    changed += _delays(promised, topics, latest, had_ms)
    return next((said for said, query in changed if _watermarks(history, latest, query) == had_ms), "")


def _latest_of(history: History, number: int) -> Latest:
    rows = history.rows
    found: tuple[dict[Filters, int], dict[Filters, int]] = ({}, {})
    for latest, of_side in zip(found, history.batches[number].rows, strict=True):
        for row in of_side:
            failed = _failed(history, row)
            if failed is not None:
                time_ms = rows.event_us[row] // US_PER_MS
                latest[failed] = max(latest.get(failed, time_ms), time_ms)
    return found


def _failed(history: History, row: int) -> Filters | None:
    """The filters that a row fails; ``None``: no query observes its time, whatever its filters."""
    rows, kind = history.rows, history.contract.kind
    if rows.disposition[row] == Disposition.UNREADABLE or rows.event_us[row] == NULL_TIME_US:
        return None
    if rows.disposition[row] != Disposition.FILTERED:
        return frozenset()
    side = rows.side[row]
    numbers = rows.numbers[side]
    has_null_key = rows.key[row] < 0 and side not in PRESERVED.get(kind, ())
    if has_null_key or any(
        numbers[name][row] is None for name in must_be_there(history.pushdown, side, kind)
    ):
        return None
    below = enumerate(history.pushdown.below[side])
    return frozenset(at for at, what in below if not passes(numbers[what.field][row], what)) or None


def _seen(latest: Mapping[Filters, int], forgotten: Filters) -> int | None:
    """The latest time of the rows that pass all filters but the forgotten ones; ``None``: there is none."""
    return max((time_ms for failed, time_ms in latest.items() if failed <= forgotten), default=None)


def _watermarks(history: History, latest: Sequence[Latest], query: _Query) -> list[int]:
    """The watermark of each batch."""
    tracker = WatermarkTracker(query.delays_ms, query.policy)
    found = []
    for batch, of_sides in zip(history.batches, latest, strict=True):
        found.append(tracker.watermark_ms)
        if batch.plan.restarted or batch.plan.runs > 1:
            tracker.restart()
        for side, read in enumerate(query.times):
            latest_ms = _seen(of_sides[side], query.forgotten[side])
            if latest_ms is not None:
                tracker.observe(side, read(latest_ms))
        tracker.advance()
    return found


def _filters(history: History, promised: _Query, topics: tuple[str, str]) -> Iterator[tuple[str, _Query]]:
    """Filters of the contract are forgotten: one, all of a side, all."""
    below = history.pushdown.below
    named = place(as_planned(Contract.from_json(history.manifest.contract))).below  # values, not their ranks
    said = {
        (side, at): f"{topics[side]}.{one.field} {one.op} {written(one.value, Kind.VALUE)}"
        for side in range(len(topics))
        for at, one in enumerate(named[side] if len(named[side]) == len(below[side]) else below[side])
    }
    sides = [tuple(one for one in said if one[0] == side) for side in range(len(topics))]
    for forgotten in dict.fromkeys([*((one,) for one in said), *sides, tuple(said)]):
        if forgotten:
            drop = "filter drops" if len(forgotten) == 1 else "filters drop"
            filters = " and ".join(said[one] for one in forgotten)
            of_left, of_right = (
                frozenset(at for of, at in forgotten if of == side) for side in range(len(topics))
            )
            yield (
                f"the watermark is that of a query that reads records which the contract's {drop}: {filters}",
                replace(promised, forgotten=(of_left, of_right)),
            )


def _alone(promised: _Query, topics: tuple[str, str]) -> Iterator[tuple[str, _Query]]:
    """One of the two inputs does not hold the watermark back."""
    left_ms, right_ms = promised.delays_ms
    if None in promised.delays_ms or promised.policy is not WatermarkPolicy.MIN:
        return
    for delays_ms, ahead, behind in ((None, right_ms), *topics), ((left_ms, None), *topics[::-1]):
        said = (
            f"the watermark is that of {behind} alone: {ahead} does not hold it back, so the query has"
            f" a shorter delay there, or none, or reads later times"
        )
        yield said, replace(promised, delays_ms=delays_ms)


def _units(promised: _Query, topics: tuple[str, str]) -> Iterator[tuple[str, _Query]]:
    """The times are read in another unit."""
    same = promised.times[0]
    for many, is_longer in product(_LONGER, (True, False)):
        read = _times(many) if is_longer else _part(many)
        for times, of in (
            ((read, read), " and ".join(topics)),
            ((read, same), topics[0]),
            ((same, read), topics[1]),
        ):
            unit = f"{many:,} times as {'long' if is_longer else 'short'} as the contract's"
            yield (
                f"the watermark is that of a query that reads the times of {of} in a unit {unit}",
                replace(promised, times=times),
            )


def _times(many: int) -> Callable[[int], int]:
    return lambda ms: ms * many


def _part(many: int) -> Callable[[int], int]:
    return lambda ms: ms // many


def _policies(promised: _Query) -> Iterator[tuple[str, _Query]]:
    other = next(one for one in WatermarkPolicy if one is not promised.policy)
    yield (
        f"the watermark is that of the policy {other}, not of {promised.policy}",
        replace(promised, policy=other),
    )


def _delays(
    promised: _Query, topics: tuple[str, str], latest: Sequence[Latest], had_ms: Sequence[int]
) -> Iterator[tuple[str, _Query]]:
    """One delay is another, or both are; or times are read too early or too late, which is as another delay."""
    tried: tuple[list[int | None], list[int | None]] = ([], [])
    for side, promised_ms in enumerate(promised.delays_ms):
        apart = list(_apart([of_sides[side] for of_sides in latest], had_ms))
        of_zones = [
            ms for ms in apart if promised_ms is not None and is_of_zones((promised_ms - ms) * US_PER_MS)
        ]
        delays = [ms for ms in apart if ms >= 0 and ms != promised_ms]
        tried[side].extend(dict.fromkeys([promised_ms, *delays[:_DELAYS], *of_zones[:_DELAYS]]))
    for left_ms, right_ms in sorted(product(*tried), key=lambda pair: _changes(pair, promised)):
        said = _other_delays((left_ms, right_ms), promised, topics)
        if said:
            yield f"the watermark is that of {said}", replace(promised, delays_ms=(left_ms, right_ms))


def _apart(latest: Sequence[Mapping[Filters, int]], had_ms: Sequence[int]) -> Iterator[int]:
    """How far watermarks were behind the times that one side had shown before, in milliseconds; each once."""
    seen_ms: int | None = None
    found: dict[int, None] = {}
    for of_batch, had in zip(latest, had_ms[1:], strict=False):
        now_ms = _seen(of_batch, frozenset())
        seen_ms = now_ms if seen_ms is None or (now_ms is not None and now_ms > seen_ms) else seen_ms
        if seen_ms is not None and had > 0:
            found[seen_ms - had] = None
    yield from found


def _other_delays(delays_ms: tuple[int | None, int | None], promised: _Query, topics: tuple[str, str]) -> str:
    """The delays, and the times that amount to them; empty if no query has them, or if nothing is changed."""
    pairs = zip(delays_ms, promised.delays_ms, topics, strict=True)
    changed = [(mine, its, topic) for mine, its, topic in pairs if mine != its]
    if None in delays_ms or not changed:
        return ""
    said = []
    if all(mine is not None and mine >= 0 for mine, _, _ in changed):
        said.append(
            " and ".join(f"a delay of {mine} ms on {topic}, not of {its} ms" for mine, its, topic in changed)
        )
    later_ms = {its - mine for mine, its, _ in changed if mine is not None and its is not None}
    if len(later_ms) == 1 and is_of_zones(later_us := later_ms.pop() * US_PER_MS):
        topics_said = " and ".join(topic for _, _, topic in changed)
        said.append(f"a query by which the times of {topics_said} are {read_elsewhere(later_us)}")
    return ", or of ".join(said)


def _changes(delays_ms: tuple[int | None, int | None], promised: _Query) -> int:
    return sum(mine != its for mine, its in zip(delays_ms, promised.delays_ms, strict=True))
