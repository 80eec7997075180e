"""Whether the watermarks of a log are those that the input gives, and where only a restart explains one.

Free of I/O. A query that is started again keeps its watermark and forgets the latest event time of each input
(``tidemark.formats.watermark``); no checkpoint says that it happened. So all that may have happened is followed: before
each batch a restart, or none. A history that gives another watermark than the log is dropped; of those that are left
the one with the fewest restarts explains the log. If none is left, the watermark is wrong.

A batch that a table has already is committed after a restart without being run (``FileStreamSink.addBatch``, Delta's
``txn``), so the watermark is not told of its rows: of a table that is followed, too.

Bounds take the place of times that are not known: before a trimmed log an input may have shown anything up to what the
topics still hold, and anything at all if records were deleted; rows that Spark may drop upstream of the watermark
(``History.optional``) count in the upper bound only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.formats.contract import WatermarkPolicy
from tidemark.oracle.audit.audited_history import AuditedHistory
from tidemark.oracle.compare.wording import moment
from tidemark.oracle.findings import Finding
from tidemark.oracle.input.history import BatchRows, Disposition, History
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS

Bounds = tuple[float, float]
"""The least and the greatest that the latest event time of an input can be, in ms; ``-inf``: no row was shown."""
Shown = tuple[Bounds, Bounds]
"""The bounds of both inputs."""

NOTHING: Bounds = (-math.inf, -math.inf)


@dataclass(frozen=True)
class WatermarkCheck:
    """Batches with a watermark that only a restart before them or at them explains, and what nothing explains."""

    restarts: list[int]
    finding: Finding | None = None


@dataclass(frozen=True)
class _Rules:
    """How event times become a watermark."""

    delays_ms: tuple[int | None, int | None]
    policy: WatermarkPolicy

    def next_ms(self, now_ms: int, shown: Shown) -> Bounds:
        """The least and the greatest watermark of the next batch."""
        pick = min if self.policy is WatermarkPolicy.MIN else max
        pairs = [(of, delay) for of, delay in zip(shown, self.delays_ms, strict=True) if delay is not None]
        if not pairs:
            return now_ms, now_ms
        least, most = (
            pick([0 if of[end] == -math.inf else of[end] - delay for of, delay in pairs]) for end in (0, 1)
        )
        return max(now_ms, least), max(now_ms, most)


def check_watermarks(audited: AuditedHistory) -> WatermarkCheck:
    """Compare the watermarks of the log with those that the input gives."""
    history = audited.history
    sides = history.contract.left, history.contract.right
    rules = _Rules((sides[0].watermark_delay_ms, sides[1].watermark_delay_ms), history.contract.policy)
    batches = audited.judged
    after_ms = [batch.plan.watermark_ms for batch in batches[1:]]
    last_ms = audited.about.next_watermark_ms
    if last_ms is not None and batches and batches[-1].plan.committed and not history.gaps:
        after_ms.append(last_ms)
    if batches and audited.before is None and batches[0].plan.watermark_ms != 0:
        return WatermarkCheck([], _wrong(history, batches[0], (0, 0), batches[0].plan.watermark_ms, 1))
    explained: dict[Shown, tuple[int, ...]] = {_at_first(audited): ()}
    wrong: list[tuple[BatchRows, Bounds, int]] = []
    for batch, next_ms in zip(batches, after_ms, strict=False):
        number, seen = batch.plan.batch, _shown_by(audited, batch)
        not_run = _not_run(audited, explained, number)
        explained = _started_again(explained, number)
        explained = _fewest(
            [*((_both(shown, seen), restarts) for shown, restarts in explained.items()), *not_run]
        )
        now_ms = batch.plan.watermark_ms
        fits = {
            shown: restarts
            for shown, restarts in explained.items()
            if _is_within(next_ms, rules.next_ms(now_ms, shown))
        }
        if not fits:
            likeliest = min(explained, key=lambda shown: len(explained[shown]))
            wrong.append((batch, rules.next_ms(now_ms, likeliest), next_ms))
        explained = fits or explained
    restarts = min(explained.values(), key=len)
    if not wrong:
        return WatermarkCheck(list(restarts))
    batch, bounds, next_ms = wrong[0]
    return WatermarkCheck([], _wrong(history, batch, bounds, next_ms, len(wrong)))


def _at_first(audited: AuditedHistory) -> Shown:
    """What the inputs may have shown before the first batch that is judged."""
    if audited.before is None or not audited.history.batches:
        return NOTHING, NOTHING
    first = audited.history.batches[0]
    bounds = [
        (
            -math.inf,
            max(_latest(audited.history, first.rows[side], sure=False), _latest_deleted(audited, side)),
        )
        for side in (LEFT, RIGHT)
    ]
    return bounds[LEFT], bounds[RIGHT]


def _shown_by(audited: AuditedHistory, batch: BatchRows) -> Shown:
    """What a batch shows of both inputs; of deleted records anything is possible."""
    found = []
    for side in (LEFT, RIGHT):
        least = _latest(audited.history, batch.rows[side], sure=True)
        most = _latest(audited.history, batch.rows[side], sure=False)
        found.append((least, max(most, _latest_deleted(audited, side))))
    return found[LEFT], found[RIGHT]


def _latest_deleted(audited: AuditedHistory, side: int) -> float:
    """The latest event time that a deleted record of a side may have."""
    if not audited.may_lack(side):
        return -math.inf
    until_ms = audited.about.deleted_until_ms
    return math.inf if until_ms is None else until_ms


def _latest(history: History, rows: Iterable[int], *, sure: bool) -> float:
    """The latest event time of the rows that reach the watermark; ``sure``: of those that certainly do."""
    columns, latest_us = history.rows, -math.inf
    for row in rows:
        disposition = columns.disposition[row]
        if disposition == Disposition.UNREADABLE or columns.event_us[row] == NULL_TIME_US:
            continue
        if disposition == Disposition.FILTERED and (sure or row not in history.optional):
            continue
        latest_us = max(latest_us, columns.event_us[row])
    return latest_us // US_PER_MS if latest_us != -math.inf else latest_us


def _started_again(explained: dict[Shown, tuple[int, ...]], batch: int) -> dict[Shown, tuple[int, ...]]:
    """With a restart before this batch, too, from the history with the fewest."""
    fewest = min(explained.values(), key=len)
    return _fewest([*explained.items(), ((NOTHING, NOTHING), (*fewest, batch))])


def _not_run(
    audited: AuditedHistory, explained: dict[Shown, tuple[int, ...]], batch: int
) -> list[tuple[Shown, tuple[int, ...]]]:
    """With a restart at this batch that did not run it, because the table had it: nothing of it was shown."""
    about = audited.about
    is_told = about.reported is not None and about.reported[0] <= batch <= about.reported[1]
    if about.output_table is None or (is_told and batch not in audited.restarted):
        return []
    return [((NOTHING, NOTHING), (*min(explained.values(), key=len), batch))]


def _fewest(histories: Iterable[tuple[Shown, tuple[int, ...]]]) -> dict[Shown, tuple[int, ...]]:
    """Of histories that have shown the same, the one with the fewest restarts; of these that of the latest."""
    found: dict[Shown, tuple[int, ...]] = {}
    for shown, restarts in histories:
        known = found.get(shown)
        if known is None or (len(restarts), [-one for one in restarts]) < (
            len(known),
            [-one for one in known],
        ):
            found[shown] = restarts
    return found


def _both(shown: Shown, seen: Shown) -> Shown:
    return _later(shown[LEFT], seen[LEFT]), _later(shown[RIGHT], seen[RIGHT])


def _later(one: Bounds, other: Bounds) -> Bounds:
    return max(one[0], other[0]), max(one[1], other[1])


def _is_within(value: float, bounds: Bounds) -> bool:
    return bounds[0] <= value <= bounds[1]


def _wrong(history: History, batch: BatchRows, bounds: Bounds, next_ms: int, count: int) -> Finding:
    delays = " and ".join(
        f"{side.watermark_delay_ms} ms on {side.topic}"
        for side in (history.contract.left, history.contract.right)
        if side.watermark_delay_ms is not None
    )
    after = batch.plan.batch
    message = (
        f"after batch {after} the watermark is {moment(next_ms)}, but the input up to it, with delays of {delays}"
        f" under the policy {history.contract.policy}, gives {_said(bounds)}, and no restart explains it;"
        f" {count} batches differ, and rows are judged by the watermarks of the log"
    )
    return Finding(property="wrong_watermarks", message=message, batch=after)


def _said(bounds: Bounds) -> str:
    least, most = bounds
    if least == most:
        return moment(int(least))
    return f"{moment(int(least))} at least" + (
        "" if most == math.inf else f" and {moment(int(most))} at most"
    )
