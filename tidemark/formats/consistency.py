"""What is wrong with a piece of evidence by itself, or beside the manifest and the batches: sentences, or none.

Free of I/O. Evidence that contradicts itself is refused (``BrokenEvidence``), because a comparison with it shows
nothing. What is merely unexpected is the judge's business.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidemark.formats.chain import read_contract, topics_of
from tidemark.formats.contract import Contract, Delivery
from tidemark.formats.field_types import is_plain_number, short

if TYPE_CHECKING:
    from tidemark.formats.evidence import Batch, OutputRecord
    from tidemark.formats.manifest import Manifest

LONG_END = 1 << 63
"""The first number past Kafka's offsets, Spark's batch ids and its times."""
STEPS_OF_A_BATCH = frozenset({"addBatch", "commitOffsets", "getBatch", "queryPlanning", "walCommit"})
"""What ``durationMs`` of a progress report names if the trigger ran a batch (``MicroBatchExecution.scala``)."""
INT_END = 1 << 31
"""The first number past Kafka's partitions."""


def manifest_problem(manifest: Manifest) -> str:
    """What is wrong with a manifest."""
    contract = read_contract(manifest.contract)
    wanted, there = set(topics_of(contract)), set(manifest.inputs)
    if wanted != there:
        return f"its inputs are {_listed(there)}; its contract reads {_listed(wanted)}"
    for topic, about in manifest.inputs.items():
        for what, offsets in (("start_offsets", about.start_offsets), ("end_offsets", about.end_offsets)):
            if problem := _offsets_problem(offsets):
                return f"{what} of {topic}: {problem}"
        for partition, end in about.end_offsets.items():
            start = about.start_offsets.get(partition, 0)
            if end < start:
                return f"{topic}/{partition} starts at offset {start} and ends at {end}"
        if lost := about.start_offsets.keys() - about.end_offsets.keys():
            return f"{topic} has a start offset of partition {min(lost)}, and no end offset"
    own = contract.delivery if isinstance(contract, Contract) else None
    if own is not None and manifest.delivery is not own:
        return f"delivery is {manifest.delivery}; its contract promises {own}"
    if own is None and manifest.sink == "exactly-once" and manifest.delivery is not Delivery.EXACTLY_ONCE:
        return f"delivery is {manifest.delivery}; the sink is {manifest.sink}"
    for name, count in manifest.records.items():
        if not 0 <= count < LONG_END:
            return f"records of {name} is {count}"
    batches = manifest.state.batches if manifest.state is not None else []
    if any(not 0 <= batch < LONG_END for batch in batches) or sorted(set(batches)) != batches:
        return f"state.batches is {short(batches)}, which are not ids of batches in their order"
    return "" if manifest.demands is None else manifest.demands.problem()


def batch_problem(manifest: Manifest) -> Callable[[Batch], str]:
    """A function that says what is wrong with a batch; to be called in the order of the file."""
    known: dict[str, set[str]] = {topic: set() for topic in manifest.inputs}
    last = -1

    def problem(batch: Batch) -> str:
        nonlocal last
        if batch.batch < last:
            return f"batch {batch.batch} comes after batch {last}"
        last = batch.batch
        for name, number in (
            ("batch", batch.batch),
            ("watermark_ms", batch.watermark_ms),
            ("failed_tasks", batch.failed_tasks),
            ("planned_at_ms", batch.planned_at_ms),
            ("committed_at_ms", batch.committed_at_ms),
        ):
            if isinstance(number, int) and not 0 <= number < LONG_END:
                return f"{name} is {number}"
        if not 1 <= batch.runs < LONG_END:
            return f"runs is {batch.runs}"
        if batch.runs > 1 and not batch.restarted:
            return f"batch {batch.batch} ran {batch.runs} times, and restarted is false"
        for topic, ends in batch.end_offsets.items():
            if topic not in known:
                return f"batch {batch.batch} read {topic!r}, which is none of {_listed(manifest.inputs)}"
            if wrong := _offsets_problem(ends):
                return f"end_offsets of {topic} in batch {batch.batch}: {wrong}"
            if strange := ends.keys() - manifest.inputs[topic].end_offsets.keys():
                return f"batch {batch.batch} read {topic}/{min(strange)}, which the manifest does not have"
        for topic, partitions in known.items():
            now = batch.end_offsets.get(topic, {}).keys()
            if lost := partitions - now:
                return f"batch {batch.batch} has no end offset of {topic}/{min(lost)}, and a batch before has one"
            partitions.update(now)
        return ""

    return problem


