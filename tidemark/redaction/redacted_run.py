"""Redacted evidence: a run directory made of another one, file by file, as it is read.

What is written has pseudonyms and codes only (``join_redaction``, ``chain_redaction``, ``kept_facts``); a file that is
not named here is left out. The new directory is complete or not there: it is written beside its place, and takes it at
the end. The original is read only.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tidemark.atomic_files import write_atomically
from tidemark.errors import BrokenEvidence, BrokenTrace, UsageError
from tidemark.formats.chain import Chain, decoders_of, is_chain
from tidemark.formats.contract import Contract
from tidemark.formats.decoded_records import decoded_values
from tidemark.formats.evidence import (
    STORED,
    TRACES,
    ExecutorAssignment,
    OutputRecord,
    RunDirectory,
    StateKey,
    StateRow,
    open_run,
)
from tidemark.formats.record_files import read_records
from tidemark.formats.redacted_evidence import Redaction
from tidemark.formats.seal import is_intact, seal
from tidemark.formats.storage import parquet_digests, write_records, write_trace_as
from tidemark.formats.trace import Record, TraceReader, digest_problem
from tidemark.oracle.audit_judgement import audit_with_tables
from tidemark.redaction.chain_redaction import ChainRedaction
from tidemark.redaction.clear_evidence import without_values
from tidemark.redaction.join_redaction import JoinRedaction
from tidemark.redaction.kept_facts import kept_fault, kept_headers, kept_manifest, kept_report
from tidemark.redaction.pseudonyms import NAME, Pseudonyms, read_salt


@dataclass(frozen=True)
class Redactor:
    """How one command redacts: with pseudonyms of one salt. ``salt`` is a file, or ``None`` for a random one."""

    salt: Path | None = None
    pseudonyms: Pseudonyms = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pseudonyms", Pseudonyms(read_salt(self.salt)))

    def must_be_able(self, contract: Contract | Chain) -> None:
        """Raise ``UsageError`` for a contract whose records cannot be redacted, before anything is run."""
        redaction_of(contract, self.pseudonyms)

    def redact(self, source: Path, target: Path) -> RunDirectory:
        """Write the redacted evidence of ``source``, sealed, to ``target``, which is not there or is empty.

        Raises ``UsageError`` for evidence that cannot be read, is not as it was sealed or cannot be redacted, and for a
        place that is taken. Nothing is left at ``target`` then.
        """
        run = open_run(source)
        if run.manifest.redacted is not None:
            raise UsageError(
                f"{str(source)!r} is redacted already",
                hint="copy it, or redact the evidence that it was made of",
            )
        _must_be_free(target)
        about = Redaction(
            pseudonyms=NAME, salt="random" if self.salt is None else "file", sealed=is_intact(run.path)
        )
        redaction = _RunRedaction(run, self.pseudonyms)
        with _beside(target) as part:
            try:
                redaction.write(RunDirectory(part), about)
            except (BrokenEvidence, BrokenTrace) as error:
                raise without_values(error) from None
            seal(part)
            if (run.path / "tables").is_dir():
                _write_tables(RunDirectory(part))
        return RunDirectory(target)

    def redact_trace(self, source: Path, contract: Contract | Chain, target: Path) -> tuple[str, Path]:
        """Write a trace redacted, and beside it the contract of its records; the trace's digest, the contract's path.

        Raises ``UsageError`` for a contract that names functions, which read what is in no trace.
        """
        if decoders_of(contract):
            raise UsageError(
                f"the contract {contract.name!r} names functions that decode, and without them no record is read",
                hint="redact the evidence of a run: tidemark run --redact, or tidemark redact DIR --to DIR2",
            )
        records = redaction_of(contract, self.pseudonyms)
        with TraceReader(source) as reader:
            header = msgspec.structs.replace(reader.header, generator=None)
            for record in reader if records.needs_all_values else ():
                records.collect(record.topic, record.text_or_bytes())
        with TraceReader(source) as reader:
            made = (
                _redacted_record(
                    record,
                    records.input(record.topic, record.text_or_bytes()),
                    _key_of(record, self.pseudonyms) if record.topic in header.compacted else None,
                )
                for record in reader
            )
            digest = write_trace_as(target, header, made)
        place = target.with_name(f"{target.name.partition('.')[0]}.contract.json")
        text = msgspec.json.format(msgspec.json.encode(records.contract()), indent=2)
        write_atomically(place, text + b"\n")
        return digest, place


def _key_of(record: Record, pseudonyms: Pseudonyms) -> str | None:
    """The pseudonym of a key, by which compaction decides; control records have none."""
    key = record.key_bytes()
    return None if key is None else pseudonyms.of_bytes(key)


def redaction_of(contract: Contract | Chain, pseudonyms: Pseudonyms) -> JoinRedaction | ChainRedaction:
    """How the records of a contract are redacted; raises ``UsageError`` if they cannot be."""
    if isinstance(contract, Chain):
        return ChainRedaction(contract, pseudonyms)
    return JoinRedaction(contract, pseudonyms)


def _redacted_record(record: Record, value: str | None, key: str | None) -> Record:
    """A record with another value and key, and with no headers.

    Why there is none for a reader of committed records (``absent``) is kept, without the value that was sent.
    """
    return Record(
        topic=record.topic, partition=record.partition, slice=record.slice, key=key,
        value=value if record.absent is None else None,
        arrival_ms=record.arrival_ms, timestamp_ms=record.timestamp_ms, event_ms=record.event_ms,
        transaction=record.transaction, absent=record.absent,
    )  # fmt: skip


def _must_be_free(target: Path) -> None:
    """Raise ``UsageError`` unless a path is free, or an empty directory."""
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise UsageError(
            f"{str(target)!r} is not empty" if target.is_dir() else f"{str(target)!r} is there already",
            hint="name a new directory, or an empty one: nothing is overwritten",
        )


Kept = TypeVar("Kept", StateRow, StateKey)


class _RunRedaction:
    """One run directory."""

    def __init__(self, run: RunDirectory, pseudonyms: Pseudonyms) -> None:
        self._run = self._target = run
        self._pseudonyms = pseudonyms
        self._manifest = run.manifest
        self._records = redaction_of(run.contract, pseudonyms)

    def write(self, target: RunDirectory, about: Redaction) -> None:
        """Write all files into ``target``; the manifest is the last."""
        self._target = target
        if self._records.needs_all_values:
            for name in self._traces():
                for record, value in self._values(name):
                    self._records.collect(record.topic, value)
        digests: dict[str, str | None] = {}
        for name in self._traces():
            digests[f"{name}_sha256"] = self._write_trace(name)
        if self._is_there("output"):
            write_records(self._path("output"), OutputRecord, map(self._output_record, self._run.output()))
        state = None if is_chain(self._manifest.contract) else self._run.state()
        if state is not None:
            write_records(self._path("state"), StateRow, map(self._state_row, state))
        if (keys := self._run.state_keys()) is not None:
            self._target.write_lines("state_keys", map(self._state_row, keys))
        self._write_small_files()
        contract = self._records.contract()
        self._target.write_json("contract", contract)
        made = kept_manifest(self._manifest, contract, about)
        said = {name: digest for name, digest in digests.items() if getattr(self._manifest, name) is not None}
        made = msgspec.structs.replace(
            made, **said, records=self._counted(), parquet_sha256=parquet_digests(self._target)
        )
        self._target.write_json("manifest", made)

    def _counted(self) -> dict[str, int]:
        """The number of records of each file, which is what the manifest says, if it says one."""
        counted = self._target.count_records()
        for name, said in self._manifest.records.items():
            if counted.get(name, 0) != said:
                raise _contradicted(
                    self._run.file(name),
                    f"it has {counted.get(name, 0):,} records; the manifest says that it has {said:,}",
                )
        return counted

    def _write_small_files(self) -> None:
        run, target = self._run, self._target
        if self._is_there("batches"):
            target.write_lines("batches", run.batches())
        if self._is_there("faults"):
            target.write_lines("faults", map(kept_fault, run.faults()))
        if self._is_there("progress"):
            run.progress()  # raises for what cannot be read
            target.write_lines("progress", map(kept_report, self._lines("progress", dict[str, Any])))
        if self._is_there("executors"):
            run.executor_assignments()
            target.write_lines("executors", self._lines("executors", ExecutorAssignment))

    def _lines(self, name: str, kind: type[Any]) -> Iterator[Any]:
        for items in read_records(self._run.file(name), kind):
            yield from items

    def _is_there(self, name: str) -> bool:
        return self._run.file(name).is_file()

    def _traces(self) -> list[str]:
        return [name for name in TRACES if name == "trace" or self._is_there(name)]

    def _path(self, name: str) -> Path:
        """Where a file goes, in the format that it has."""
        source = self._run.file(name)
        return self._target.path / (source.name if name in STORED else f"{name}.jsonl")

    def _values(self, name: str) -> Iterator[tuple[Record, str | bytes | None]]:
        """The records of a trace, each with its value as the contract reads it."""
        path = self._run.file(name)
        with TraceReader(path) as reader, decoded_values(path, self._manifest.contract) as decoded:
            for record in reader:
                yield record, decoded(record)

    def _write_trace(self, name: str) -> str:
        source = self._run.file(name)
        said = getattr(self._manifest, f"{name}_sha256"), self._manifest.parquet_sha256.get(name)
        if why := digest_problem(source, *said):
            raise _contradicted(source, why)
        with TraceReader(source) as reader:
            header = msgspec.structs.replace(reader.header, generator=None)
        return write_trace_as(self._path(name), header, self._redacted(name, header.compacted))

    def _redacted(self, name: str, compacted: Collection[str]) -> Iterator[Record]:
        for record, value in self._values(name):
            key = _key_of(record, self._pseudonyms) if record.topic in compacted else None
            yield _redacted_record(record, self._records.input(record.topic, value), key)

    def _output_record(self, record: OutputRecord) -> OutputRecord:
        # What a producer sets is hashed together: the same record that was sent twice is the same here.
        whole = self._pseudonyms.of_bytes(msgspec.json.encode((record.key, record.value, record.headers)))
        return OutputRecord(
            partition=record.partition, offset=record.offset, timestamp_ms=record.timestamp_ms,
            value=self._records.output(record.value, whole),
            headers=kept_headers(record.headers, self._manifest.query_id, self._pseudonyms),
        )  # fmt: skip

    def _state_row(self, row: Kept) -> Kept:
        key = None if row.key is None else self._records.state_key(row.side, row.key)
        return msgspec.structs.replace(row, key=key)


def _write_tables(run: RunDirectory) -> None:
    """Write the tables of an audit anew: of redacted evidence they have no values."""
    (run.path / "tables").mkdir()
    for name, rows in audit_with_tables(run).tables.items():
        run.write_lines(f"tables/{name}", rows)


def _contradicted(path: Path, why: str) -> BrokenEvidence:
    return BrokenEvidence(
        f"{str(path)!r} cannot be redacted, because {why}",
        hint="restore the file: evidence that contradicts itself is not redacted",
    )


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A directory beside ``target`` that takes its place at the end, and is gone after an error."""
    part = target.with_name(f".{target.name}.redacting")
    try:
        part.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"the redacted evidence cannot be written to {str(target)!r}",
            detail=str(error),
            hint=f"once no other redaction runs, delete {str(part)!r}; or name another directory",
        ) from error
    try:
        yield part
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
