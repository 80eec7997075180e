"""The evidence that is left of what is kept: with offsets, batches and watermarks that go together again.

Free of Kafka and Spark. Nothing is made up but what follows from what was left out:

* the records of a partition follow each other without gaps, and end offsets of batches, and the places that output
  records, state and manifest name, are the new ones. Places of output records stay what they were;
* batches that are one get the plan of one of them, the end offsets of the last, and new numbers in a row. Where a
  number was missing, it is missing still;
* the watermark of a batch is that of the log, or, if the log's would need rows that are gone, the one that the rows
  before it give by Spark's rule. Then the log is taken to be whole, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec

from tidemark.campaigns.shrink.offline.held_evidence import Beside, HeldEvidence, Place
from tidemark.campaigns.shrink.offline.kept_evidence import OUTPUT, EvidencePart, WholeEvidence
from tidemark.campaigns.shrink.shrinkable import fields_in
from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.evidence import Batch, OutputRecord, StateRow
from tidemark.formats.exact_json import json_text
from tidemark.formats.manifest import InputTopic, Manifest, StateInfo
from tidemark.formats.run_notes import NOT_COMPARED
from tidemark.formats.trace import Record
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle.coverage import WAIVABLE
from tidemark.oracle.input.history import Disposition, read_history
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS

NEEDED_HEADERS = ("query", "batch", "partition", "attempt")
HEADERS_AND_VALUES = (", ", ": ")


class Inconsistent(ValueError):
    """What is kept does not make an evidence."""


def smaller_evidence(whole: WholeEvidence, kept: EvidencePart) -> HeldEvidence | None:
    """The evidence that is left; ``None`` where what is kept contradicts what is not."""
    try:
        return _Smaller(whole, kept).evidence()
    except Inconsistent:
        return None


class _Smaller:
    """One candidate."""

    def __init__(self, whole: WholeEvidence, kept: EvidencePart) -> None:
        self._whole, self._held, self._kept = whole, whole.held, kept
        self._about = whole.held.manifest.audit
        planned = self._held.planned
        self._group_of = [len(kept.batches)] * (len(planned) + 1)
        first = 0
        for group, (_, last) in enumerate(kept.batches):
            self._group_of[first : last + 1] = [group] * (last + 1 - first)
            first = last + 1
        self._numbers = list(self._numbered())
        self._new_batch = {
            batch.batch: self._numbers[group]
            for batch, group in zip(planned, self._group_of, strict=False)
            if group < len(self._numbers)
        }
        self._must_be_possible()

    def evidence(self) -> HeldEvidence:
        """All of it."""
        rows = self._rows
        first_sentinel = sum(number < self._held.first_sentinel for number in rows)
        held = HeldEvidence(
            manifest=self._manifest(),
            records=tuple(self._record(number) for number in rows),
            first_sentinel=first_sentinel,
            planned=tuple(self._plans()),
            written=tuple(self._written(self._held.written[number]) for number in self._kept.output),
            beside=self._beside(),
        )
        if held.problem:
            raise Inconsistent
        return with_derived_watermarks(held) if self._kept.is_derived else held

    def _must_be_possible(self) -> None:
        kept, about, held = self._kept, self._about, self._held
        is_less = len(kept.rows) < len(held.records) or len(kept.batches) < len(held.planned)
        if "progress" in kept.parts and (is_less or kept.is_derived or kept.in_one_partition):
            raise Inconsistent
        is_trimmed = about is not None and about.first_batch > 0 and not kept.is_derived
        if is_trimmed and kept.batches and kept.batches[0].last > 0:
            raise Inconsistent  # the first stands for all before the log
        if kept.in_one_partition and about is not None and (about.deleted or about.compacted):
            raise Inconsistent

    def _numbered(self) -> Iterator[int]:
        """The new number of each batch."""
        planned, number = self._held.planned, 0 if self._kept.is_derived or not self._held.planned else None
        first = 0
        for _, last in self._kept.batches:
            if number is None:
                number = planned[0].batch
            elif first:
                number += planned[first].batch - planned[first - 1].batch
            yield number
            first = last + 1

    def _number(self, batch: int) -> int:
        """The new number of a batch of the whole; of one that is none, it is none of the new ones either."""
        found = self._new_batch.get(batch)
        if found is not None:
            return found
        before = [one for one in self._new_batch if one < batch]
        if not before:
            return self._numbers[0] if self._kept.is_derived and self._numbers else batch
        return self._new_batch[max(before)] + batch - max(before)

    @cached_property
    def _rows(self) -> list[int]:
        """The rows by the batches that read them, sentinels last."""
        cut, batch_of = self._held.first_sentinel, self._whole.batch_of
        traced = [number for number in self._kept.rows if number < cut]
        traced.sort(key=lambda number: (self._group_of[batch_of[number]], number))
        return [*traced, *(number for number in self._kept.rows if number >= cut)]

    @cached_property
    def _starts(self) -> dict[tuple[str, int], int]:
        """The first offset of each partition."""
        inputs = self._held.manifest.inputs
        if self._kept.in_one_partition:
            return {(topic, 0): 0 for topic in inputs}
        return {
            (topic, int(part)): about.start_offsets.get(part, 0)
            for topic, about in inputs.items()
            for part in about.end_offsets
        }

    @cached_property
    def _placed(self) -> dict[int, Place]:
        """The new place of each row."""
        counts, found, seen = Counter(self._starts), dict[int, Place](), dict[tuple[str, int], int]()
        for number in self._rows:
            topic, partition, _ = self._whole.places[number]
            place = topic, 0 if self._kept.in_one_partition else partition
            group = self._group_of[self._whole.batch_of[number]]
            if group < seen.get(place, 0):
                raise Inconsistent  # a later batch would read an earlier offset
            seen[place] = group
            found[number] = (*place, counts[place])
            counts[place] += 1
        return found

    @cached_property
    def _ends(self) -> dict[tuple[str, int], list[int]]:
        """For each partition, the end of each new batch, and that of all."""
        found = {place: [0] * (len(self._numbers) + 1) for place in self._starts}
        for number, (topic, partition, _) in self._placed.items():
            found[topic, partition][self._group_of[self._whole.batch_of[number]]] += 1
        for place, counts in found.items():
            total = self._starts[place]
            for group, count in enumerate(counts):
                total += count
                counts[group] = total
        return found

    def _plans(self) -> Iterator[Batch]:
        for group, (plan, last) in enumerate(self._kept.batches):
            of_plan, of_last = self._held.planned[plan], self._held.planned[last]
            yield msgspec.structs.replace(
                of_plan,
                batch=self._numbers[group],
                end_offsets={
                    topic: self._end_offsets(topic, parts, group)
                    for topic, parts in of_last.end_offsets.items()
                },
                committed=of_last.committed,
                committed_at_ms=of_last.committed_at_ms,
            )

    def _end_offsets(self, topic: str, ends: Mapping[str, int], group: int) -> dict[str, int]:
        if self._kept.in_one_partition:
            return {"0": self._ends[topic, 0][group]}
        starts = self._starts
        return {
            part: end if end <= starts.get((topic, int(part)), 0) else self._ends[topic, int(part)][group]
            for part, end in ends.items()
        }

    def _record(self, number: int) -> Record:
        record, cut = self._held.records[number], self._held.first_sentinel
        _, partition, _ = self._placed[number]
        at = self._group_of[self._whole.batch_of[number]] if number < cut else record.slice
        value = self._without_columns(record.topic, record.value)
        if self._kept.is_bare:
            return Record(
                topic=record.topic, value=value, value_base64=record.value_base64, slice=at, partition=partition,
                arrival_ms=0,
            )  # fmt: skip
        return msgspec.structs.replace(record, value=value, slice=at, partition=partition)

    def _without_columns(self, topic: str, value: str | None) -> str | None:
        fields = fields_in(value) if self._kept.without else None
        if fields is None:
            return value
        left = {name: of for name, of in fields.items() if (topic, name) not in self._kept.without}
        return value if len(left) == len(fields) else json_text(left, HEADERS_AND_VALUES, ensure_ascii=False)

    def _written(self, record: OutputRecord) -> OutputRecord:
        named = {}
        text = record.header("batch")
        if text is not None and text.isdecimal() and len(text) < 19:
            named["batch"] = str(self._number(int(text)))
        bare, headers = self._kept.is_bare, record.headers
        headers = [
            (name, named.get(name, value)) for name, value in headers if name in NEEDED_HEADERS or not bare
        ]
        value = self._without_columns(OUTPUT, self._with_places(record.value))
        if bare:
            return OutputRecord(
                partition=record.partition, offset=record.offset, value=value, headers=headers
            )
        return msgspec.structs.replace(record, value=value, headers=headers)

    def _with_places(self, value: str | None) -> str | None:
        """An output record's value that names the new places of its input records."""
        contract = self._whole.contract
        sides = ((contract.left, contract.output.left_ref), (contract.right, contract.output.right_ref))
        fields, changed = fields_in(value), dict[str, Any]()
        for side, ref in sides if fields is not None else ():
            if ref is not None and fields is not None:
                changed |= zip(
                    ref, self._new_ref(side.topic, fields.get(ref[0]), fields.get(ref[1])), strict=True
                )
        if fields is None or all(fields.get(name) == of for name, of in changed.items()):
            return value
        return json_text({**fields, **changed}, HEADERS_AND_VALUES, ensure_ascii=False)

    def _new_ref(self, topic: str, partition: Any, offset: Any) -> tuple[Any, Any]:
        """A place as an output record or a row of the state names it; where nothing was, nothing may be now."""
        number = self._whole.named(topic, partition, offset)
        if number is None:
            if (topic, partition, offset) in self._taken:
                raise Inconsistent
            return partition, offset
        if number not in self._placed:
            raise Inconsistent
        return self._placed[number][1:]

    @cached_property
    def _taken(self) -> frozenset[tuple[Any, ...]]:
        return frozenset(self._placed.values())

    def _beside(self) -> Beside:
        kept, beside = self._kept.parts, self._held.beside
        last = {self._held.planned[one.last].batch for one in self._kept.batches}
        states = tuple(self._state_rows(last)) if "state" in kept else None
        keys = {self._key_in_state(number) for number in self._kept.rows}
        return Beside(
            state=states,
            state_keys=tuple(
                msgspec.structs.replace(one, batch=self._number(one.batch))
                for one in beside.state_keys or ()
                if one.batch in last and one.key in keys
            ) if "state_keys" in kept else None,
            faults=tuple(
                msgspec.structs.replace(one, batch=None if one.batch is None else self._number(one.batch))
                for one in beside.faults
            ) if "faults" in kept else (),
            executors=tuple(
                msgspec.structs.replace(one, batch=self._number(one.batch))
                for one in beside.executors
                if one.batch in last
            ) if "executors" in kept else (),
            progress=beside.progress if "progress" in kept else (),
        )  # fmt: skip

    def _state_rows(self, last: Iterable[int]) -> Iterator[StateRow]:
        """The rows of the state that are of a row that is kept, as far as the state says of which each is."""
        topics = {"left": self._whole.contract.left.topic, "right": self._whole.contract.right.topic}
        keys = {self._key_in_state(number) for number in self._kept.rows}
        for row in self._held.beside.state or ():
            number = None if row.ref is None else self._whole.named(topics[row.side], *row.ref)
            is_gone = (
                number not in self._placed
                if number is not None
                else row.key is not None and row.key not in keys
            )
            if row.batch not in last or is_gone:
                continue
            ref = None if row.ref is None else self._new_ref(topics[row.side], *row.ref)
            yield msgspec.structs.replace(row, batch=self._number(row.batch), ref=ref)

    def _key_in_state(self, number: int) -> tuple[str | None, ...] | None:
        return self._whole.keys.get(self._whole.key_of[number])

    def _manifest(self) -> Manifest:
        manifest, kept = self._held.manifest, self._kept
        inputs = dict[str, InputTopic]()
        for topic, about in manifest.inputs.items():
            parts = ["0"] if kept.in_one_partition else list(about.end_offsets)
            starts = {part: self._starts[topic, int(part)] for part in parts}
            inputs[topic] = InputTopic(
                about.topic, starts, {part: self._ends[topic, int(part)][-1] for part in parts}
            )
        return msgspec.structs.replace(
            manifest,
            inputs=inputs,
            goals=[],
            waived=sorted({*manifest.waived, *WAIVABLE}) if self._about is None else [],
            demands=None,
            hang=None,
            plan_differs=manifest.plan_differs if "plan_differs" in kept.parts else [],
            notes=[note for note in manifest.notes if note.startswith(NOT_COMPARED)],
            command=None,
            pipeline_sha256=None,
            project_sha256=None,
            parquet_sha256={},
            state=None if manifest.state is None else self._state_info(manifest.state),
            audit=None if self._about is None else self._audit(self._about),
        )

    def _state_info(self, info: StateInfo) -> StateInfo:
        if "state" not in self._kept.parts:
            return msgspec.structs.replace(
                info, batches=[], problem=None, note="it is not needed for the finding"
            )
        last = {self._held.planned[one.last].batch for one in self._kept.batches}
        return msgspec.structs.replace(
            info, batches=[self._number(one) for one in info.batches if one in last]
        )

    def _audit(self, about: AuditedQuery) -> AuditedQuery:
        derived, batches = self._kept.is_derived, self._kept.batches
        first = 0 if derived else about.first_batch
        is_first = about.from_batch == about.first_batch
        held = Counter(
            record.topic
            for record in (self._held.records[number] for number in self._kept.rows)
            if record.text_or_bytes() is None
        )
        is_whole = bool(batches) and batches[-1].last == len(self._held.planned) - 1
        to_batch = min(self._number(about.to_batch), self._numbers[-1]) if self._numbers else first
        return msgspec.structs.replace(
            about,
            first_batch=first,
            from_batch=first if is_first else self._number(about.from_batch),
            to_batch=to_batch,
            owed_to=self._owed_to(about.owed_to),
            unheld={topic: min(count, held[topic]) for topic, count in about.unheld.items()},
            next_watermark_ms=about.next_watermark_ms if is_whole and not derived else None,
            reported=None if about.reported is None else self._between(*about.reported),
            sparks=[one._replace(first=span[0], last=span[1])
                    for one in about.sparks if (span := self._between(one.first, one.last)) is not None],
        )  # fmt: skip

    def _owed_to(self, batch: int) -> int:
        """The last new batch of which all that it stands for was committed before the output was looked at."""
        owed = [
            number
            for number, (_, last) in zip(self._numbers, self._kept.batches, strict=True)
            if self._held.planned[last].batch <= batch
        ]
        return max(owed, default=min(batch, self._numbers[0] - 1 if self._numbers else batch))

    def _between(self, first: int, last: int) -> tuple[int, int] | None:
        """The new batches that stand for some of these."""
        found = [new for old, new in self._new_batch.items() if first <= old <= last]
        return (min(found), max(found)) if found else None


def with_derived_watermarks(held: HeldEvidence) -> HeldEvidence:
    """The same with the watermarks that its rows give; raises ``Inconsistent`` where Spark has a choice."""
    history = read_history(held)
    contract, rows = history.contract, history.rows
    if history.gaps or history.optional:
        raise Inconsistent
    sides = contract.left, contract.right
    tracker = WatermarkTracker([side.watermark_delay_ms for side in sides], contract.policy)
    planned = list[Batch]()
    for batch in history.batches:
        if batch.plan.restarted or batch.plan.runs > 1:
            tracker.restart()
        planned.append(msgspec.structs.replace(batch.plan, watermark_ms=tracker.watermark_ms))
        for side in (LEFT, RIGHT) if any(one.watermark_delay_ms is not None for one in sides) else ():
            for row in batch.rows[side]:
                if rows.disposition[row] == Disposition.UNREAD and sides[side].watermark_delay_ms is not None:
                    time_us = rows.event_us[row]
                    tracker.observe(side, 0 if time_us == NULL_TIME_US else time_us // US_PER_MS)
        tracker.advance()
    return replace(held, planned=tuple(planned))
