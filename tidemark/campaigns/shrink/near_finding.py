"""Guesses of a small start: what a finding names, and what moves the watermarks around it.

Free of Kafka and Spark. A run with faults takes half a minute, one of 100,000 rows longer: they are not left out half
by half before the rows that the finding is about were tried by themselves. A guess counts only if its run shows the
bug.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from tidemark.campaigns.shrink.record_passes import key_of
from tidemark.campaigns.shrink.shrinkable import Shrinkable, times_of
from tidemark.formats.faults import Fault
from tidemark.formats.trace import Record
from tidemark.oracle.findings import Finding

LARGE = 5_000
"""Runs of more rows begin with a guess. Calibration: a backlog of 5,000 rows is read and judged in about 5 s."""


def guesses(as_read: Shrinkable, finding: Finding, injected: Sequence[Fault]) -> Iterator[Shrinkable]:
    """Smaller starts, the smallest first.

    ``as_read`` is the case with the batches that were read as its slices, ``injected`` are the faults of its run. With
    faults: first without any, then with those that hit the batch of the finding, each alone.
    """
    near, last = _near(as_read, finding)
    small = [near] if as_read.faults else [_until(near, last), near]
    if not as_read.faults:
        yield from small
        return
    hit = _faults_at(finding, injected, last)
    single = [one for one in dict.fromkeys(hit) if one in as_read.faults]
    for faults in ((), *((one,) for one in single)):
        yield from (replace(one, faults=faults) for one in (near, as_read))


def _near(one: Shrinkable, finding: Finding) -> tuple[Shrinkable, int]:
    """The rows with the keys that the finding names and the latest of each batch and topic, as many in each batch.

    Also the last batch that read a row which the finding names. Of a finding that names no record, everything.
    """
    records, contract = one.case.records, one.case.contract
    places, offsets = set(finding.written), Counter[tuple[str, int]]()
    named = list[Record]()
    for record in records:
        place = record.topic, record.partition
        if f"{record.topic}/{record.partition}/{offsets[place]}" in places:
            named.append(record)
        offsets[place] += 1
    if not named:
        return one, one.case.slices - 1
    keys = {key_of(record, contract) for record in named}
    chosen = {at for at, record in enumerate(records) if key_of(record, contract) in keys} | _latest(one)
    kept = [records[at] for at in sorted(_as_many_in_each(records, chosen))]
    moved = tuple(msgspec.structs.replace(record, partition=0) for record in kept)
    flush = tuple(msgspec.structs.replace(record, partition=0) for record in one.case.flush)
    case = replace(one.case, records=moved, flush=flush, partitions=1)
    return replace(one, case=case), max(record.slice for record in named)


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
    """As a schedule has it, of the usual duration."""
    action = "" if fault.action == "kill" else f":{fault.action}"
    return f"{fault.component}{action}@{fault.point}"
