"""Evidence in memory, as the judge reads it and as the files of a run directory.

Free of Kafka and Spark. Offsets are those that a run directory gives: the records of a partition follow each other from
the start that the manifest names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tidemark.campaigns.shrink.predicted_batches import with_offsets
from tidemark.formats.absent_records import GAP
from tidemark.formats.consistency import batch_problem, manifest_problem
from tidemark.formats.evidence import (
    Batch,
    ExecutorAssignment,
    InputRecord,
    OutputRecord,
    RunDirectory,
    StateKey,
    StateRow,
)
from tidemark.formats.faults import Fault
from tidemark.formats.input_offsets import first_offsets
from tidemark.formats.manifest import Manifest
from tidemark.formats.seal import seal
from tidemark.formats.trace import FORMAT, Header, Pace, Record, TopicSpec, TraceReader, write_trace

Place = tuple[str, int, int]
"""Topic, partition and offset of an input record."""


@dataclass(frozen=True)
class Beside:
    """What was observed beside rows and batches; ``None``: it was not read, as an :class:`Evidence` says it."""

    state: tuple[StateRow, ...] | None = None
    state_keys: tuple[StateKey, ...] | None = None
    faults: tuple[Fault, ...] = ()
    executors: tuple[ExecutorAssignment, ...] = ()
    progress: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class HeldEvidence:
    """An ``Evidence`` of one join. ``records`` are trace and flush, sentinels from ``first_sentinel`` on."""

    manifest: Manifest
    records: tuple[Record, ...]
    first_sentinel: int
    planned: tuple[Batch, ...]
    written: tuple[OutputRecord, ...]
    beside: Beside = Beside()

    def places(self) -> Iterator[Place]:
        """Where each record lies."""
        found = with_offsets(self.records, first_offsets(self.manifest.inputs))
        return ((record.topic, record.partition, offset) for record, offset in found)

    def inputs(self) -> Iterator[InputRecord]:
        """Every record with its offset, sentinels last."""
        for number, (record, place) in enumerate(zip(self.records, self.places(), strict=True)):
            is_sentinel = number >= self.first_sentinel
            yield InputRecord(*place, record.text_or_bytes(), is_sentinel, record.is_absent)

    def batches(self) -> Sequence[Batch]:
        """The planned batches."""
        return self.planned

    def output(self) -> Iterable[OutputRecord]:
        """The records of the output."""
        return self.written

    def faults(self) -> Sequence[Fault]:
        """The journal of faults."""
        return self.beside.faults

    def progress(self) -> Sequence[dict[str, Any]]:
        """Spark's progress reports."""
        return self.beside.progress

    def state(self) -> Iterable[StateRow] | None:
        """The rows of the state."""
        return self.beside.state

    def state_keys(self) -> Iterable[StateKey] | None:
        """The keys of the state."""
        return self.beside.state_keys

    def executor_assignments(self) -> Sequence[ExecutorAssignment]:
        """Which executor had which state partition."""
        return self.beside.executors

    @property
    def problem(self) -> str:
        """How it contradicts itself, in what a run directory refuses; empty if it does not."""
        of_batch = batch_problem(self.manifest)
        return manifest_problem(self.manifest) or next(filter(None, map(of_batch, self.planned)), "")

    def write(self, folder: Path) -> RunDirectory:
        """Write it as a sealed run directory into an empty folder."""
        directory, cut = RunDirectory(folder), self.first_sentinel
        folder.mkdir(parents=True, exist_ok=True)
        digest = self.write_trace(folder / "trace.jsonl", self.records[:cut])
        flush = self.records[cut:]
        flush_digest = self.write_trace(folder / "flush.jsonl", flush) if flush else None
        directory.write_json("contract", self.manifest.contract)
        directory.write_lines("batches", self.planned)
        directory.write_lines("output", self.written)
        beside = {name: getattr(self.beside, name) for name in Beside.__dataclass_fields__}
        for name, lines in beside.items():
            if lines or (lines is not None and name in ("state", "state_keys")):
                directory.write_lines(name, lines)
        manifest = msgspec.structs.replace(
            self.manifest, trace_sha256=digest, flush_sha256=flush_digest, records=directory.count_records()
        )
        directory.write_json("manifest", manifest)
        seal(folder)
        return directory

    def write_trace(self, path: Path, records: Sequence[Record], pace: Pace | None = None) -> str:
        """Write records as a trace; returns its digest. ``pace`` is the run's, if it is not given."""
        header = Header(
            tidemark_trace=FORMAT,
            pace=pace or _pace(self.manifest.pace),
            topics={
                name: TopicSpec(_partitions(about.end_offsets))
                for name, about in self.manifest.inputs.items()
            },
            slices=max((record.slice for record in records), default=0) + 1,
        )
        return write_trace(path, header, records)


def read_evidence(directory: RunDirectory) -> HeldEvidence:
    """Everything in a run directory that the judge reads; raises ``TidemarkError`` for what cannot be read."""
    manifest = directory.manifest
    ends = {
        (name, int(part)): end
        for name, about in manifest.inputs.items()
        for part, end in about.end_offsets.items()
    }
    records, cuts, starts = list[Record](), [0], first_offsets(manifest.inputs)
    for name in ("trace", "flush"):
        if directory.file(name).is_file():
            with TraceReader(directory.file(name)) as reader:
                # Any record may be left out, and with it why there is none at another offset.
                records += (
                    msgspec.structs.replace(
                        one, transaction=None, absent=GAP if one.is_absent else None, sent=None
                    )
                    for one in reader
                )
        cuts.append(len(records))
    is_published = [
        offset < ends.get((record.topic, record.partition), 0)
        for record, offset in with_offsets(records, starts)
    ]
    state, keys = directory.state(), directory.state_keys()
    return HeldEvidence(
        manifest=manifest,
        records=tuple(one for one, is_there in zip(records, is_published, strict=True) if is_there),
        first_sentinel=sum(is_published[: cuts[1]]),
        planned=tuple(sorted(directory.batches(), key=lambda one: one.batch)),
        written=tuple(directory.output()),
        beside=Beside(
            state=None if state is None else tuple(state),
            state_keys=None if keys is None else tuple(keys),
            faults=tuple(directory.faults()),
            executors=tuple(directory.executor_assignments()),
            progress=tuple(directory.progress()),
        ),
    )


def _pace(pace: str) -> Pace:
    return "backlog" if pace == "backlog" else "timed" if pace == "timed" else "stepped"


def _partitions(ends: dict[str, int]) -> int:
    return max(map(int, ends), default=0) + 1
