"""Guesses of a small start: what a finding names, and what moves the watermarks around it.

Free of Kafka and Spark. A run with faults takes half a minute, one of 100,000 rows longer: they are not left out half
by half before the rows that the finding is about were tried by themselves. A guess counts only if its run shows the
bug.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from tidemark.campaigns.case import SHUFFLE_PARTITIONS
from tidemark.campaigns.shrink.predicted_batches import with_offsets
from tidemark.campaigns.shrink.record_passes import key_of, renumbered
from tidemark.campaigns.shrink.shrinkable import Shrinkable, fields_in, times_of
from tidemark.faults.schedule import plan_faults, read_schedule
from tidemark.formats.contract import Contract, JoinKind
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.faults import Fault
from tidemark.formats.trace import Record
from tidemark.oracle.findings import Finding

LARGE = 5_000
"""Runs of more rows begin with a guess, also where rules make them smaller without a run. Calibration: a backlog of
5,000 rows is read and judged in about 5 s.
"""
FEW = 20
"""Of so few rows no guess is made. Calibration: to leave them out half by half takes no more runs than the guesses."""
SLICES_BEFORE = 2
"""How many slices before its own decide whether a row is late."""


def guesses(
    as_read: Shrinkable, finding: Finding, written_with: Iterable[str], injected: Sequence[Fault]
) -> Iterator[Shrinkable]:
    """Smaller starts, the likeliest first.

    ``as_read`` is the case with the batches that were read as its slices, ``written_with`` are the input records
    (``topic/partition/offset``) of a row of each other sink partition of the finding's batch (:func:`row_of_each`),
    ``injected`` the faults of the run. With faults: without any, and with those that hit the batch of the finding, each
    alone; where one did, the smallest with it comes first of all.
    """
    small = _small(as_read, finding.written)
    if not as_read.faults:
        yield from small[:1]
        yield from _late_by_the_batch_before(as_read, finding.written)
        yield from small[1:] or _moving(as_read)
        return
    hits = _faults_at(finding, injected, _last_named(as_read, finding))
    alone = [(fault, word) for fault in hits if (word := _word(fault)) in as_read.faults]
    likely = [one for _, word in alone for one in _in_one_sink_partition(small, word)]
    if likely and hits[0].batch == finding.batch:
        yield likely.pop(0)
    yield from (replace(one, faults=()) for one in small)
    yield from likely
    for fault, word in alone:
        first = seed_for(word, 1)
        beside = _small(as_read, {*finding.written, *written_with})
        yield from (replace(one, faults=(word,), seed=first) for one in beside)
        yield replace(as_read, faults=(word,), seed=_seed_of_same_batch(as_read, fault, word))


def _small(as_read: Shrinkable, places: Collection[str]) -> list[Shrinkable]:
    """Few of the records, those in these places among them: the smallest first; none if there are no such records.

    The rows themselves, with what moved the watermarks in the slice before the last of them; all rows of their keys,
    with what moved them first; and these with what moved them in each slice. With the row of a left semi join comes the
    nearest of the other side.
    """
    records = as_read.case.records
    named = _named(records, places)
    if not named:
        return []
    partner = _nearest_of_other_side(as_read, named)
    named |= set() if partner is None else {partner}
    contract, last = as_read.case.contract, max(records[at].slice for at in named)
    keys = {key_of(records[at], contract) for at in named}
    own = {at for at, record in enumerate(records) if key_of(record, contract) in keys}
    latest = _latest(as_read)
    before = {at for at in latest if records[at].slice == last - 1}
    first = _of_first_slice(records, latest)
    near = _only(as_read, _as_many_in_each(records, own | latest))
    few = [_without_gaps(_only(as_read, chosen)) for chosen in (named | before, own | first)]
    return [*few[: 1 + (few[0] != few[1])], _until(near, last), near]


def _late_by_the_batch_before(as_read: Shrinkable, places: Collection[str]) -> list[Shrinkable]:
    """The rows themselves, with what moved the watermarks in the two slices before the last of them.

    A row is late by the watermark of the batch before its own, which a query that runs no no-data batches has from the
    slice before that. None where there are no two such slices. The row of a left semi join names one side: the nearest
    row of its key on the other side comes with it, in its slice, so that each slice has as many rows.
    """
    records = as_read.case.records
    named = _named(records, places)
    last = max((records[at].slice for at in named), default=0)
    moving = {at for at in _latest(as_read) if last - SLICES_BEFORE <= records[at].slice < last}
    if len({records[at].slice for at in moving}) < SLICES_BEFORE:
        return []
    chosen = [records[at] for at in sorted(named | moving)]
    partner = _nearest_of_other_side(as_read, named)
    if partner is not None:
        chosen.append(msgspec.structs.replace(records[partner], slice=last))
    return [_without_gaps(as_read.in_one_partition(chosen))]


def _nearest_of_other_side(one: Shrinkable, named: Collection[int]) -> int | None:
    """Of the record of a row of a left semi join the nearest on the other side, by event time, that has its key.

    If there is none, one with a part of the key: the query may join by that alone.
    """
    records, times = one.case.records, list(times_of(one.case))
    if len(named) != 1 or one.case.contract.kind is not JoinKind.LEFT_SEMI:
        return None
    [at] = named
    key, time_us = key_of(records[at], one.case.contract) or (), times[at]
    found = []
    for number, (record, other_us) in enumerate(zip(records, times, strict=True)):
        others = key_of(record, one.case.contract) or ()
        same = sum(part == other for part, other in zip(key, others, strict=False))
        if record.topic != records[at].topic and same and time_us is not None and other_us is not None:
            found.append((-same, abs(other_us - time_us), number))
    return min(found)[2] if found else None


def _moving(as_read: Shrinkable) -> list[Shrinkable]:
    """What moves the watermarks, for a finding that names no record: in the first slice, and in each."""
    records, latest = as_read.case.records, _latest(as_read)
    first = _of_first_slice(records, latest)
    found = [_only(as_read, chosen) for chosen in (first, latest) if chosen]
    return found[: 1 + (first != latest)]


def _of_first_slice(records: Sequence[Record], chosen: set[int]) -> set[int]:
    return {at for at in chosen if records[at].slice == records[0].slice}


def _last_named(as_read: Shrinkable, finding: Finding) -> int:
    """The last slice of which a finding names a record, or else the last of all."""
    records = as_read.case.records
    named = _named(records, finding.written)
    return max((records[at].slice for at in named), default=as_read.case.slices - 1)


def _in_one_sink_partition(small: Iterable[Shrinkable], word: str) -> Iterator[Shrinkable]:
    """Starts with one fault, of a query with one sink partition.

    A driver is killed at ``written`` only in a batch with rows in each sink partition: in one of one, one row does.
    """
    for one in small:
        case = replace(one.case, conf={**one.case.conf, SHUFFLE_PARTITIONS: "1"})
        yield replace(one, case=case, faults=(word,), seed=seed_for(word, 1))


def _seed_of_same_batch(as_read: Shrinkable, fault: Fault, word: str) -> int:
    """The seed with which a fault alone comes in the batch that it hit, as far as a run of so many slices has one."""
    case = as_read.case
    batches = case.slices + (0 if case.pace == "backlog" else case.slices // 2)
    return seed_for(word, min(fault.batch or 1, max(batches - 1, 1)), range(batches, batches + 1))


@functools.cache
def seed_for(fault: str, batch: int, batches: range = range(2, 31)) -> int:
    """A seed with which a fault alone is tried from a batch on, however many of ``batches`` a run has.

    The seed of the run may draw a later batch than that of the few rows, and then nothing is injected.
    """
    specs = read_schedule(fault)

    def is_there(seed: int, many: int) -> bool:
        return plan_faults(random.Random(f"faults-{seed}"), specs, many)[0].batch == batch

    return next(seed for seed in itertools.count(1) if all(is_there(seed, many) for many in batches))


def row_of_each(output: Iterable[OutputRecord], contract: Contract, finding: Finding) -> list[str]:
    """The input records of a row of each sink partition that the finding's batch wrote to, but for the finding's own.

    A driver is killed at ``written`` only in a batch with rows in each sink partition. Of an output that does not name
    its input records there is none.
    """
    sides = ((contract.left, contract.output.left_ref), (contract.right, contract.output.right_ref))
    rows = [record for record in output if record.header("batch") == str(finding.batch)]
    own = {
        _sink_partition(record) for record in rows if f"{record.partition}/{record.offset}" == finding.read
    }
    found = dict[str, list[str]]()
    for record in rows:
        partition = _sink_partition(record)
        if partition in {*own, *found}:
            continue
        fields = fields_in(record.value) or {}
        refs = [(side.topic, *map(fields.get, ref)) for side, ref in sides if ref is not None]
        named = [f"{topic}/{part}/{at}" for topic, part, at in refs if part is not None and at is not None]
        if named:
            found[partition] = named
    return [place for named in found.values() for place in named]


def _sink_partition(record: OutputRecord) -> str:
    """The partition of the sink that wrote a row: its task's, whatever partition of the topic the row is in."""
    return record.header("partition") or f"of the topic: {record.partition}"


