"""What each batch read and wrote, counted of the evidence: event times and late rows by input, output rows by kind.

Free of judgement: it counts what is there. Of more records ``large_counts`` counts what it can, for a page is made in
seconds: ``size_of`` says how many there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tidemark.formats.chain import Chain, Source
from tidemark.formats.contract import PRESERVED, Contract, Side
from tidemark.formats.events import decode_object, field_reader, time_reader
from tidemark.formats.evidence import Batch, InputRecord, RunDirectory
from tidemark.formats.input_offsets import records_in
from tidemark.formats.manifest import Manifest
from tidemark.oracle.input.columns import ColumnReader
from tidemark.oracle.spark.time_ranges import US_PER_MS

SMALL_RECORDS, COUNTED_RECORDS, LARGEST_RECORDS = 60_000, 300_000, 5_000_000
"""So many records are always counted here; so many, if ``large_counts`` cannot; so many by ``large_counts``.

Calibration: 30,000 input records take 0.3 s here, and 1,000,000 take 2 s there.
"""
_CHUNK_RECORDS = 10_000

Times = list[tuple[int | None, bool]]
"""Of each record its event time in microseconds (``None``: it is no event), and whether a late one is dropped."""


@dataclass
class InputCounts:
    """Of one input, by the index of the batch: the latest event time it read, in milliseconds, and its late rows.

    ``last_ms`` is the latest event time of all records but the sentinels.
    """

    latest_ms: list[int | None]
    late: list[int]
    last_ms: int = 0


@dataclass
class OutputCounts:
    """Output records by the index of the batch that their header names.

    ``joined`` are joined rows, semi rows, or all rows of a chain. ``repeated`` are rows of the same input records as
    one before them; ``None``: not known. ``unplaced`` records name no batch, or cannot be read.
    """

    joined: list[int]
    nulls: list[int]
    repeated: list[int] | None
    unplaced: int = 0
    seen: set[object] = field(default_factory=set)


def inputs_of(contract: Contract | Chain) -> tuple[Side | Source, ...]:
    """The inputs of a query, from left to right."""
    return contract.sources if isinstance(contract, Chain) else (contract.left, contract.right)


def places_in(written: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of the records that a finding names (``topic/partition/offset``)."""
    for place in written:
        rest, _, offset = place.rpartition("/")
        topic, _, partition = rest.rpartition("/")
        if partition.isdecimal() and offset.isdecimal():
            yield topic, int(partition), int(offset)


def size_of(manifest: Manifest) -> int:
    """How many input records there are, or output records, if these are more."""
    return max(records_in(manifest.inputs), manifest.records.get("output", 0))


def count_inputs(
    run: RunDirectory, contract: Contract | Chain, batches: Sequence[Batch]
) -> list[InputCounts]:
    """The counts of each input; a record belongs to the first batch that ends behind it."""
    inputs = inputs_of(contract)
    counts = [InputCounts([None] * len(batches), [0] * len(batches)) for _ in inputs]
    readers = [event_reader(contract, number) for number in range(len(inputs))]
    ends = ends_of(run.manifest, batches)
    limits_us = [0, *(batch.watermark_ms * US_PER_MS for batch in batches)]
    for chunk in _chunks(run.inputs()):
        for one, counted, read in zip(inputs, counts, readers, strict=True):
            some = [record for record in chunk if record.topic == one.topic]
            times = read([record.value for record in some])
            for record, (time_us, may_be_late) in zip(some, times, strict=True):
                at = bisect_right(ends.get((record.topic, record.partition), ()), record.offset)
                if time_us is None or at >= len(batches):
                    continue
                time_ms, latest_ms = time_us // US_PER_MS, counted.latest_ms[at]
                if latest_ms is None or time_ms > latest_ms:
                    counted.latest_ms[at] = time_ms
                if not record.is_sentinel:
                    counted.last_ms = max(counted.last_ms, time_ms)
                if may_be_late and _compared_us(contract, time_us) <= limits_us[at]:
                    counted.late[at] += 1
    return counts


def _chunks(records: Iterator[InputRecord]) -> Iterator[list[InputRecord]]:
    while chunk := list(islice(records, _CHUNK_RECORDS)):
        yield chunk


def _compared_us(contract: Contract | Chain, time_us: int) -> int:
    """The time that is compared with the late watermark: where times are windows, the end of one."""
    length_ms = None if isinstance(contract, Chain) else contract.bound.window_ms
    if length_ms is None:
        return time_us
    return (time_us // (length_ms * US_PER_MS) + 1) * length_ms * US_PER_MS


def ends_of(manifest: Manifest, batches: Sequence[Batch]) -> dict[tuple[str, int], list[int]]:
    """The end offset of each batch, by topic and partition."""
    found: dict[tuple[str, int], list[int]] = {}
    for name, topic in manifest.inputs.items():
        for partition in topic.end_offsets:
            end, ends = topic.start_offsets.get(partition, 0), []
            for batch in batches:
                end = batch.end_offsets.get(name, {}).get(partition, end)
                ends.append(end)
            found[name, int(partition)] = ends
    return found


def event_reader(contract: Contract | Chain, number: int) -> Callable[[Sequence[bytes | str | None]], Times]:
    """Reads the event times of one input's records. What a chain drops as late its own operators say."""
    source = inputs_of(contract)[number]
    if isinstance(contract, Chain) or isinstance(source, Source):
        read_time = time_reader(source.time_field, source.time_format, source.time_zone)

        def times_of_source(values: Sequence[bytes | str | None]) -> Times:
            return [(read_time(decode_object(value) or {}), False) for value in values]

        return times_of_source
    columns = ColumnReader(source)
    is_timed = source.watermark_delay_ms is not None
    keeps_null_keys = number in PRESERVED.get(contract.kind, ())

    def times_of_side(values: Sequence[bytes | str | None]) -> Times:
        found = columns.read(values)
        return [
            (time_us, is_timed and (keeps_null_keys or None not in key))
            for time_us, key in zip(found.time_us, found.key, strict=True)
        ]

    return times_of_side


def count_output(run: RunDirectory, contract: Contract | Chain, batches: Sequence[Batch]) -> OutputCounts:
    """The output records of each batch."""
    index = {str(batch.batch): at for at, batch in enumerate(batches)}
    counts = OutputCounts([0] * len(batches), [0] * len(batches), None)
    read = None if isinstance(contract, Chain) else _place_reader(contract)
    if isinstance(contract, Contract) and contract.output.has_refs:
        counts.repeated = [0] * len(batches)
    for record in run.output():
        at = index.get(record.header("batch") or "")
        if at is None:
            counts.unplaced += 1
            continue
        if read is None:
            counts.joined[at] += 1
            continue
        place = read(record.value)
        if place is None:
            counts.unplaced += 1
            continue
        is_null, row = place
        (counts.nulls if is_null else counts.joined)[at] += 1
        if counts.repeated is not None:
            counts.repeated[at] += row in counts.seen
            counts.seen.add(row)
    return counts


def _place_reader(contract: Contract) -> Callable[[str | None], tuple[bool, object] | None]:
    """Gives of an output record whether it is a NULL row, and the places of its input records if it names them."""
    output = contract.output
    ids = [output.left_id, output.right_id or output.left_id]
    refs = [*(output.left_ref or ()), *(output.right_ref or ())] if output.has_refs else []
    read = field_reader([*ids, *refs])

    def place(value: str | None) -> tuple[bool, object] | None:
        fields = read(value)
        if fields is None:
            return None
        row: object = tuple(map(str, fields[2:])) if refs else None
        return None in fields[:2], row

    return place
