"""Permitted duplicates: rows that may come again under at-least-once delivery. Exactly-once permits none.

Free of I/O. Rows of a batch that was run again, or of which a task failed, may come again: once for each run and each
task that failed, because an attempt of a task writes each of its rows once. And so may records that
Kafka's producer sent twice because a broker was killed while they were on the way. An idempotent producer may have five
batches of records on the way to a partition, and a broker knows them all again, until it is killed: the snapshot of its
producers' state keeps the last batch of each alone (Kafka 4.3, ``ProducerStateEntry``,
``ProducerStateManager.takeSnapshot``). Where two or more had arrived and none was answered, the producer sends all of
them again; the first is then out of order, for which the producer takes a new epoch (KIP-360) under which all of them
are new. ``tests/e2e/test_producer_retries.py`` shows it. A transaction ends with it; Spark's own sink has none, and
says of itself that what was not acknowledged may come twice.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import Batch, OutputRecord
from tidemark.formats.faults import Fault, FaultAction, FaultComponent
from tidemark.formats.manifest import Manifest

ANY = sys.maxsize


def most_copies(manifest: Manifest, batch: Batch, deaths: Mapping[int, int]) -> int:
    """How often a row of a batch may come in it, by the run's delivery, with the first; ``ANY``: nothing says it.

    ``deaths`` are those of :func:`deaths_alone`. Where another death made the batch run again, tasks may have failed
    before it that are in no event log: Spark had not written them when the driver died.
    """
    if manifest.delivery is not Delivery.AT_LEAST_ONCE:
        return 1
    if batch.runs > 1 + deaths.get(batch.batch, 0):
        return ANY
    return batch.runs + batch.failed_tasks


def deaths_alone(faults: Iterable[Fault]) -> dict[int, int]:
    """Batch -> how often a fault killed its driver, of batches in which, or before which, nothing else was hit.

    No task had failed then before the driver died.
    """
    deaths: Counter[int] = Counter()
    others: set[int] = set()
    for fault in faults:
        if fault.batch is None:
            continue
        if fault.killed(FaultComponent.DRIVER):
            deaths[fault.batch] += 2 if fault.action is FaultAction.KILL_TWICE else 1
        else:
            others |= {fault.batch, fault.batch + 1}
    return {batch: many for batch, many in deaths.items() if batch not in others}


def resent(manifest: Manifest, faults: Sequence[Fault], output: Iterable[OutputRecord]) -> frozenset[str]:
    """Where the second copies are (``partition/offset``), of a delivery that is at-least-once; else nothing.

    A copy is the same record in all that a producer sets: partition, key, value, headers and timestamp. It is of the
    batch in which a broker was killed, and behind the end of its partition as it was just before (``proof.ends``).
    """
    ends: dict[str, dict[int, int]] = {}
    for fault in faults:
        if fault.killed(FaultComponent.BROKER):  # of two in one batch the first
            found = {int(partition): end for partition, end in fault.proof.get("ends", {}).items()}
            ends.setdefault(str(fault.batch), found)
    if not ends or manifest.delivery is not Delivery.AT_LEAST_ONCE:
        return frozenset()
    copies, seen = set(), set()
    for record in output:
        end = ends.get(record.header("batch") or "", {}).get(record.partition)
        if end is None:
            continue
        sent = record.partition, record.key, record.value, tuple(record.headers), record.timestamp_ms
        if record.offset >= end and sent in seen:
            copies.add(f"{record.partition}/{record.offset}")
        seen.add(sent)
    return frozenset(copies)
