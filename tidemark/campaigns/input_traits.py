"""What makes the input of some random cases mean: the dials of the generator, on a trace of a dozen records.

Free of Kafka and Spark. About a third of the seeds have one of these traits, a few have two:

``changed-duplicate``  an id comes again with another key, number or time;
``moved-duplicate``    a record comes again in another partition;
``one-key``            most rows have one key;
``zipf-keys``          the frequency of a key falls with its rank, by Zipf's law;
``silent-side``        a side has nothing for some slices, and then all of it at once;
``sparse``, ``dense``  a quarter of the events in a second, or ten times as many;
``burst``              a slice has many times the rows of a side, at nearly one time;
``skewed-producer``    the clock that the event times of one partition are of is wrong;
``transactions``       some records are in transactions of the producer, which end with control records;
``aborted``            some records are in a transaction that is rolled back, and come again;
``compacted``          an earlier version of some records was there, and compaction has removed it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from tidemark.campaigns.case import PARTITIONS, Case
from tidemark.formats.contract import Contract
from tidemark.formats.events import read_time_us, write_time
from tidemark.formats.trace import Absent, Record

SHARE, SECOND = 0.35, 0.1
"""How many of the seeds have a trait, and how many of these a second one."""

SLICE_MS = 1_000
"""Between the timestamps of two slices of a compacted topic, which ends a segment of its log."""

Records = list[Record]
Trait = Callable[[random.Random, Contract, Records], Records]


def with_traits(rng: random.Random, case: Case) -> Case:
    """The case, with a trait or two if it is to have any."""
    if rng.random() >= SHARE:
        return case
    # Compaction twice, since many a case has nothing that could be compacted.
    names = rng.sample((*TRAITS, COMPACTED, COMPACTED), 2 if rng.random() < SECOND else 1)
    for name in sorted(dict.fromkeys(names), key=LAYOUTS.__contains__):  # the layout of the log comes last
        if name in LAYOUTS and any(record.absent for record in case.records):
            continue
        if name == COMPACTED:
            case = _compacted(rng, case)
            continue
        found = tuple(TRAITS[name](rng, case.contract, list(case.records)))
        if found != case.records:
            case = replace(case, records=found, traits=(*case.traits, name))
    return case


def _changed_duplicate(rng: random.Random, contract: Contract, records: Records) -> Records:
    return _again(rng, records, lambda record: _changed(rng, contract, record))


def _moved_duplicate(rng: random.Random, _contract: Contract, records: Records) -> Records:
    return _again(
        rng,
        records,
        lambda record: msgspec.structs.replace(record, partition=(record.partition + 1) % PARTITIONS),
    )


def _again(rng: random.Random, records: Records, again: Callable[[Record], Record]) -> Records:
    """Some records once more, later."""
    last = max(record.slice for record in records)
    second = [
        msgspec.structs.replace(again(record), slice=rng.randint(record.slice, last))
        for record in records
        if _event(record) is not None and rng.random() < 0.4
    ]
    return sorted([*records, *second], key=lambda record: record.slice)


def _changed(rng: random.Random, contract: Contract, record: Record) -> Record:
    side, what = contract.side(record.topic), rng.choice(("key", "time", "number"))
    if what == "time":
        return _moved(contract, record, rng.choice((-5_000_000, -1_000_000, 1_000_000, 4_000_000)))
    value = _event(record) or {}
    if what == "key":
        value[side.keys[0]] = rng.choice("abc") if side.keys[0] != "n" else rng.randrange(10)
    else:
        value["n"] = rng.randrange(10)
    return msgspec.structs.replace(record, value=json.dumps(value))


def _one_key(rng: random.Random, contract: Contract, records: Records) -> Records:
    return _keyed(contract, records, lambda: "a" if rng.random() < 0.8 else "b")


def _zipf_keys(rng: random.Random, contract: Contract, records: Records) -> Records:
    keys = "abcdefgh"
    weights = [1 / rank**1.2 for rank in range(1, len(keys) + 1)]
    return _keyed(contract, records, lambda: rng.choices(keys, weights)[0])


def _keyed(contract: Contract, records: Records, draw: Callable[[], str]) -> Records:
    """The records with other keys; what is no event, and a NULL key, stays."""
    found = []
    for record in records:
        value = _event(record)
        for key in contract.side(record.topic).keys if value is not None else ():
            if value is not None and isinstance(value.get(key), str):
                value[key] = draw()
        found.append(record if value is None else msgspec.structs.replace(record, value=json.dumps(value)))
    return found


def _silent_side(rng: random.Random, contract: Contract, records: Records) -> Records:
    last = max(record.slice for record in records)
    topic = rng.choice((contract.left.topic, contract.right.topic))
    first = rng.randint(0, max(0, last - 1))
    end = rng.randint(first, last)
    moved = [
        msgspec.structs.replace(record, slice=end)
        if record.topic == topic and first <= record.slice < end
        else record
        for record in records
    ]
    return sorted(moved, key=lambda record: record.slice)


def _sparse(_rng: random.Random, contract: Contract, records: Records) -> Records:
    return [_timed(contract, record, lambda time_us: time_us * 4) for record in records]


def _dense(_rng: random.Random, contract: Contract, records: Records) -> Records:
    return [_timed(contract, record, lambda time_us: time_us // 10) for record in records]


def _burst(rng: random.Random, contract: Contract, records: Records) -> Records:
    events = [record for record in records if _event(record) is not None]
    if not events:
        return records
    like, found = rng.choice(events), []
    for number in range(rng.randint(8, 24)):
        value = {**(_event(like) or {}), "id": f"burst{number}"}
        copy = msgspec.structs.replace(like, value=json.dumps(value), partition=rng.randrange(PARTITIONS))
        found.append(_moved(contract, copy, rng.randrange(0, 20_000, 500)))
    return sorted([*records, *found], key=lambda record: record.slice)


def _skewed_producer(rng: random.Random, contract: Contract, records: Records) -> Records:
    topic, partition = rng.choice((contract.left.topic, contract.right.topic)), rng.randrange(PARTITIONS)
    skew_us = rng.choice((-6_000_000, -2_500_000, 1_000_000, 7_000_000))
    return [
        _moved(contract, record, skew_us)
        if (record.topic, record.partition) == (topic, partition)
        else record
        for record in records
    ]


def _transactions(rng: random.Random, _contract: Contract, records: Records) -> Records:
    return _in_transactions(rng, records, "commit")


def _aborted(rng: random.Random, _contract: Contract, records: Records) -> Records:
    return _in_transactions(rng, records, "abort")


def _in_transactions(rng: random.Random, records: Records, how: Absent) -> Records:
    """Some records, one to four at a time, in transactions; after one that is rolled back they come again."""
    found: Records = []
    at = number = 0
    while at < len(records):
        some = records[at : at + rng.randint(1, 4)]
        some = [record for record in some if record.slice == some[0].slice]
        at += len(some)
        if rng.random() < 0.5:
            number += 1
            found += _ended(some, number, how)
            if how == "commit":
                continue
        found += some
    return found


def _ended(records: Records, number: int, how: Absent) -> Records:
    """Records as those of one transaction, and its control records."""
    sent = [
        msgspec.structs.replace(record, transaction=number)
        if how == "commit"
        else msgspec.structs.replace(
            record, transaction=number, absent="aborted", value=None, sent=record.value
        )
        for record in records
    ]
    places = sorted({(record.topic, record.partition) for record in records})
    last = records[-1]
    return [
        *sent,
        *(
            Record(
                topic=topic, partition=partition, slice=last.slice, arrival_ms=last.arrival_ms,
                transaction=number, absent=how,
            )
            for topic, partition in places
        ),
    ]  # fmt: skip


def _earlier_versions(rng: random.Random, records: Records) -> Records:
    """Each record with a key of its own, and before some of them an earlier version, which compaction removes."""
    last = {(record.topic, record.partition): record.slice for record in records}
    found: Records = []
    for number, record in enumerate(records):
        arrival_ms = record.arrival_ms + record.slice * SLICE_MS
        keyed = msgspec.structs.replace(record, key=f"k-{number}", arrival_ms=arrival_ms)
        if record.slice < last[record.topic, record.partition] and rng.random() < 0.6:
            found.append(
                Record(
                    topic=record.topic, partition=record.partition, slice=record.slice, key=keyed.key,
                    arrival_ms=arrival_ms, absent="compacted",
                )
            )  # fmt: skip
        found.append(keyed)
    return found


def _compacted(rng: random.Random, case: Case) -> Case:
    """A case whose topics are compacted, if its query starts once they are, and there is anything to remove."""
    records = tuple(_earlier_versions(rng, list(case.records)))
    if case.pace != "backlog" or len(records) == len(case.records):
        return case
    flush = tuple(
        msgspec.structs.replace(record, key=f"flush-{number}", arrival_ms=record.arrival_ms + 100 * SLICE_MS)
        for number, record in enumerate(case.flush)
    )
    return replace(
        case, records=records, flush=flush, compacted=case.topics, traits=(*case.traits, COMPACTED)
    )


def _event(record: Record) -> dict[str, Any] | None:
    """The value of a record that is an object."""
    value = record.value
    return json.loads(value) if value is not None and value.startswith("{") else None


def _moved(contract: Contract, record: Record, by_us: int) -> Record:
    return _timed(contract, record, lambda time_us: max(0, time_us + by_us))


def _timed(contract: Contract, record: Record, change: Callable[[int], int]) -> Record:
    value, field = _event(record), contract.side(record.topic).time
    if value is None:
        return record
    value[field] = write_time(change(read_time_us(value[field]) or 0))
    return msgspec.structs.replace(record, value=json.dumps(value))


TRAITS: dict[str, Trait] = {
    "changed-duplicate": _changed_duplicate,
    "moved-duplicate": _moved_duplicate,
    "one-key": _one_key,
    "zipf-keys": _zipf_keys,
    "silent-side": _silent_side,
    "sparse": _sparse,
    "dense": _dense,
    "burst": _burst,
    "skewed-producer": _skewed_producer,
    "transactions": _transactions,
    "aborted": _aborted,
}
"""What each trait makes of the records of a case, but for compaction, which is one of the whole case."""
COMPACTED = "compacted"
LAYOUTS = ("transactions", "aborted", COMPACTED)
"""Those that lay out the log of a partition; a case has one of them at most."""
