"""The history of a query whose log may be trimmed, and whose input may be deleted in part.

Free of I/O. All that was read before the first batch that can be judged is in one batch, that before it: which of its
rows were late is not in the log. A row behind the watermark of that batch was certainly not late, because no watermark
before was later. The others are ``unsure``: each may have been accepted, or dropped. The state after that batch says
more, if it was read (``state_knowledge``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.evidence import Batch, InputRecord
from tidemark.formats.manifest import Manifest
from tidemark.oracle.audit.state_knowledge import StateKnowledge, from_state, without_state
from tidemark.oracle.input.history import (
    BatchRows,
    Disposition,
    Evidence,
    History,
    Rows,
    first_of,
    read_history,
    right_of,
)
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS


@dataclass(frozen=True)
class AuditedHistory:
    """A query, ready to be judged. ``history.batches`` begins with the batch ``before``, if it is not batch 0.

    ``before`` is the batch that stands for all before the first that can be judged; ``None``: the log is whole.
    ``unsure`` are rows of it that may have been late. ``deleted`` counts the records of each side that are gone, and
    ``removed`` the offsets of each at which one may be that compaction has removed.
    ``by_state`` is what the state after that batch says of its rows, or what follows without one.
    """

    history: History
    about: AuditedQuery
    before: int | None
    unsure: frozenset[int]
    deleted: tuple[int, int]
    removed: tuple[int, int]
    by_state: StateKnowledge = field(default_factory=StateKnowledge)

    def may_lack(self, side: int) -> bool:
        """Whether the query may have read records of a side that are not here."""
        return bool(self.deleted[side] or self.removed[side])

    @property
    def may_lack_any(self) -> bool:
        """Whether it may have, of either side."""
        return self.may_lack(LEFT) or self.may_lack(RIGHT)

    def was_removed(self, row: int) -> bool:
        """Whether a row is an offset without a record, where compaction may have removed one."""
        history = self.history
        return row in history.absent and history.side(history.rows.side[row]).topic in self.about.compacted

    @property
    def judged(self) -> list[BatchRows]:
        """The batches whose rows are known."""
        return [batch for batch in self.history.batches if batch.plan.batch != self.before]

    @property
    def restarted(self) -> frozenset[int]:
        """The batches with which the query was started again, as progress reports or another Spark show: each may have
        begun before.
        """
        return frozenset(batch.plan.batch for batch in self.history.batches if batch.plan.restarted)

    @property
    def ran_again(self) -> frozenset[int]:
        """The batches that may have written rows twice: after a restart or, in a run of tidemark, where more is known,
        in another run of the batch, or after a failed task.
        """
        plans = [batch.plan for batch in self.history.batches]
        if self.history.manifest.sink is None:
            again = self.restarted
        else:
            again = frozenset(plan.batch for plan in plans if plan.runs > 1)
        return again | frozenset(plan.batch for plan in plans if plan.failed_tasks)

    def is_before(self, row: int) -> bool:
        """Whether a row was read before the first batch that can be judged."""
        return self.before is not None and self.history.rows.batch[row] == self.before

    def counted(self) -> History:
        """The history without the rows that the state shows to have been late."""
        return without(self.history, self.by_state.late) if self.by_state.late else self.history

    def owing(self, history: History) -> History:
        """A history up to the last batch that owes its rows."""
        known = [
            batch
            for batch in history.batches
            if batch.plan.committed and batch.plan.batch <= self.about.owed_to
        ]
        return history if len(known) == len(history.batches) else replace(history, batches=known)

    def is_earlier(self, identity: int) -> bool:
        """Whether an output row can only be of a batch before the first that can be judged."""
        right = right_of(identity)
        made_of = [first_of(identity)] if right is None else [first_of(identity), right]
        return not self.by_state.passed.isdisjoint(made_of)


def read_audited(run: Evidence) -> AuditedHistory:
    """Read inputs and batches of an audited query into columns; raises what the evidence raises if it is broken."""
    about = run.manifest.audit
    assert about is not None, "the manifest of an audit has it"
    history = read_history(_WithoutBatches(run))
    before = about.first_batch - 1 if about.first_batch > 0 else None
    _take_batches(history, [plan for plan in run.batches() if before is None or plan.batch >= before])
    deleted = [
        sum(end - start for start, end in about.deleted.get(history.side(side).topic, {}).values())
        for side in (LEFT, RIGHT)
    ]
    removed = [
        history.absent_of(side) if history.side(side).topic in about.compacted else 0
        for side in (LEFT, RIGHT)
    ]
    counts, may = (deleted[LEFT], deleted[RIGHT]), (removed[LEFT], removed[RIGHT])
    if before is None:
        return AuditedHistory(history, about, before, frozenset(), counts, may)
    unsure = frozenset(_unsure(history))
    by_state = _by_state(run, history, unsure, is_whole=not any((*deleted, *removed)))
    unsure -= by_state.accepted | by_state.late
    return AuditedHistory(history, about, before, unsure, counts, may, by_state)


def _by_state(run: Evidence, history: History, unsure: frozenset[int], *, is_whole: bool) -> StateKnowledge:
    """What the state says, if it was read after the batch before the first that can be judged."""
    info, state = run.manifest.state, run.state()
    batches = history.batches
    if state is None or info is None or not batches or batches[0].plan.batch not in info.batches:
        return without_state(history, unsure)
    return from_state(history, unsure, state, is_whole=is_whole)


class _WithoutBatches:
    """The evidence of an audit, whose batches begin anywhere: they are taken here, by their own ids."""

    def __init__(self, run: Evidence) -> None:
        self._run = run

    @property
    def manifest(self) -> Manifest:
        """As it is."""
        return self._run.manifest

    def inputs(self) -> Iterable[InputRecord]:
        """As they are."""
        return self._run.inputs()

    def batches(self) -> Sequence[Batch]:
        """None."""
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def without(history: History, rows: Iterable[int]) -> History:
    """A history in which these rows are no events, as if each had been late."""
    fewer = Rows()
    fewer.__dict__.update(history.rows.__dict__)
    fewer.disposition = bytearray(history.rows.disposition)
    for row in rows:
        fewer.disposition[row] = Disposition.UNREADABLE
    return replace(history, rows=fewer)


def _take_batches(history: History, plans: Sequence[Batch]) -> None:
    """Give rows to batches, up to the first batch that is missing or whose offsets make no sense."""
    history.planned = len(plans)
    positions: list[dict[str, int]] = [{}, {}]
    for side in (LEFT, RIGHT):
        topic = history.manifest.inputs.get(history.side(side).topic)
        positions[side] = dict(topic.start_offsets) if topic is not None else {}
    for index, plan in enumerate(plans):
        gap = _gap(plans, index) or _backwards(history, plans, index)
        if gap:
            history.gaps.append((plan.batch, gap))
            return
        taken = [list(_take(history, plan, side, positions[side])) for side in (LEFT, RIGHT)]
        history.batches.append(BatchRows(plan, (taken[LEFT], taken[RIGHT])))


def _gap(plans: Sequence[Batch], index: int) -> str:
    if index == 0:
        return ""
    plan, last = plans[index], plans[index - 1]
    if plan.batch != last.batch + 1:
        return f"batch {plan.batch} was planned after batch {last.batch}, and the log has none between them"
    if not last.committed:
        return f"batch {plan.batch} was planned although batch {last.batch} was never committed"
    return ""


def _backwards(history: History, plans: Sequence[Batch], index: int) -> str:
    plan, last = plans[index], plans[max(index - 1, 0)]
    for side in (LEFT, RIGHT):
        topic = history.side(side).topic
        for partition, end in plan.end_offsets.get(topic, {}).items():
            start = last.end_offsets.get(topic, {}).get(partition, 0)
            if end < start:
                return (
                    f"batch {plan.batch} ends {topic}/{partition} at offset {end}, before its start {start}"
                )
    return ""


def _take(history: History, plan: Batch, side: int, positions: dict[str, int]) -> Iterator[int]:
    """The rows of a batch that the topic still holds."""
    for name, end in plan.end_offsets.get(history.side(side).topic, {}).items():
        start = positions.get(name, 0)
        positions[name] = max(start, end)
        partition = history.partitions[side].get(int(name))
        if partition is None or end <= start:
            continue
        for row in partition.between(start, end):
            history.rows.batch[row] = plan.batch
            yield row


def _unsure(history: History) -> Iterator[int]:
    """Rows of the first batch here at or before its watermark, of a side whose rows can be late."""
    if not history.batches:
        return
    first = history.batches[0]
    limit_us = first.plan.watermark_ms * US_PER_MS
    for side in (LEFT, RIGHT):
        if history.side(side).watermark_delay_ms is None:
            continue
        for row in first.rows[side]:
            time_us = history.rows.time_us[row]
            if time_us <= limit_us and time_us != NULL_TIME_US:
                yield row
