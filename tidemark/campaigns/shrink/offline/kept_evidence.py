"""What is kept of an evidence, by number; how large it is; and what of the whole belongs together.

Free of Kafka and Spark. Rows of the input, output records and batches are known by their numbers in the whole evidence,
so that a candidate is a few tuples, however large the evidence is.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import msgspec

from tidemark.campaigns.shrink.offline.held_evidence import HeldEvidence, Place
from tidemark.campaigns.shrink.shrinkable import fields_in, named_fields
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.input.history import NO_KEY, History, empty_history, read_history
from tidemark.oracle.input.output_rows import OutputReader
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT

OUTPUT = ""
"""The topic of an output record's columns."""
MadeOf = tuple[frozenset[int], ...]
"""The rows that an output record may be made of, for each side that it names."""


class KeptBatch(NamedTuple):
    """Batches of the whole as one: it is planned as the ``plan`` was, and reads up to the end of the ``last``."""

    plan: int
    last: int


@dataclass(frozen=True)
class EvidencePart:
    """``rows``, ``output`` and ``batches`` in their order; ``parts`` are names of what was observed beside them.

    ``without`` are columns (topic and field; of the output :data:`OUTPUT`) that are left out. With ``is_derived`` the
    log is whole, and each batch has the watermark that the rows before it give; else that of the log. With
    ``in_one_partition`` each input topic has one. ``is_bare``: records have no keys, headers and timestamps that the
    judge does not need.
    """

    rows: tuple[int, ...]
    output: tuple[int, ...]
    batches: tuple[KeptBatch, ...]
    parts: frozenset[str] = frozenset()
    without: frozenset[tuple[str, str]] = frozenset()
    is_derived: bool = False
    in_one_partition: bool = False
    is_bare: bool = False


class EvidenceSize(NamedTuple):
    """How large it is; compared field by field, in this order. ``logged`` counts watermarks that the log gives."""

    rows: int
    output: int
    batches: int
    parts: int
    partitions: int
    logged: int
    fields: int
    envelopes: int

    def __str__(self) -> str:
        counts = ((self.rows, "input row"), (self.output, "output row"), (self.batches, "batch"))
        return ", ".join(f"{count:,} {name if count == 1 else _many(name)}" for count, name in counts)


def _many(name: str) -> str:
    return f"{name}es" if name.endswith("ch") else f"{name}s"


def digest_of_kept(one: EvidencePart) -> str:
    """The SHA-256 of all that is kept: equal for equal candidates in every process."""
    told = (
        one.rows, one.output, one.batches, sorted(one.parts), sorted(one.without), one.is_derived,
        one.in_one_partition, one.is_bare,
    )  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()


