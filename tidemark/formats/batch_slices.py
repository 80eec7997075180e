"""The trace of a run cut anew: what one of its batches read is a slice, which the pace ``stepped`` makes one batch.

Free of Kafka and Spark. At the paces ``timed`` and ``backlog``, and in a query that somebody else started, batches fall
where they fall; the offsets in ``batches.jsonl`` say where. Records keep partition, order within it, key, headers and
timestamps. Left out is what no batch read, and of an audit the offsets without a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import msgspec

from tidemark.errors import UsageError
from tidemark.formats.absent_records import TransactionCheck
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.formats.input_offsets import first_offsets
from tidemark.formats.manifest import Manifest
from tidemark.formats.trace import Header, Pace, Record, TraceReader, write_trace

NO_DATA_OFF = "--conf spark.sql.streaming.noDataMicroBatches.enabled=false"
Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class CutTrace:
    """The trace that was written, what was left out, and in what a repetition differs from the run."""

    sha256: str
    header: Header
    left_out: Counter[str]
    notes: list[str]


def cut_by_batches(directory: RunDirectory, out: Path, pace: Pace = "stepped") -> CutTrace:
    """Write the trace of a run with the batches that read its records as slices.

    Raises ``UsageError`` for a trace that cannot be cut so, and ``TidemarkError`` for evidence that cannot be read.
    """
    manifest, batches = directory.manifest, directory.batches()
    if not batches:
        raise UsageError(
            f"the run in {str(directory.path)!r} planned no batch",
            hint="name a run whose query has read something",
        )
    left_out = Counter[str]()
    with TraceReader(directory.file("trace")) as reader:
        before = reader.header
        if before.compacted and pace != "backlog":
            raise UsageError(
                f"the trace has compacted topics: {', '.join(before.compacted)}",
                detail="Kafka compacts them before the query starts, so that no slice can come after another",
                hint="give --pace backlog",
            )
        found = list(_read_by(reader, manifest, batches, left_out))
    if not found:
        raise UsageError(
            f"no batch of the run in {str(directory.path)!r} read a record of its trace",
            hint="`tidemark check DIR --batches` shows what each batch read",
        )
    slices = {number: at for at, number in enumerate(sorted({number for number, _ in found}))}
    found.sort(key=lambda one: one[0])
    records = [msgspec.structs.replace(record, slice=slices[number]) for number, record in found]
    _check_transactions(records, before)
    counts = dict(Counter(record.topic for record in records))
    header = msgspec.structs.replace(
        before, pace=pace, slices=len(slices), counts=counts, generator=None, seed=None
    )
    notes = list(_notes(manifest, batches[: max(slices) + 1]))
    return CutTrace(write_trace(out, header, records), header, left_out, notes)


def _read_by(
    records: TraceReader, manifest: Manifest, batches: Sequence[Batch], left_out: Counter[str]
) -> Iterator[tuple[int, Record]]:
    """Each record that a batch read, with the place of that batch among the planned ones."""
    ends = dict[Place, list[int]]()
    offsets = Counter[Place](first_offsets(manifest.inputs))
    published = {
        (name, int(part)): end
        for name, topic in manifest.inputs.items()
        for part, end in topic.end_offsets.items()
    }
    for record in records:
        place = record.topic, record.partition
        offset = offsets[place]
        offsets[place] += 1
        if place not in ends:
            ends[place] = _ends_of(place, batches)
        number = bisect_right(ends[place], offset)
        if number == len(batches) or offset >= published.get(place, 0):
            left_out["read_by_no_batch"] += 1
        elif manifest.audit is not None and record.text_or_bytes() is None:
            left_out["offsets_without_a_record"] += 1
        else:
            yield number, record


def _ends_of(place: Place, batches: Sequence[Batch]) -> list[int]:
    """Up to which offset of a partition each batch, and those before it, have read."""
    topic, part = place
    return list(accumulate((one.end_offsets.get(topic, {}).get(str(part), 0) for one in batches), max))


def _check_transactions(records: Sequence[Record], header: Header) -> None:
    """Raises ``UsageError`` if a transaction was read by several batches."""
    if all(record.is_plain for record in records):
        return
    check = TransactionCheck(header.compacted)
    try:
        for record in records:
            check.see(record)
        check.end()
    except ValueError as error:
        raise UsageError(
            "the batches of the run cut through transactions of its trace",
            detail=f"{error}; a transaction of the producer is published in one slice",
            hint="repeat the run with its own trace",
        ) from error


def _notes(manifest: Manifest, batches: Sequence[Batch]) -> Iterator[str]:
    """In what a repetition at the pace ``stepped`` has other batches, or other watermarks.

    ``batches`` are those up to the last that read a record of the trace.
    """
    first = batches[0].batch
    if first > 0:
        yield f"the log of the query begins with batch {first}: slice 0 has what that one and all before it read"
    if restarted := [str(one.batch) for one in batches[1:] if one.restarted]:
        yield (
            f"the query was started again with batch {', '.join(restarted)}, and waited for each input then;"
            " a repetition without the same faults may have other watermarks"
        )
    starts: Mapping[str, Mapping[str, int]] = {
        name: topic.start_offsets for name, topic in manifest.inputs.items()
    }
    ends = [starts, *(one.end_offsets for one in batches)]
    has_data = [_differ(after, before) for before, after in pairwise(ends)]
    at_once, with_pause = list[int](), 0
    for number, (one, after) in enumerate(pairwise(batches)):
        if has_data[number] and after.watermark_ms > one.watermark_ms and not after.restarted:
            with_pause += not has_data[number + 1]
            at_once += [after.batch] if has_data[number + 1] else []
    if at_once:
        yield (
            f"{len(at_once):,} {'batch' if len(at_once) == 1 else 'batches'} with data followed one that had moved the"
            f" watermark, with no no-data batch between them (first batch {at_once[0]}): at the pace stepped a query"
            " that runs no-data batches has one there, and more rows may be late"
        )
        if not with_pause:
            yield f"with {NO_DATA_OFF} the repetition has none there, nor the one that flushes the join at the end"


def _differ(one: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether a partition has another end; one that is not there has none."""
    return any(
        end != other.get(topic, {}).get(part, 0)
        for topic, parts in one.items()
        for part, end in parts.items()
    )
