"""What Spark wrote: every output record, compared by identity and batch with what was predicted.

Free of I/O. ``JoinComparison.run`` returns what it saw; findings go into the book. Rules that are a choice:

* A batch owes its rows once it is committed. The rows of a batch that was planned and never committed may
  come.
* Delivery ``at-least-once`` permits a row that comes again *in its own batch* if that batch was run again or
  a task of it failed, and a record that the producer sent twice because a broker died (``repeats.py``);
  ``exactly-once`` permits no repeat. A row that comes again in another batch is never permitted.
* In a left semi join every repeat that is not permitted is ``repeated_semi_rows``; in the others
  ``duplicate_rows``.
* A row with a late input is ``late_rows_joined``, whatever kind of row it is; so is a semi row all of whose
  partners were late.
* A NULL row for a left row that is matched in any batch is ``nulls_for_matched_rows``, also if it came too
  early.
* A row of a record that the judge cannot read is ``decoded_differently`` where that is certain
  (``unread_records``); else it is invented.
* A right row that came after a right row of a later batch in one partition is ``misordered_rows`` (``batch_order``).
* Rows made of a sentinel are not compared, nor are records of a batch behind a gap (``missing_batches``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from tidemark.formats.contract import Delivery, JoinKind
from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.compare.batch_order import RightRow, misordered, place_of, written
from tidemark.oracle.compare.explanations import Explain, Why, if_it_never_came
from tidemark.oracle.compare.unread_records import UnreadRecords
from tidemark.oracle.compare.wording import Wording
from tidemark.oracle.delivery import most_copies
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import NO_BATCH, ROW_BITS, ROW_MASK, History, first_of
from tidemark.oracle.input.output_rows import OutputReader, likeliest
from tidemark.oracle.prediction import Prediction


@dataclass
class Defects:
    """What known defects of Spark do to this run: identity -> the defect's name."""

    lost: dict[int, str] = field(default_factory=dict)
    """Rows that are right, and that this Spark does not emit."""
    added: dict[int, str] = field(default_factory=dict)
    """Rows that this Spark emits, and that are wrong."""


@dataclass
class Seen:
    """What came out."""

    awaited: dict[int, int] = field(default_factory=dict)
    """Identity of each right row -> the batch that it is due in; once it came, ``~place`` (below 0) of that record."""
    counts: Counter[str] = field(default_factory=Counter)
    permitted: Counter[int] = field(default_factory=Counter)
    """Batch -> rows that came again in it, and were permitted."""

    def came(self, identity: int) -> bool:
        """Whether a right row came."""
        return self.awaited.get(identity, 0) < 0

    def came_at(self, identity: int) -> str:
        """Where a row that came was read first: ``partition/offset``."""
        return written(~self.awaited[identity])

    def identities(self) -> list[int]:
        """All right rows that came."""
        return [identity for identity, due in self.awaited.items() if due < 0]


class OutputPosition(NamedTuple):
    """Where a row came: its batch and its place in the output (``None``: it never came)."""

    batch: int
    place: int | None


