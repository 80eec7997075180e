"""Passes over evidence: what was observed beside it, watermarks, keys, batches, rows with their output, fields.

Free of Kafka and Spark; none of them knows the bug. Rows, batches and fields are left out, none is changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidemark.campaigns.shrink.offline.kept_evidence import EvidencePart, KeptBatch, WholeEvidence
from tidemark.campaigns.shrink.shrinker import Pass, Removal, Rewrite
from tidemark.oracle.findings import Finding


def evidence_passes(whole: WholeEvidence, finding: Finding) -> list[Pass[EvidencePart]]:
    """All of them, coarse to fine."""
    passes = _Passes(whole, finding)
    return [
        Removal("what was observed beside", lambda one: sorted(one.parts), _without_parts),
        Rewrite("watermarks", _derived),
        Rewrite("what the finding names", passes.near),
        Removal("keys", passes.keys, passes.without_keys),
        Removal("batches", _ends, passes.without_starts),
        Removal("batches", _ends, passes.without_ends),
        Rewrite("last batches", passes.without_last),
        Removal("rows that came out together", passes.together, passes.without_together),
        Removal("rows", lambda one: one.rows, passes.without_rows),
        Removal("output", lambda one: one.output, _without_output),
        Rewrite("partitions", lambda one: [replace(one, in_one_partition=True)]),
        Removal("fields", passes.fields, passes.without_fields),
        Rewrite("keys, headers and timestamps of records", lambda one: [replace(one, is_bare=True)]),
    ]


def _without_parts(one: EvidencePart, gone: frozenset[int]) -> EvidencePart:
    names = sorted(one.parts)
    return replace(one, parts=one.parts - {names[number] for number in gone if number < len(names)})


def _derived(one: EvidencePart) -> Iterator[EvidencePart]:
    if not one.is_derived:
        yield replace(one, is_derived=True)


def _ends(one: EvidencePart) -> Sequence[int]:
    """Where one batch ends and another begins."""
    return range(len(one.batches) - 1)


def _without_output(one: EvidencePart, gone: frozenset[int]) -> EvidencePart:
    return replace(one, output=tuple(number for at, number in enumerate(one.output) if at not in gone))


class _Passes:
    """Those that know what belongs together in the whole evidence."""

    def __init__(self, whole: WholeEvidence, finding: Finding) -> None:
        self._whole = whole
        self._finding = finding

    def near(self, one: EvidencePart) -> Iterator[EvidencePart]:
        """The rows that the finding names; all of their keys; and with them the latest rows of each batch."""
        named = self._named(one)
        keys = {self._whole.key_of[number] for number in named}
        own = {number for number in one.rows if self._whole.key_of[number] in keys}
        for chosen in (named, own, own | self._latest(one)):
            kept = self._whole.with_rows(one, sorted(chosen))
            # An output record of which no input record is known stays where the finding is about it alone.
            output = [
                number for number in kept.output if self._whole.made_of[number] or self._is_read(number)
            ]
            yield replace(kept, output=tuple(output))

    def keys(self, one: EvidencePart) -> Sequence[int]:
        return list(dict.fromkeys(self._whole.key_of[number] for number in one.rows))

    def without_keys(self, one: EvidencePart, gone: frozenset[int]) -> EvidencePart:
        keys = {key for at, key in enumerate(self.keys(one)) if at in gone}
        return self._whole.with_rows(one, [row for row in one.rows if self._whole.key_of[row] not in keys])

    def without_rows(self, one: EvidencePart, gone: frozenset[int]) -> EvidencePart:
        return self._whole.with_rows(one, [row for at, row in enumerate(one.rows) if at not in gone])

    def together(self, one: EvidencePart) -> Sequence[tuple[int, ...]]:
        """Rows that output records have in common, if there is more than one of them."""
        first = {row: row for row in one.rows}

        def found(row: int) -> int:
            while first[row] != row:
                first[row] = first[first[row]]
                row = first[row]
            return row

        for number in one.output:
            rows = sorted(row for some in self._whole.made_of[number] for row in some if row in first)
            for row in rows[1:]:
                least, other = sorted((found(rows[0]), found(row)))
                first[other] = least
        groups = defaultdict[int, list[int]](list)
        for row in one.rows:
            groups[found(row)].append(row)
        return [tuple(rows) for rows in groups.values() if len(rows) > 1]

    def without_together(self, one: EvidencePart, gone: frozenset[int]) -> EvidencePart:
        rows = {row for at, some in enumerate(self.together(one)) if at in gone for row in some}
        return self._whole.with_rows(one, [row for row in one.rows if row not in rows])

    def without_starts(self, one: EvidencePart, gone: frozenset[int]) -> EvidencePart:
        """Batches as one, which is planned as the first of them was."""
        return replace(one, batches=tuple(_merged(one.batches, gone, of_first=True)))

    def without_ends(self, one: EvidencePart, gone: frozenset[int]) -> EvidencePart:
        """Batches as one, which is planned as the last of them was."""
        return replace(one, batches=tuple(_merged(one.batches, gone, of_first=False)))

    def without_last(self, one: EvidencePart) -> Iterator[EvidencePart]:
        """The first batches alone, where the others have read nothing that is kept; as few as possible first."""
        read = [self._whole.batch_of[row] for row in one.rows]
        needed = sum(end.last < max(read, default=-1) for end in one.batches) + 1
        for many in range(max(1, needed), len(one.batches)):
            yield replace(one, batches=one.batches[:many])

    def fields(self, one: EvidencePart) -> Sequence[tuple[str, str]]:
        return [column for column in self._whole.columns if column not in one.without]

    def without_fields(self, one: EvidencePart, gone: frozenset[int]) -> EvidencePart:
        chosen = {column for at, column in enumerate(self.fields(one)) if at in gone}
        return replace(one, without=one.without | chosen)

    def _named(self, one: EvidencePart) -> set[int]:
        """The rows that the finding names, and those of which its output record is made."""
        found = set[int]()
        for place in self._finding.written:
            topic, _, rest = place.partition("/")
            partition, _, offset = rest.partition("/")
            number = self._whole.named(topic, int(partition), int(offset))
            found |= {number} if number is not None else set()
        for number in one.output:
            if self._is_read(number):
                found.update(row for some in self._whole.made_of[number] for row in some)
        return found & set(one.rows)

    def _is_read(self, number: int) -> bool:
        record = self._whole.held.written[number]
        return f"{record.partition}/{record.offset}" == self._finding.read

    def _latest(self, one: EvidencePart) -> set[int]:
        """The rows with the latest event time of each batch and topic: they move the watermarks."""
        found = dict[tuple[int, str], int]()
        for row in one.rows:
            time_us = self._whole.time_of[row]
            place = self._whole.batch_of[row], self._whole.places[row][0]
            if time_us is not None and (
                place not in found or time_us > (self._whole.time_of[found[place]] or 0)
            ):
                found[place] = row
        return set(found.values())


def _merged(batches: Sequence[KeptBatch], gone: frozenset[int], *, of_first: bool) -> Iterator[KeptBatch]:
    """Batches, without the ends with these numbers."""
    plan: int | None = None
    for number, batch in enumerate(batches):
        plan = batch.plan if plan is None or not of_first else plan
        if number not in gone:
            yield KeptBatch(plan, batch.last)
            plan = None
