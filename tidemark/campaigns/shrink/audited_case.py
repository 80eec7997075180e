"""The input of an audited query as a red run of a pipeline: its records as trace, its batches as slices.

Free of Spark. The sentinels are made by the program that makes those of any run. The promise is the audit's: its
contract, and its delivery.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from tidemark.campaigns.case import Case, RunMode
from tidemark.campaigns.shrink.bug_signature import (
    chosen_finding,
    leaves_topic_unread,
    must_be_shown_by_runs,
    of_sentinels,
    signature_of,
)
from tidemark.campaigns.shrink.offline.held_evidence import HeldEvidence, read_evidence
from tidemark.campaigns.shrink.offline.kept_evidence import WholeEvidence
from tidemark.campaigns.shrink.offline.same_finding import where_sentinels_begin
from tidemark.campaigns.shrink.red_run import RedRun
from tidemark.campaigns.shrink.shrinkable import Shrinkable
from tidemark.errors import UsageError
from tidemark.formats.chain import topics_of
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory, open_run
from tidemark.formats.trace import FORMAT, Header, Record, TopicSpec, TraceReader, write_trace
from tidemark.oracle import judge
from tidemark.runner.decoded_run import make_sentinels
from tidemark.runner.pipeline_code import describe
from tidemark.runner.run_options import SINKS

MODES: tuple[RunMode, ...] = ("followed", "backlog", "stepped")


def red_run_of_audit(path: Path, pipeline: Path, number: int | None = None) -> RedRun:
    """The audit in a directory as runs of a pipeline over its input, and its finding with a number.

    Raises ``UsageError`` for a directory that is no audit, without a finding that a run can show, or of other topics
    than the pipeline's.
    """
    directory = open_run(path)
    manifest = directory.manifest
    if manifest.audit is None or manifest.redacted is not None:
        raise UsageError(
            f"the evidence in {str(path)!r} is {'redacted' if manifest.redacted else 'that of a run'}",
            detail="a pipeline is run in the place of a query that was audited, with the records that it read",
            hint="leave out --pipeline: a run is made smaller with the pipeline that ran",
        )
    contract = replace(Contract.from_json(manifest.contract), delivery=manifest.delivery)
    if contract.is_decoded:
        raise UsageError(
            f"the records in {str(path)!r} are read by functions",
            detail="trials run on a driver that is up, which has the pipeline's file and nothing else",
            hint="make the evidence itself smaller: leave out --pipeline",
        )
    topics = topics_of(describe(str(pipeline)))
    if topics != (contract.left.topic, contract.right.topic):
        raise UsageError(
            f"{str(pipeline)!r} reads {' and '.join(topics)}",
            detail=f"the query that was audited reads {contract.left.topic} and {contract.right.topic}",
            hint="name the topics in the pipeline's contract as the audit's contract does",
        )
    held = read_evidence(directory)
    trace_rows = where_sentinels_begin(held)
    verdict = judge(directory)
    finding = chosen_finding(verdict, number, of_sentinels(*trace_rows))
    must_be_shown_by_runs(finding)
    case = _case(held, contract, pipeline)
    starts = tuple(Shrinkable(replace(case, mode=mode)) for mode in MODES)
    signature, is_unread = signature_of(finding, contract, *trace_rows), leaves_topic_unread(verdict)
    return RedRun(directory, finding, signature, starts, is_unread=is_unread)


def _case(held: HeldEvidence, contract: Contract, pipeline: Path) -> Case:
    records = tuple(_in_slices(held))
    partitions = max(record.partition for record in records) + 1
    return Case(
        name=contract.name,
        contract=contract,
        records=records,
        flush=tuple(_sentinels(contract, records, partitions)),
        sink=SINKS[1],
        pipeline=str(pipeline.resolve()),
        partitions=partitions,
    )


def _in_slices(held: HeldEvidence) -> Iterator[Record]:
    """The records in the order of the batches that read them; an offset without a record is none."""
    batch_of = WholeEvidence(held).batch_of
    there = [number for number, record in enumerate(held.records) if record.text_or_bytes() is not None]
    if not there:
        raise UsageError("the audit has no records", hint="--finding N chooses another finding")
    slices = {batch: at for at, batch in enumerate(sorted({batch_of[number] for number in there}))}
    for number in sorted(there, key=lambda number: (batch_of[number], number)):
        yield msgspec.structs.replace(held.records[number], slice=slices[batch_of[number]])


def _sentinels(contract: Contract, records: tuple[Record, ...], partitions: int) -> Iterator[Record]:
    with tempfile.TemporaryDirectory(prefix="tidemark-shrink-") as place:
        folder = Path(place)
        trace, flush = folder / "trace.jsonl", folder / "flush.jsonl"
        topics = {topic: TopicSpec(partitions) for topic in (contract.left.topic, contract.right.topic)}
        header = Header(tidemark_trace=FORMAT, pace="stepped", topics=topics, slices=records[-1].slice + 1)
        write_trace(trace, header, records)
        RunDirectory(folder).write_json("contract", contract.to_json())
        make_sentinels(folder, trace, flush)
        with TraceReader(flush) as reader:
            yield from reader