def _named(records: Sequence[Record], places: Collection[str]) -> set[int]:
    """The numbers of the records in these places."""
    return {
        at
        for at, (record, offset) in enumerate(with_offsets(records))
        if f"{record.topic}/{record.partition}/{offset}" in places
    }


def _only(one: Shrinkable, chosen: set[int]) -> Shrinkable:
    """Some of the records, in one partition."""
    return one.in_one_partition(one.case.records[at] for at in sorted(chosen))


def _without_gaps(one: Shrinkable) -> Shrinkable:
    """Slices without records left out."""
    there = sorted({record.slice for record in one.case.records})
    return renumbered(one, {number: at for at, number in enumerate(there)})


def _latest(one: Shrinkable) -> set[int]:
    """The numbers of the records with the latest event time of each slice and topic: they move the watermarks."""
    found = dict[tuple[int, str], tuple[int, int]]()
    for at, (record, time_us) in enumerate(zip(one.case.records, times_of(one.case), strict=True)):
        if time_us is not None:
            place = record.slice, record.topic
            found[place] = max(found.get(place, (time_us, at)), (time_us, at))
    return {at for _, at in found.values()}


def _as_many_in_each(records: Sequence[Record], chosen: set[int]) -> set[int]:
    """As many records of a topic in each slice, where there are: a backlog is cut into batches of one size."""
    there = defaultdict[tuple[str, int], list[int]](list)
    for at, record in enumerate(records):
        there[record.topic, record.slice].append(at)
    kept = {place: [at for at in numbers if at in chosen] for place, numbers in there.items()}
    most = Counter[str]()
    for (topic, _), numbers in kept.items():
        most[topic] = max(most[topic], len(numbers))
    for place, numbers in there.items():
        others = (at for at in numbers if at not in chosen)
        kept[place] += [at for at, _ in zip(others, range(most[place[0]] - len(kept[place])), strict=False)]
    return {at for numbers in kept.values() for at in numbers}


def _until(one: Shrinkable, last: int) -> Shrinkable:
    """Without the slices after the last that the finding needs."""
    return one.with_records(tuple(record for record in one.case.records if record.slice <= last))


def _faults_at(finding: Finding, injected: Sequence[Fault], last: int) -> list[Fault]:
    """The faults that hit the batch of the finding's output, or else those from the last batch on that it names.

    Of one word the first alone.
    """
    done = [fault for fault in injected if fault.injected and fault.batch is not None]
    near = [fault for fault in done if fault.batch == finding.batch] or [
        fault for fault in done if fault.batch is not None and fault.batch >= last
    ]
    found = dict[str, Fault]()
    for fault in near:
        found.setdefault(_word(fault), fault)
    return list(found.values())


def _word(fault: Fault) -> str:
    """As a schedule has it, of the usual duration; faults that overlapped as they were typed."""
    if fault.together is not None:
        return fault.together
    action = "" if fault.action == "kill" else f":{fault.action}"
    return f"{fault.component}{action}@{fault.point}"