class JoinComparison:
    """One pass over the output, then a look at what never came."""

    def __init__(
        self,
        history: History,
        prediction: Prediction,
        defects: Defects,
        finding_log: FindingLog,
        unread: UnreadRecords,
    ) -> None:
        self.seen = Seen(dict(prediction.batch_of))
        self._history = history
        self._predicted = prediction.batch_of
        self._defects = defects
        self._repeat = (
            "repeated_semi_rows" if history.contract.kind is JoinKind.LEFT_SEMI else "duplicate_rows"
        )
        self._finding_log = finding_log
        self._unread = unread
        self._words = Wording(history, prediction)
        self._explain = Explain(history, prediction, self._words)
        self._reader = OutputReader(history, self._choose)
        plans = [batch.plan for batch in history.batches]
        self._owing = [plan.committed for plan in plans]
        self._most = [most_copies(history.manifest, plan, history.deaths) for plan in plans]
        self._came_again: Counter[int] = Counter()
        self._alike: dict[Hashable, int] = {}
        """Of rows with the same ids and batch the one that all copies are taken for -> how many of them there are."""
        self._first_alike: dict[Hashable, int] = {}
        """Each of these rows -> that one."""
        self._beyond: float = len(plans) if history.gaps else math.inf
        self._copies: list[RightRow] = []

    def run(self, output: Iterable[OutputRecord]) -> Seen:
        """Compare all of it."""
        astray = []
        predicted, awaited, read = self._predicted, self.seen.awaited, self._reader.read
        first_sentinel, records, sentinels = self._history.rows.first_sentinel, 0, 0
        for record in output:
            records += 1
            identity, batch, problem = read(record)
            place = place_of(record.partition, record.offset)
            if identity is None:
                self._no_row(record, OutputPosition(batch, place), problem)
            elif (
                identity >> ROW_BITS >= first_sentinel or identity & ROW_MASK > first_sentinel
            ) and self._is_of_sentinels(identity):
                sentinels += 1
            elif awaited.get(identity) == batch:
                awaited[identity] = ~place
            elif batch >= self._beyond:
                self.seen.counts["not_compared"] += 1
            elif identity not in predicted:
                self._unexpected(identity, OutputPosition(batch, place), record)
            elif predicted[identity] == batch:
                self._again(identity, OutputPosition(batch, place), place)
            else:
                astray.append((identity, OutputPosition(batch, place), place))
        self.seen.counts.update(
            output_records=records, sentinel_rows=sentinels, duplicates_permitted=self.seen.permitted.total()
        )
        self._judge_order()
        for identity, came, place in astray:
            self._judge_astray(identity, came, place)
        for identity, due in awaited.items():
            if due >= 0 and self._owing[due] and identity not in self._defects.added:
                self._judge_missing(identity, due)
        for identity in sorted(self._defects.lost):
            self._judge_lost(identity)
        for identity in sorted(self._defects.added):
            self._judge_added(identity)
        return self.seen

    def _is_of_sentinels(self, identity: int) -> bool:
        """Whether a row is of sentinels alone, or of one and a row of the trace as the rules give it."""
        first_sentinel, right = self._history.rows.first_sentinel, identity & ROW_MASK
        of_left, of_right = identity >> ROW_BITS >= first_sentinel, right > first_sentinel
        if of_left and (of_right or not right):
            return True
        return (of_left or of_right) and identity in self._predicted

    def _choose(self, identities: list[int], batch: int) -> int:
        """Which of several rows with the same ids a record is."""
        due = [one for one in identities if self._predicted.get(one) == batch]
        if not due or len(identities) == 1:
            return likeliest(identities, batch, self._predicted, self.seen.came)
        chosen = likeliest(due, batch, self._predicted, self.seen.came)
        if len(due) > 1:
            first = min(due)
            self._alike[first] = len(due)
            self._first_alike |= dict.fromkeys(due, first)
        if self.seen.came(chosen) and not self._may_come_again(chosen, batch):
            return likeliest(identities, batch, self._predicted, self.seen.came)
        return chosen

    def _right_rows(self) -> Iterator[RightRow]:
        """The records of right rows in their batches, copies last; rows with the same ids are one."""
        first = self._first_alike
        for identity, due in self.seen.awaited.items():
            if due < 0 and identity in self._predicted:
                yield RightRow(first.get(identity, identity), self._predicted[identity], ~due)
        for copy in self._copies:
            yield copy if copy.row not in first else copy._replace(row=first[copy.row])

    def _judge_order(self) -> None:
        """Rows that were not in the topic when a later batch was written there."""
        rest = self._history.rest
        known = None if rest is None else rest.first_places
        for one in misordered(self._right_rows, lambda row: self._alike.get(row, 1), known):
            identity, batch, place = one.record
            assert isinstance(identity, int)
            self._add("misordered_rows", identity, one.why, OutputPosition(batch, place))

    def _again(self, identity: int, came: OutputPosition, place: int) -> None:
        self._copies.append(RightRow(identity, came.batch, place))
        if self._is_permitted(identity, came.batch, place):
            self.seen.permitted[came.batch] += 1
            return
        why = "that batch was run once, none of its tasks failed, and its producer sent it once"
        if (most := self._most[came.batch]) > 1:
            plan = self._history.batches[came.batch].plan
            ran = f"that batch was run {plan.runs} times, and {plan.failed_tasks} of its tasks failed"
            why = f"{ran}: each row may come {most} times"
        if self._history.manifest.delivery is Delivery.EXACTLY_ONCE:
            why = "exactly-once permits no repeat"
        first = self.seen.came_at(identity)
        text = f"came again in batch {came.batch}, after output {first}, and {why}"
        self._add(self._repeat, identity, text, came)

    def _is_permitted(self, identity: int, batch: int, place: int) -> bool:
        """Whether a copy of a row that came is one that the delivery permits."""
        if written(place) in self._history.resent:
            return True
        is_permitted = self._may_come_again(identity, batch)
        self._came_again[identity] += 1
        return is_permitted

    def _may_come_again(self, identity: int, batch: int) -> bool:
        """Whether the delivery permits one more copy of a row that came in its batch."""
        return self._came_again[identity] < (self._most[batch] - 1) * self._alike.get(identity, 1)

    def _judge_astray(self, identity: int, came: OutputPosition, place: int) -> None:
        """A row that is right but for its batch."""
        due = self._predicted[identity]
        name, why = self._explain.wrong_batch(identity, came.batch, due)
        if not self.seen.came(identity):
            self.seen.awaited[identity] = ~place
        elif name != "premature_nulls":
            first = self.seen.came_at(identity)
            name = self._repeat
            why = f"came once more in batch {came.batch}, besides output {first}; it is due in batch {due}"
        self._add(name, identity, why, came)

    def _judge_missing(self, identity: int, batch: int) -> None:
        """A row that is owed and did not come."""
        if self._history.is_of_sentinel(identity):
            return
        name = if_it_never_came(identity, self._history.contract.kind)
        self._add(name, identity, lambda: self._explain.owed(identity, batch), OutputPosition(batch, None))

    def _judge_lost(self, identity: int) -> None:
        """A right row that Spark does not emit, by a known defect."""
        defect = self._defects.lost[identity]
        batch = self._history.rows.batch[first_of(identity)]
        if self.seen.came(identity) or not self._owing[batch]:
            return
        name, why = self._explain.lost_by_spark(identity, batch, defect)
        self._add(name, identity, why, OutputPosition(batch, None), defect=defect)

    def _judge_added(self, identity: int) -> None:
        """A wrong row that Spark emits, by a known defect."""
        if self.seen.came(identity):
            defect, batch = self._defects.added[identity], self._predicted[identity]
            name, why = self._explain.added_by_spark(identity, batch, defect)
            came = OutputPosition(batch, ~self.seen.awaited[identity])
            self._add(name, identity, why, came, defect=defect)

    def _unexpected(self, identity: int, came: OutputPosition, record: OutputRecord) -> None:
        """A row that the model does not predict."""
        claimed = partial(self._reader.claimed, record)
        if identity in self._defects.lost:
            self.seen.awaited.setdefault(identity, ~(came.place or 0))
            why = "came, which is right, although the rules of this Spark lose it"
            self._add("oracles_disagree", identity, why, came)
        elif (found := self._unread.read_by_query(identity, claimed)) is not None:
            self._finding_log.add(
                self._unread.in_output(found, claimed(), written(came.place or 0), came.batch)
            )
        else:
            name, reason = self._explain.unexpected(identity, came.batch)
            self._add(name, identity, reason, came)

    def _add(
        self,
        name: str,
        identity: int,
        why: Why,
        came: OutputPosition,
        *,
        defect: str | None = None,
    ) -> None:
        if defect is None:
            self._finding_log.remember(name, identity, came.batch)
        if not self._finding_log.wants(name, defect):
            self._finding_log.count(name, defect)
            return
        read = None if came.place is None else written(came.place)
        where = f" (output {read})" if read else ""
        message = f"{self._words.output_row(identity)}{where} {why if isinstance(why, str) else why()}"
        finding = self._words.finding(name, identity, message)
        self._finding_log.add(msgspec.structs.replace(finding, read=read, batch=came.batch, defect=defect))

    def _no_row(self, record: OutputRecord, came: OutputPosition, problem: str) -> None:
        """A record that cannot be read (``NO_BATCH``), or names input that does not exist."""
        batch, read = came.batch, written(came.place or 0)
        if batch != NO_BATCH and not self._history.contract.output.has_refs:
            claimed = self._reader.claimed(record)
            if (found := self._unread.meant_by(claimed, self._reader.is_event)) is not None:
                self._finding_log.add(self._unread.in_output(found, claimed, read, batch))
                return
        name, what = (
            ("corrupt_rows", "cannot be judged") if batch == NO_BATCH else ("phantom_rows", "is invented")
        )
        self._finding_log.remember_problem(name, problem)
        if not self._finding_log.wants(name):
            self._finding_log.count(name)
            return
        where = "" if batch == NO_BATCH else f" of batch {batch}"
        message = f"output {read}{where} {what}: {problem}"
        in_batch = None if batch == NO_BATCH else batch
        self._finding_log.add(Finding(property=name, message=message, read=read, batch=in_batch))