def output_problem() -> Callable[[OutputRecord], str]:
    """A function that says what is wrong with the place of an output record; to be called in the order of the file."""
    last: dict[int, int] = {}

    def problem(record: OutputRecord) -> str:
        partition, offset = record.partition, record.offset
        if not 0 <= partition < INT_END:
            return f"partition is {partition}"
        if not 0 <= offset < LONG_END:
            return f"offset is {offset}"
        before = last.get(partition, -1)
        if offset == before:
            return f"the record at partition {partition}, offset {offset} is there twice"
        if offset < before:
            return f"partition {partition} has offset {offset} after {before}"
        last[partition] = offset
        return ""

    return problem


def of_known_batch(
    number: int | None, committed: dict[int, bool] | None, *, is_committed: bool = False
) -> str:
    """What is wrong with the batch that a record names; ``committed`` has the planned batches, by rising id."""
    if number is None or committed is None:
        return ""
    # The last is the greatest. One that is missing between others is a finding of the judge.
    if not 0 <= number <= next(reversed(committed), -1):
        return f"batch {number} was never planned"
    if is_committed and not committed.get(number, True):
        return f"batch {number} was never committed"
    return ""


def progress_problem(report: Mapping[str, Any], committed: dict[int, bool] | None) -> str:
    """What is wrong with a progress report of Spark: with its batch, or the numbers of its stateful operators."""
    number = report.get("batchId")
    if type(number) is not int:
        return f"batchId is {short(number)}"
    operators, sources = report.get("stateOperators", []), report.get("sources", [])
    for name, some in (("stateOperators", operators), ("sources", sources)):
        if not isinstance(some, list) or not all(isinstance(one, dict) for one in some):
            return f"{name} of batch {number} is no list of objects"
    if ran_no_batch(report):
        return ""
    return of_known_batch(number, committed) or _operators_problem(number, operators)


def ran_no_batch(report: Mapping[str, Any]) -> bool:
    """Whether a progress report is of a trigger that ran no batch: it read nothing and did none of a batch's steps.

    A query that finds nothing new reports one when it starts, and one every ten seconds
    (``spark.sql.streaming.noDataProgressEventInterval``). Its ``batchId`` is the batch that is planned later, by this
    run or the next, or never; its operators are those of the batch before (``ProgressReporter.scala`` of Spark 4.2).
    """
    durations, sources = report.get("durationMs"), report.get("sources")
    if not isinstance(durations, dict) or not STEPS_OF_A_BATCH.isdisjoint(durations):
        return False
    return isinstance(sources, list) and all(
        isinstance(source, dict) and source.get("startOffset", 0) == source.get("endOffset", 1)
        for source in sources
    )


def told_otherwise(
    manifest: Manifest, batches: Iterable[Batch], progress: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Why a run is inconclusive of which Spark reports other offsets than ``batches.jsonl`` has: the first batch."""
    by_id = {batch.batch: batch for batch in batches}
    logical = {about.topic: topic for topic, about in manifest.inputs.items()}
    for report in progress:
        batch, sources = by_id.get(report["batchId"]), report.get("sources")
        if (
            batch is not None
            and sources is not None
            and (problem := _sources_problem(batch, sources, logical))
        ):
            return [problem]
    return []


def _operators_problem(number: int, operators: Iterable[Mapping[str, Any]]) -> str:
    for one in operators:
        for name, value in one.items():
            is_number = type(value) is int and 0 <= value < LONG_END
            if name.startswith(("numRows", "all", "commitTime")) and not is_number:
                return f"{name} of batch {number} is {short(value)}"
    return ""


def _sources_problem(batch: Batch, sources: Iterable[Mapping[str, Any]], logical: Mapping[str, str]) -> str:
    told: list[str] = []
    for source in sources:
        ends = source.get("endOffset")
        try:
            ends = json.loads(ends) if isinstance(ends, str) else ends
        except (ValueError, RecursionError):
            return f"Spark reports the endOffset {short(ends)} of batch {batch.batch}"
        told += ends if isinstance(ends, dict) else []
        for topic, partitions in ends.items() if isinstance(ends, dict) else ():
            ours = batch.end_offsets.get(logical.get(topic, ""), partitions)
            if ours != partitions:
                said = f"Spark reports that batch {batch.batch} read {topic} up to {short(partitions)}"
                return f"{said}; batches.jsonl says {short(ours)}"
    if twice := next((topic for topic in told if told.count(topic) > 1), None):
        return f"Spark reports for batch {batch.batch} the end offsets of {twice} twice"
    if batch.end_offsets.keys() - {logical.get(topic) for topic in told}:
        return f"Spark reports for batch {batch.batch} the end offsets of {_listed(told)} only"
    return ""


def _offsets_problem(offsets: Mapping[str, int]) -> str:
    for partition, offset in offsets.items():
        if not is_plain_number(partition, INT_END):
            return f"{partition!r} is no partition"
        if not 0 <= offset < LONG_END:
            return f"partition {partition} is at {offset}"
    return ""


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names)) or "none"