class WholeEvidence:
    """An evidence with what belongs together in it.

    ``batch_of`` has the batch that read each row, by its number in ``held.planned``; behind the last: none did.
    ``key_of`` has a number for the join key of each row, which ``keys`` has by number, ``time_of`` its event time in
    microseconds. ``made_of`` are the rows that each output record is made of.
    """

    def __init__(self, held: HeldEvidence) -> None:
        self.held = held
        self.contract = Contract.from_json(held.manifest.contract)
        self.places: Sequence[Place] = list(held.places())
        self.number_of: Mapping[Place, int] = {place: number for number, place in enumerate(self.places)}
        self.batch_of = list(self._batches_of_rows())
        history = read_history(replace(held, planned=()))
        self.key_of, self.time_of = self._keys_and_times(history)
        self.keys = {number: key for key, number in history.rows.keys.items()}
        makers = _Makers(self, history)
        self.made_of: Sequence[MadeOf] = list(makers.of_all(held.written))
        self.came = frozenset(map(makers.ids_of, held.written))

    @property
    def all(self) -> EvidencePart:
        """All of it; what nobody asks of a part of a run is left out: coverage goals, demands in time."""
        held = self.held
        beside = {name for name in held.beside.__dataclass_fields__ if getattr(held.beside, name)}
        told = {"plan_differs"} if held.manifest.plan_differs else set()
        return EvidencePart(
            rows=tuple(range(len(held.records))),
            output=tuple(range(len(held.written))),
            batches=tuple(KeptBatch(number, number) for number in range(len(held.planned))),
            parts=frozenset(beside | told),
        )

    def size_of(self, one: EvidencePart) -> EvidenceSize:
        """The size of what is kept."""
        return EvidenceSize(
            rows=len(one.rows),
            output=len(one.output),
            batches=len(one.batches),
            parts=len(one.parts),
            partitions=2 if one.in_one_partition else self._partitions,
            logged=0 if one.is_derived else len(one.batches),
            fields=len(self.columns) - len(one.without),
            envelopes=int(not one.is_bare),
        )

    def with_rows(self, one: EvidencePart, rows: Sequence[int]) -> EvidencePart:
        """The same with these rows alone, and with the output records that can be made of them."""
        there = set(rows)
        output = tuple(number for number in one.output if all(some & there for some in self.made_of[number]))
        return replace(one, rows=tuple(rows), output=output)

    def named(self, topic: str, partition: object, offset: object) -> int | None:
        """The row at a place that an output record names."""
        if type(partition) is not int or type(offset) is not int:
            return None
        return self.number_of.get((topic, partition, offset))

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """Topic and name of every field that the contract does not name."""
        contract, output = self.contract, self.contract.output
        named = {side.topic: named_fields(contract, side) for side in (contract.left, contract.right)}
        refs = (*(output.left_ref or ()), *(output.right_ref or ()))
        named[OUTPUT] = {name for name in (output.left_id, output.right_id, *refs) if name is not None}
        values = [(one.topic, one.value) for one in self.held.records]
        values += [(OUTPUT, one.value) for one in self.held.written]
        found = {(topic, name) for topic, value in values for name in fields_in(value) or ()}
        return sorted((topic, name) for topic, name in found if name not in named[topic])

    @cached_property
    def _partitions(self) -> int:
        return sum(len(about.end_offsets) for about in self.held.manifest.inputs.values())

    def _batches_of_rows(self) -> Iterator[int]:
        ends: dict[tuple[str, int], list[int]] = {}
        for topic, partition, offset in self.places:
            place = topic, partition
            if place not in ends:
                ends[place] = list(self._ends(topic, str(partition)))
            yield bisect_right(ends[place], offset)

    def _ends(self, topic: str, partition: str) -> Iterator[int]:
        """The end of each batch, never before that of the one before."""
        end = 0
        for batch in self.held.planned:
            end = max(end, batch.end_offsets.get(topic, {}).get(partition, 0))
            yield end

    def _keys_and_times(self, history: History) -> tuple[list[int], list[int | None]]:
        keys, times = [NO_KEY] * len(self.places), list[int | None]([None] * len(self.places))
        for side in (LEFT, RIGHT):
            topic = history.side(side).topic
            for number, partition in history.partitions[side].items():
                for row, offset in zip(partition.rows, partition.offsets, strict=True):
                    key, at = history.rows.key[row], self.number_of[topic, number, offset]
                    keys[at] = key if key >= 0 or key == NO_KEY else ~key
                    times[at] = None if key == NO_KEY else history.rows.event_us[row]
        return keys, times


class _Makers:
    """Which rows an output record may be made of: by place, or else by id, which several rows may have."""

    def __init__(self, whole: WholeEvidence, history: History) -> None:
        self._whole = whole
        output = whole.contract.output
        self._refs = (output.left_ref, output.right_ref) if output.has_refs else (None, None)
        self._reader = OutputReader(empty_history(history.manifest), lambda identities, _batch: identities[0])
        self._by_id: tuple[dict[str, set[int]], dict[str, set[int]]] = ({}, {})
        for side in (LEFT, RIGHT):
            topic = history.side(side).topic
            for number, partition in history.partitions[side].items():
                for row, offset in zip(partition.rows, partition.offsets, strict=True):
                    name = history.rows.id[row]
                    if name is not None:
                        place = topic, number, offset
                        self._by_id[side].setdefault(name, set()).add(whole.number_of[place])

    def ids_of(self, record: OutputRecord) -> frozenset[tuple[str, str | None]]:
        """The ids of an output row, by the names of their fields, as a finding has them."""
        names = self._whole.contract.output.left_id, self._whole.contract.output.right_id
        pairs = zip(names, self._reader.claimed(record), strict=True)
        return frozenset((name, of) for name, of in pairs if name is not None)

    def of_all(self, records: Sequence[OutputRecord]) -> Iterator[MadeOf]:
        """The rows of each record."""
        topics = self._whole.contract.left.topic, self._whole.contract.right.topic
        for record in records:
            fields, claimed = fields_in(record.value) or {}, self._reader.claimed(record)
            sides = []
            for side in (LEFT, RIGHT):
                ref = self._refs[side]
                if ref is not None:
                    number = self._whole.named(topics[side], fields.get(ref[0]), fields.get(ref[1]))
                    rows = set() if number is None else {number}
                else:
                    name = claimed[side]
                    rows = set() if name is None else self._by_id[side].get(name, set())
                if rows:
                    sides.append(frozenset(rows))
            yield tuple(sides)
