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

from tidemark.campaigns.shrink.predicted_batches import with_offsets
from tidemark.campaigns.shrink.record_passes import key_of, renumbered
from tidemark.campaigns.shrink.shrinkable import Shrinkable, fields_in, times_of
from tidemark.faults.schedule import plan_faults, read_schedule
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.faults import Fault
from tidemark.formats.trace import Record
from tidemark.oracle.findings import Finding

LARGE = 5_000
"""Runs of more rows begin with a guess. Calibration: a backlog of 5,000 rows is read and judged in about 5 s."""


def guesses(
    as_read: Shrinkable, finding: Finding, written_with: Iterable[str], injected: Sequence[Fault]
) -> Iterator[Shrinkable]:
    """Smaller starts, the smallest first.

    ``as_read`` is the case with the batches that were read as its slices, ``written_with`` are the input records
    (``topic/partition/offset``) of a row of each other sink partition of the finding's batch (:func:`row_of_each`),
    ``injected`` the faults of the run. With faults: first without any, then with those that hit the batch of the
    finding, each alone.
    """
    records = as_read.case.records
    named = _named(records, {*finding.written, *written_with})
    if not named:
        small, last = [], as_read.case.slices - 1
    else:
        last = max(records[at].slice for at in named)
        contract = as_read.case.contract
        keys = {key_of(records[at], contract) for at in named}
        own = {at for at, record in enumerate(records) if key_of(record, contract) in keys}
        latest = _latest(as_read)
        first = {at for at in latest if records[at].slice == records[0].slice}
        near = _only(as_read, _as_many_in_each(records, own | latest))
        small = [_without_gaps(_only(as_read, own | first)), _until(near, last), near]
    if not as_read.faults:
        yield from small
        return
    yield from (replace(one, faults=()) for one in small)
    for fault in dict.fromkeys(_faults_at(finding, injected, last)):
        if fault in as_read.faults:
            seed = seed_from_the_first_batch(fault)
            yield from (replace(one, faults=(fault,), seed=seed) for one in small)
            yield replace(as_read, faults=(fault,))


@functools.cache
def seed_from_the_first_batch(fault: str) -> int:
    """A seed with which a fault alone is tried from batch 1 on, however many batches a run of up to 30 has.

    The seed of the run may draw a later batch than that of the few rows, and then nothing is injected.
    """
    specs = read_schedule(fault)

    def is_first(seed: int, batches: int) -> bool:
        return plan_faults(random.Random(f"faults-{seed}"), specs, batches)[0].batch == 1

    return next(
        seed for seed in itertools.count(1) if all(is_first(seed, batches) for batches in range(2, 31))
    )


def row_of_each(output: Iterable[OutputRecord], contract: Contract, finding: Finding) -> list[str]:
    """The input records of a row of each sink partition that the finding's batch wrote to, but for the finding's own.

    A driver is killed at ``written`` only in a batch with rows in each sink partition. Of an output that does not name
    its input records there is none.
    """
    sides = ((contract.left, contract.output.left_ref), (contract.right, contract.output.right_ref))
    own = None if finding.read is None else int(finding.read.partition("/")[0])
    found = dict[int, list[str]]()
    for record in output:
        if record.partition in {own, *found} or record.header("batch") != str(finding.batch):
            continue
        fields = fields_in(record.value) or {}
        refs = [(side.topic, *map(fields.get, ref)) for side, ref in sides if ref is not None]
        named = [f"{topic}/{part}/{at}" for topic, part, at in refs if part is not None and at is not None]
        if named:
            found[record.partition] = named
    return [place for named in found.values() for place in named]


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


def _faults_at(finding: Finding, injected: Sequence[Fault], last: int) -> list[str]:
    """The faults that hit the batch of the finding's output, or else those from the last batch on that it names."""
    done = [fault for fault in injected if fault.injected and fault.batch is not None]
    near = [fault for fault in done if fault.batch == finding.batch] or [
        fault for fault in done if fault.batch is not None and fault.batch >= last
    ]
    return [_word(fault) for fault in near]


def _word(fault: Fault) -> str:
    """As a schedule has it, of the usual duration; faults that overlapped as they were typed."""
    if fault.together is not None:
        return fault.together
    action = "" if fault.action == "kill" else f":{fault.action}"
    return f"{fault.component}{action}@{fault.point}"
