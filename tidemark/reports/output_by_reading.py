"""Output rows of a query whose records name no batch, by the batch that read the last of their input records.

Free of judgement. Such a row cannot be said to have come in a batch; its ids say which records it is made of, and the
log which batch read them, before which the row cannot have come. A semi row and a NULL row are made of one record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from tidemark.formats.contract import Contract
from tidemark.formats.events import field_reader
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.oracle.input.columns import ColumnReader
from tidemark.reports.batch_counts import OutputCounts, ends_of, places_in

Reading = tuple[dict[str, int], bool]
"""Of each id the index of the batch that read its first record, and whether an id was sent twice."""


def count_by_reading(run: RunDirectory, contract: Contract, batches: Sequence[Batch]) -> OutputCounts:
    """Output rows by the index of the batch that read the last of their records, at most once as often as they came.

    Rows that came again are not counted where an id was sent twice: they may be of its other record.
    """
    of_sides = _read_ids(run, contract, batches)
    is_twice = any(twice for _, twice in of_sides)
    counts = OutputCounts([0] * len(batches), [0] * len(batches), None if is_twice else [0] * len(batches))
    output = contract.output
    read = field_reader([output.left_id, output.right_id or output.left_id])
    sides = of_sides if output.right_id else of_sides[:1] * 2
    for record in run.output():
        ids = read(record.value)
        named = (
            []
            if ids is None
            else [(of, one) for (of, _), one in zip(sides, ids, strict=True) if one is not None]
        )
        places = [of.get(str(one)) for of, one in named]
        known = [at for at in places if at is not None]
        if not known or len(known) < len(places):
            counts.unplaced += 1
            continue
        at = max(known)
        (counts.nulls if len(named) == 1 else counts.joined)[at] += 1
        if counts.repeated is not None:
            counts.repeated[at] += ids in counts.seen
            counts.seen.add(ids)
    return counts


def _read_ids(run: RunDirectory, contract: Contract, batches: Sequence[Batch]) -> list[Reading]:
    ends = ends_of(run.manifest, batches)
    records = list(run.inputs())
    found: list[Reading] = []
    for side in (contract.left, contract.right):
        mine = [record for record in records if record.topic == side.topic]
        of: dict[str, int] = {}
        is_twice = False
        ids = ColumnReader(side).read([record.value for record in mine]).id
        for record, identity in zip(mine, ids, strict=True):
            at = bisect_right(ends.get((record.topic, record.partition), ()), record.offset)
            if identity is None or at >= len(batches):
                continue
            is_twice = is_twice or identity in of
            of.setdefault(identity, at)
        found.append((of, is_twice))
    return found


def batch_that_read(
    written: Sequence[str], ends: Mapping[tuple[str, int], list[int]], batches: Sequence[Batch]
) -> int | None:
    """The batch that read the last of some records, ``topic/partition/offset`` each; ``None`` if none did."""
    read: list[int] = []
    for topic, partition, offset in places_in(written):
        at = bisect_right(ends.get((topic, partition), ()), offset)
        read += [at] if at < len(batches) else []
    return batches[max(read)].batch if read else None
