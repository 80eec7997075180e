"""Permitted duplicates: rows that may come again under at-least-once delivery. Exactly-once permits none.

Free of I/O. Rows of a batch that was run again, or of which a task failed, may come again. And so may records that
Kafka's producer sent twice because a broker was killed while they were on the way. An idempotent producer may have five
batches of records on the way to a partition, and a broker knows them all again, until it is killed: the snapshot of its
producers' state keeps the last batch of each alone (Kafka 4.3, ``ProducerStateEntry``,
``ProducerStateManager.takeSnapshot``). Where two or more had arrived and none was answered, the producer sends all of
them again; the first is then out of order, for which the producer takes a new epoch (KIP-360) under which all of them
are new. ``tests/e2e/test_producer_retries.py`` shows it. A transaction ends with it; Spark's own sink has none, and
says of itself that what was not acknowledged may come twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemark.formats.contract import Delivery
from tidemark.formats.evidence import Batch, OutputRecord
from tidemark.formats.faults import Fault, FaultComponent
from tidemark.formats.manifest import Manifest


def may_repeat(manifest: Manifest, batch: Batch) -> bool:
    """Whether any row of a batch may come again in it, by the run's delivery."""
    lenient = manifest.delivery is Delivery.AT_LEAST_ONCE
    return lenient and (batch.runs > 1 or batch.failed_tasks > 0)


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
