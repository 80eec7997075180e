"""Which batches of a query can be judged, and which records of its topics that takes.

Free of Kafka. The log of a query has the end offsets of each batch, so the first batch whose rows are known is the one
after the first that the log has: it begins where that one ends. Batch 0 begins where its sources say that they began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidemark.auditor.audit_options import range_of
from tidemark.errors import UsageError
from tidemark.formats.audited_query import AuditedQuery, Span
from tidemark.formats.contract import Contract, WatermarkPolicy
from tidemark.formats.evidence import Batch
from tidemark.formats.manifest import InputTopic
from tidemark.sparkfiles.checkpoint import POLICY
from tidemark.sparkfiles.query_log import QueryLog

TIME_ZONE = "spark.sql.session.timeZone"

Ends = Mapping[str, Mapping[int, int]]
"""Kafka topic -> partition -> offset."""


@dataclass(frozen=True)
class AuditedBatches:
    """The batches that are in the evidence, the records that are read, and what of them is gone.

    ``inputs`` are by logical topic: from the first offset that is held to the end of the last planned batch.
    """

    batches: list[Batch]
    inputs: dict[str, InputTopic]
    about: AuditedQuery


def first_batch(log: QueryLog) -> int:
    """The first batch of which start, end and both watermarks are known."""
    oldest = log.planned[0].batch
    return oldest + 1 if oldest else 0


def plan_audit(
    log: QueryLog, topics: Mapping[str, str], held: Ends, asked: str, owed_to: int
) -> AuditedBatches:
    """What to read. ``held`` has the first offset of each partition that the topic still holds.

    Raises ``UsageError`` if no batch that is asked for can be judged.
    """
    first, last = first_batch(log), log.planned[-1].batch
    begin, end = _asked(asked, first, last)
    logical = {topic: name for name, topic in topics.items()}
    batches = [
        Batch(
            batch=planned.batch,
            watermark_ms=planned.watermark_ms,
            end_offsets={
                logical[topic]: ends for topic, ends in planned.end_offsets.items() if topic in logical
            },
            committed=planned.batch in log.committed,
        )
        for planned in log.planned
    ]
    inputs, deleted = {}, {}
    for name, topic in topics.items():
        inputs[name], gone = _span(log, topic, held[topic])
        if gone:
            deleted[name] = gone
    about = AuditedQuery(
        first_batch=first,
        from_batch=begin,
        to_batch=end,
        owed_to=min(owed_to, end),
        deleted=deleted,
        next_watermark_ms=log.next_watermarks_ms.get(last),
        time_zone=log.conf.get(TIME_ZONE),
    )
    return AuditedBatches(batches, inputs, about)


def as_logged(contract: Contract, log: QueryLog) -> tuple[Contract, list[str]]:
    """The contract with the watermark policy of the log, and how the two differ."""
    logged = log.conf.get(POLICY)
    if logged is None or logged == str(contract.policy):
        return contract, []
    try:
        policy = WatermarkPolicy(logged)
    except ValueError:
        raise UsageError(
            f"the log names the watermark policy {logged!r}",
            detail=f"{POLICY} is min or max",
            hint="a checkpoint of Spark 3.5 to 4.3 has one of these",
        ) from None
    difference = (
        f"the watermark policy: the contract says {contract.policy}, the log of the query {policy} ({POLICY});"
        " watermarks are judged by the log's"
    )
    return replace(contract, policy=policy), [difference]


def must_have_read(log: QueryLog, topics: Mapping[str, str]) -> None:
    """Raise ``UsageError`` for a topic that no batch of the log read, or of which the log lacks the beginning."""
    for name, topic in topics.items():
        if topic not in log.topics:
            known = ", ".join(sorted(log.topics)) or "none"
            raise UsageError(
                f"no batch of the checkpoint read the topic {topic!r}",
                detail=f"topics that it read: {known}",
                hint=f"--topic {name}=TOPIC says under which name the query read the contract's topic {name!r}",
            )
        if topic not in log.started:
            raise UsageError(
                f"the checkpoint does not say where the query began to read {topic!r}",
                detail="a file `sources/S/0` has the offsets that startingOffsets came to; none names this topic",
                hint="of a copy, copy `sources`, too: else records that the query never read would be taken for read",
            )


def _asked(text: str, first: int, last: int) -> tuple[int, int]:
    begin, end = range_of(text)
    auditable = f"auditable from batch {first} to batch {last}"
    if first > last:
        raise UsageError(
            f"no batch can be audited: the log has batch {last} only",
            detail="the start of a batch is the end of the one before it, which was trimmed",
            hint="audit the query once it has planned another batch; spark.sql.streaming.minBatchesToRetain keeps more",
        )
    if (begin is not None and begin < first) or (begin or 0) > last or (end is not None and end > last):
        raise UsageError(
            f"--batches {text!r} asks for batches that the log does not have",
            detail=auditable,
            hint="spark.sql.streaming.minBatchesToRetain says how many batches the log of a query keeps",
        )
    if end is not None and end < first:
        raise UsageError(
            f"--batches {text!r} ends before the first batch", detail=auditable, hint="choose later ones"
        )
    return first if begin is None else begin, last if end is None else end


def _span(log: QueryLog, topic: str, held: Mapping[int, int]) -> tuple[InputTopic, dict[str, Span]]:
    """The offsets of a topic that are read, and those that the query read and that are gone.

    A partition that was added while the query ran begins at offset 0.
    """
    ends: dict[str, int] = {}
    for planned in log.planned:
        ends.update(planned.end_offsets.get(topic, {}))
    starts, deleted = {}, {}
    for partition, end in ends.items():
        began = log.started.get(topic, {}).get(partition, 0)
        start = max(began, held.get(int(partition), 0))
        if start > began and end > began:
            deleted[partition] = (began, min(start, end))
        starts[partition] = min(start, end)
    return InputTopic(topic, starts, ends), deleted
