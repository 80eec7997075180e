"""Which other query would have had the watermarks that a run had: other delays, another unit of the times, …

Free of I/O; decides nothing. What the rows of each batch give is computed once more with one thing changed; a change is
named only if it gives the watermark of every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tidemark.formats.contract import WatermarkPolicy
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle.input.history import Disposition, History
from tidemark.oracle.spark.time_ranges import NULL_TIME_US, US_PER_MS

_LONGER = (1_000, 1_000_000, 1_000_000_000)
"""How many times longer a unit of time is than another one."""
_DELAYS = 3
"""So many delays are tried for each input: one that fits shows itself in the first batches that are wrong."""

Latest = tuple[int | None, int | None]
"""The latest event time of the rows of a batch, left and right, in milliseconds."""


@dataclass(frozen=True)
class _Query:
    """What makes the watermarks: by side the delay in milliseconds and what is done to a time; and the policy."""

    delays_ms: tuple[int | None, int | None]
    policy: WatermarkPolicy
    times: tuple[Callable[[int], int], Callable[[int], int]] = (lambda ms: ms, lambda ms: ms)


def watermark_cause(history: History, predicted_ms: Sequence[int]) -> str:
    """A sentence about the query that would have these watermarks; empty if none is found.

    ``predicted_ms`` are those of the contract: of each batch, and perhaps of the one that would come next.
    """
    latest = [_latest_of(history, number) for number in range(len(history.batches))]
    contract = history.contract
    sides = (contract.left, contract.right)
    promised = _Query((sides[0].watermark_delay_ms, sides[1].watermark_delay_ms), contract.policy)
    had_ms = [batch.plan.watermark_ms for batch in history.batches]
    if _watermarks(history, latest, promised) != list(predicted_ms[: len(had_ms)]):
        return ""  # Spark had a choice, or not all rows are here
    topics = (sides[0].topic, sides[1].topic)
    changed = [*_alone(promised, topics), *_units(promised, topics), *_policies(promised)]
    changed += _delays(promised, topics, latest, had_ms)
    return next((said for said, query in changed if _watermarks(history, latest, query) == had_ms), "")


def _latest_of(history: History, number: int) -> Latest:
    rows = history.rows
    unread = (Disposition.UNREADABLE, Disposition.FILTERED)
    left, right = (
        max(
            (
                rows.event_us[row] // US_PER_MS
                for row in of_side
                if rows.disposition[row] not in unread and rows.event_us[row] != NULL_TIME_US
            ),
            default=None,
        )
        for of_side in history.batches[number].rows
    )
    return left, right


def _watermarks(history: History, latest: Sequence[Latest], query: _Query) -> list[int]:
    """The watermark of each batch."""
    tracker = WatermarkTracker(query.delays_ms, query.policy)
    found = []
    for batch, of_sides in zip(history.batches, latest, strict=True):
        found.append(tracker.watermark_ms)
        if batch.plan.restarted or batch.plan.runs > 1:
            tracker.restart()
        for side, (latest_ms, read) in enumerate(zip(of_sides, query.times, strict=True)):
            if latest_ms is not None:
                tracker.observe(side, read(latest_ms))
        tracker.advance()
    return found


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
    """One delay is another, or both are: those that the first watermarks which moved can come of."""
    tried: tuple[list[int | None], list[int | None]] = ([promised.delays_ms[0]], [promised.delays_ms[1]])
    for side, of_side in enumerate(tried):
        seen_ms: int | None = None
        for of_sides, had in zip(latest, had_ms[1:], strict=False):
            now_ms = of_sides[side]
            seen_ms = now_ms if seen_ms is None or (now_ms is not None and now_ms > seen_ms) else seen_ms
            delay_ms = -1 if seen_ms is None else seen_ms - had
            if delay_ms >= 0 and had > 0 and delay_ms not in of_side and len(of_side) <= _DELAYS:
                of_side.append(delay_ms)
    for left_ms, right_ms in sorted(product(*tried), key=lambda pair: _changes(pair, promised)):
        delays_ms = (left_ms, right_ms)
        said = " and ".join(
            f"a delay of {mine} ms on {topic}, not of {its} ms"
            for mine, its, topic in zip(delays_ms, promised.delays_ms, topics, strict=True)
            if mine != its
        )
        if said and None not in delays_ms:
            yield f"the watermark is that of {said}", replace(promised, delays_ms=delays_ms)


def _changes(delays_ms: tuple[int | None, int | None], promised: _Query) -> int:
    return sum(mine != its for mine, its in zip(delays_ms, promised.delays_ms, strict=True))
