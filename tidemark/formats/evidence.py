"""Evidence: one directory per run, enough to judge the run again without a stack.

Free of Kafka and Spark. The files are simple enough to write by hand: ``tidemark check DIR`` also judges a directory
that a person typed. JSON Lines files may be compressed (``.zst``), and the large ones be Parquet (below).

``manifest.json``   one object::

    {"tidemark_evidence": 2, "contract": {...}, "delivery": "at-least-once", "pace": "stepped",
     "inputs": {
        "impressions": {"topic": "run7-impressions", "start_offsets": {"0": 0}, "end_offsets": {"0": 812}},
        "clicks":      {"topic": "run7-clicks",      "start_offsets": {"0": 0}, "end_offsets": {"0": 95}}},
     "goals": ["flushed"]}

    ``end_offsets`` (end-exclusive, as all offsets here) say how many records of the trace and the flush were published.
    ``goals`` are coverage goals that the run had to meet besides those that its contract implies, ``waived`` those that
    it need not meet. ``plan_differs`` has a sentence for each difference between contract and plan. ``records`` maps a
    file (``"output"``) to the number of its records, without the header of a trace; a file that has another number is
    refused. Optional: ``seed``, ``trace_sha256``, ``flush_sha256`` (of the JSON Lines, also where Parquet says the
    same), ``parquet_sha256`` (``{"trace": ...}``: of the Parquet file itself), ``versions``, ``code_sha256``,
    ``pipeline_sha256`` (of a pipeline file), ``project_sha256`` (of ``project/``), ``backend``, ``sink``, ``query_id``,
    ``started_utc``, ``command`` (reproduces the run), ``notes``, ``waived``, ``plan_differs``, ``records``, ``state``;
    ``demands``, what had to happen in time, and ``hang``, if the query hung (``tidemark.formats.liveness``);
    ``redacted``, if ids and keys are pseudonyms and other values are left out (``tidemark.formats.redacted_evidence``).
    ``state`` says how Spark stored the state, according to the checkpoint, and what was read of it::

        {"format": 2, "provider": "HDFSBackedStateStoreProvider", "changelog": false, "batches": [0, 3, 7]}

    ``format`` is that of joins, ``changelog`` whether changelog files were written, ``asked_format`` what the run asked
    for. ``batches`` are those after which the state was to be read, ``problem`` says why reading failed, ``note`` why
    there was none to read. ``audit`` is there if somebody else started the query (``tidemark.formats.audited_query``).

``trace.jsonl``     the trace that was published, unchanged (``tidemark.formats.trace``).
``flush.jsonl``     the sentinels that were published after it, in the same format; may be missing.
``batches.jsonl``   one line per planned batch, in order of batch id::

    {"batch": 0, "watermark_ms": 0, "end_offsets": {"impressions": {"0": 400}, "clicks": {"0": 40}},
     "committed": true, "runs": 1, "restarted": false, "failed_tasks": 0}

    ``watermark_ms`` is the eviction watermark of that batch (``offsets/N``, ``batchWatermarkMs``). ``runs`` is how
    often the batch was started. ``restarted``: the query was restarted and began with this batch, whether or not it had
    run before; a batch that ran more than once is always ``restarted``. ``failed_tasks`` counts its task attempts that
    did not succeed (from the event logs). ``planned_at_ms`` and ``committed_at_ms`` are the times of ``offsets/N`` and
    ``commits/N`` in milliseconds since 1970; they may be missing.

``output.jsonl``    every record of the output topic, read at ``read_committed``::

    {"partition": 0, "offset": 0, "key": null, "value": "{...}", "timestamp_ms": 1767225600000,
     "headers": [["query", "b2f0..."], ["batch", "0"], ["partition", "1"], ["attempt", "0"]]}

    ``headers``: a value is text, ``null``, or ``{"base64": "/w=="}`` for bytes that are not valid UTF-8, as in the
    trace; such bytes of a key or value are written as ``\\xNN``. ``timestamp_ms`` is also 0 if the record has none.

``state.jsonl``     the state after some batches, one line per row; may be missing::

    {"batch": 3, "side": "left", "key": ["u7", null], "time_us": 1767225600000000, "ref": [0, 17], "matched": false}

    ``batch`` is committed, and the rows are those in the state at its end. ``time_us`` is the event time, or the end of
    its window; ``ref`` is partition and offset of the input record. A field that the state lacks is ``null``. A chain
    has the states of all operators::

        {"batch": 3, "operator": 1, "name": "stateStoreSave", "side": "left", "key": ["u7", "1767225610000000"],
         "time_us": null, "ref": null, "matched": null, "values": ["2"]}

    ``operator`` and ``name`` are Spark's ``operatorId`` and ``operatorName``. ``key`` and ``values`` are columns as
    text: times in microseconds, windows by their end. ``values`` are what an aggregate has gathered, when a key is
    forgotten, or how many rows a limit has taken; rows of a join have ``time_us`` if they have one time.

``state_keys.jsonl``  the keys of that state, one line per key, with Spark's count of its rows; may be missing::

    {"batch": 3, "side": "left", "key": ["u7", null], "time_us": null, "count": 2}

    ``count`` is the number of ``keyToNumValues``; in state format 4, which has none, there is a line per key and time,
    and ``count`` is the number of its entries in ``tsWithKey``. ``time_us`` is that of the key's rows, ``null`` if they
    have several. ``key`` is ``null`` if it is not known. A key that Spark does not count has no line.

``executors.jsonl``  which executor ran the join on each state partition; may be missing::

    {"batch": 4, "executors": {"0": "1", "1": "0"}, "lost": ["2"]}

    ``lost`` are executors that ended while this batch was the latest. Those of the driver's second start are ``2:0`` …

``faults.jsonl``    the journal of faults: what was asked for, whether it was injected, and the proof
                    (``tidemark.formats.faults``)::

    {"component": "executor", "action": "kill", "point": "planned", "at_utc": "...", "injected": true, "batch": 4,
     "proof": {...}, "recovery_s": 2.5}

``progress.jsonl``  Spark's progress reports, unchanged. That of a trigger that ran no batch is not judged: it has
    the id of the batch that is planned next.
``verdict.json``    the verdict; ``report.html``, which may be missing, shows it and the run as a page.
``seal.json``       what the run wrote: digest, length and number of records of each file (``tidemark.formats.seal``).
``logs/``           logs of the programs, Spark's event log of this query and, after faults or a hang, of all servers.
``stacks/``         what the threads of driver and executors did when the query hung.
``checkpoint/``     the query's checkpoint at the end, of a failed run too (``--keep-checkpoint``); it is not judged.
``decoded_*.jsonl``  trace and flush as functions of a user's file read them (``functions.py``, if not the pipeline's).
``code.zip``        the code of tidemark that ran.
``pipeline.py``     the pipeline file that ran (``pipeline.json``: the contract file), unless it was a bundled pipeline.
``project/``        what the pipeline imported of the user's project (``tidemark.formats.project_files``).
``contract.json``   the contract alone.

Trace, flush, output and state may be Parquet instead (``trace.parquet``; ``tidemark run --evidence-format``,
``tidemark convert --to``): a row for each record, in the same order. The columns, of which ``line`` may be missing::

    trace, flush   topic VARCHAR, partition BIGINT, key VARCHAR, value VARCHAR, headers HEADER[], arrival_ms BIGINT,
                   timestamp_ms BIGINT, event_ms BIGINT, slice BIGINT, key_bytes BLOB, value_bytes BLOB, line VARCHAR
    output         partition BIGINT, offset BIGINT, key VARCHAR, value VARCHAR, headers HEADER[], timestamp_ms BIGINT,
                   line VARCHAR
    state          batch BIGINT, side VARCHAR, key VARCHAR[], time_us BIGINT, ref_partition BIGINT, ref_offset BIGINT,
                   matched BOOLEAN, line VARCHAR
    HEADER         STRUCT(name VARCHAR, value VARCHAR, value_bytes BLOB)

A field that JSON may leave out is its default, or NULL. ``key_bytes`` and ``value_bytes`` are not valid UTF-8. ``line``
is that of JSON, where it differs from what tidemark writes, or has fields that are no columns (``absent``). Metadata
are the header of a trace (``tidemark_trace``) and the digest of those lines (``tidemark_jsonl_sha256``).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from os.path import lexists
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import zstandard

from tidemark.atomic_files import write_atomically
from tidemark.errors import BrokenEvidence
from tidemark.formats.chain import Chain, is_chain, read_contract
from tidemark.formats.consistency import (
    LONG_END,
    batch_problem,
    manifest_problem,
    of_known_batch,
    output_problem,
    progress_problem,
    ran_no_batch,
)
from tidemark.formats.contract import Contract
from tidemark.formats.decoded_records import decoded_values
from tidemark.formats.faults import Fault
from tidemark.formats.field_types import short
from tidemark.formats.jsonlines import line_number, write_lines
from tidemark.formats.manifest import Manifest
from tidemark.formats.record_files import count_records, is_parquet, paths_of, read_records
from tidemark.formats.scans import pick, scan_of
from tidemark.formats.trace import Base64, HeaderValue, Record, TraceReader, digest_problem

T = TypeVar("T")
FORMAT = 2
TRACES = ("trace", "flush")
"""The files whose first line is a header."""
COUNTED = (*TRACES, "batches", "output", "state", "state_keys", "executors", "faults", "progress")
"""The files whose records the manifest counts."""


class Batch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A line of ``batches.jsonl``."""

    batch: int
    watermark_ms: int
    end_offsets: dict[str, dict[str, int]]
    committed: bool = True
    runs: int = 1
    restarted: bool = False
    failed_tasks: int = 0
    planned_at_ms: int | msgspec.UnsetType = msgspec.UNSET
    committed_at_ms: int | msgspec.UnsetType = msgspec.UNSET


class OutputRecord(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A line of ``output.jsonl``."""

    partition: int
    offset: int
    value: str | None = None
    key: str | None = None
    headers: list[tuple[str, HeaderValue]] = []
    timestamp_ms: int = 0

    def header(self, name: str) -> str | None:
        """The last value of a header, as text; bytes that are not valid UTF-8 are shown as ``\\xNN``."""
        for found, value in reversed(self.headers):
            if found == name:
                return value.base64.decode(errors="backslashreplace") if isinstance(value, Base64) else value
        return None


class StateRow(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A line of ``state.jsonl``."""

    batch: int
    side: Literal["left", "right"]
    key: tuple[str | None, ...] | None = None
    time_us: int | None = None
    ref: tuple[int, int] | None = None
    matched: bool | None = None


class OperatorStateRow(StateRow, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A line of ``state.jsonl`` of a chain; an operator with one input has a left side only."""

    operator: int
    name: str
    values: tuple[str | None, ...] | None = None


class StateKey(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A line of ``state_keys.jsonl``."""

    batch: int
    side: Literal["left", "right"]
    key: tuple[str | None, ...] | None = None
    time_us: int | None = None
    count: int


class ExecutorAssignment(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A line of ``executors.jsonl``: state partition -> executor, and the executors that ended during the batch."""

    batch: int
    executors: dict[str, str]
    lost: list[str] = []


class InputRecord(NamedTuple):
    """What the oracle needs of a published record; ``value`` is ``str`` if the trace has text."""

    topic: str
    partition: int
    offset: int
    value: bytes | str | None
    is_sentinel: bool
    is_absent: bool = False


class _Version(msgspec.Struct):
    tidemark_evidence: int


STORED: dict[str, type[Any]] = {"trace": Record, "flush": Record, "output": OutputRecord, "state": StateRow}
"""The files that may be Parquet, by the kind of their records; the others are small."""


class RunDirectory:
    """The files of one run, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sound = b""  # the manifest that was read last: it need not be checked again

    @property
    def manifest(self) -> Manifest:
        """``manifest.json``; raises ``BrokenEvidence``."""
        path = self.path / "manifest.json"
        try:
            data = path.read_bytes()
            version = msgspec.json.decode(data, type=_Version).tidemark_evidence
            if version == FORMAT:
                manifest = msgspec.json.decode(data, type=Manifest)
                problem = manifest_problem(manifest) if data != self._sound else ""
                if problem := problem or self._other_contract(manifest):
                    raise _broken(path, problem)
                self._sound = data
                return manifest
        except (OSError, ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise _broken(path, why) from error
        if version < FORMAT:
            raise BrokenEvidence(
                f"{str(self.path)!r} has format version {version}",
                detail=f"this version of tidemark reads format version {FORMAT}",
                hint=f"tidemark convert {shlex.quote(str(self.path))}",
            )
        raise _broken(path, f"format {version}; this version reads {FORMAT}")

    @property
    def _has_manifest(self) -> bool:
        """Whether there is one: it is the last file of the evidence that a run writes."""
        return lexists(self.path / "manifest.json")

    def _other_contract(self, manifest: Manifest) -> str:
        """What is wrong with ``contract.json``, if it is there."""
        path = self.path / "contract.json"
        if not lexists(path):
            return ""
        if not path.is_file():
            raise OSError(f"{str(path)!r} is no regular file")
        is_other = msgspec.json.decode(path.read_bytes()) != manifest.contract
        return "its contract is not that of contract.json" if is_other else ""

    @property
    def contract(self) -> Contract | Chain:
        """The contract in the manifest."""
        return read_contract(self.manifest.contract)

    def inputs(self) -> Iterator[InputRecord]:
        """All published records, in order: the trace, then the sentinels."""
        manifest = self.manifest
        spans = {
            (name, int(partition)): [topic.start_offsets.get(partition, 0), end]
            for name, topic in manifest.inputs.items()
            for partition, end in topic.end_offsets.items()
        }
        for name in TRACES:
            path = self.file(name)
            if name == "flush" and not self._is_there(name):
                continue
            is_sentinel, number = name == "flush", 0
            with TraceReader(path) as reader, decoded_values(path, manifest.contract) as decoded:
                if unasked := set(reader.header.goals) - set(manifest.goals):
                    raise _broken(
                        path, f"it asks for the coverage goal {min(unasked)!r}, which the manifest does not"
                    )
                for record in reader:
                    number += 1
                    value, place = decoded(record), (record.topic, record.partition)
                    span = spans.get(place)
                    if span is None or span[0] >= span[1]:
                        continue  # it was not published
                    yield InputRecord(*place, span[0], value, is_sentinel, record.is_absent)
                    span[0] += 1
            self._must_be_whole(name, number, manifest)
        for name, said in (("trace", manifest.trace_sha256), ("flush", manifest.flush_sha256)):
            path = self.file(name)
            if why := digest_problem(path, said, manifest.parquet_sha256.get(name)):
                raise _broken(path, why)
        for (topic, partition), (offset, end) in spans.items():
            if offset < end:
                why = f"the manifest says that {topic}/{partition} was written up to offset {end}"
                raise _broken(
                    self.file("trace"), f"{why}; trace and flush have its records up to {offset} only"
                )

    def batches(self) -> list[Batch]:
        """The planned batches, in order of their ids."""
        found: Iterator[Batch] = self._lines("batches", Batch)
        return list(
            self._checked("batches", found, batch_problem(self.manifest)) if self._has_manifest else found
        )

    def output(self) -> Iterator[OutputRecord]:
        """The output records in the order they were read."""
        return self._checked("output", self._lines("output", OutputRecord), output_problem())

    def faults(self) -> list[Fault]:
        """The journal of faults; empty without one."""
        if not self._is_there("faults"):
            return []
        committed = self._committed()
        faults = self._lines("faults", Fault)
        return list(self._checked("faults", faults, lambda fault: of_known_batch(fault.batch, committed)))

    def progress(self) -> list[dict[str, Any]]:
        """Spark's progress reports of batches; empty if there are none. A trigger that ran no batch is left out."""
        if not self._is_there("progress"):
            return []
        committed = self._committed()
        found = self._lines("progress", dict[str, Any])
        reports = self._checked("progress", found, lambda report: progress_problem(report, committed))
        return [report for report in reports if not ran_no_batch(report)]

    def state(self) -> Iterator[StateRow] | None:
        """The rows of the state, or ``None`` if it was not read."""
        info = self.manifest.state
        if not self._is_there("state"):
            if info is not None and info.batches and not info.problem:
                raise _broken(
                    self.file("state"),
                    f"it is missing; the manifest says that the state was read after batches {short(info.batches)}",
                )
            return None
        kind = OperatorStateRow if is_chain(self.manifest.contract) else StateRow
        return self._checked("state", self._lines("state", kind), self._state_problem())

    def state_keys(self) -> Iterator[StateKey] | None:
        """The keys of the state, with Spark's count of the rows of each, or ``None`` if they were not read."""
        if not self._is_there("state_keys"):
            return None
        return self._checked("state_keys", self._lines("state_keys", StateKey), self._state_problem())

    def _state_problem(self) -> Callable[[StateRow | StateKey], str]:
        """A function that says what is wrong with the batch of a line of the state."""
        committed, info = self._committed(), self.manifest.state
        asked = None if info is None else set(info.batches)

        def problem(row: StateRow | StateKey) -> str:
            if asked is not None and row.batch not in asked:
                return f"the manifest does not say that the state was read after batch {row.batch}"
            if isinstance(row, StateKey) and not 0 <= row.count < LONG_END:
                return f"count is {row.count}"
            if isinstance(row, OperatorStateRow) and row.operator < 0:
                return f"operator is {row.operator}"
            return of_known_batch(row.batch, committed, is_committed=True)

        return problem

    def executor_assignments(self) -> list[ExecutorAssignment]:
        """Which executor had which state partition, by batch; empty if that is not known."""
        if not self._is_there("executors"):
            return []
        committed = self._committed()
        found = sorted(self._lines("executors", ExecutorAssignment), key=lambda one: one.batch)
        return list(self._checked("executors", found, lambda one: of_known_batch(one.batch, committed)))

    def _committed(self) -> dict[int, bool] | None:
        """Id of each planned batch -> whether it was committed; ``None`` in a run that failed before it wrote them."""
        if not self._has_manifest or not lexists(self.file("batches")):
            return None
        return {batch.batch: batch.committed for batch in self.batches()}

    def _checked(self, name: str, items: Iterable[T], problem: Callable[[T], str]) -> Iterator[T]:
        """The same items; raises for the first with which something is wrong."""
        for number, item in enumerate(items, 1):
            if why := problem(item):
                raise _broken(self.file(name), f"record {number}: {why}")
            yield item

    def file(self, name: str) -> Path:
        """The path of a file by its stem; of ``NAME.jsonl`` if none is there. Raises if it is there twice."""
        first, *others = paths_of(self.path, name, may_be_parquet=name in STORED)
        if others:
            raise _broken(
                first, f"{others[0].name} is there, too, and nothing says which of them is the run's"
            )
        return first

    def scan(self, name: str, query: str = "") -> str | None:
        """A large file as a table of SQL (``formats.scans``); ``None`` without seal or file."""
        path = self.file(name)
        return scan_of(path, name, query) if path.is_file() and (self.path / "seal.json").is_file() else None

    def pick(self, name: str, asked: bytes) -> Iterator[Any]:
        """The records of a large file with these numbers of a scan (``formats.scans.pick``)."""
        return pick(self.file(name), STORED[name], asked)

    def count_records(self) -> dict[str, int]:
        """How many records each file has that is there, for ``records`` of the manifest."""
        files = {name: self.file(name) for name in COUNTED}
        return {
            name: count_records(path) - (name in TRACES and not is_parquet(path))
            for name, path in files.items()
            if path.is_file()
        }

    def write_lines(self, name: str, items: Iterable[Any]) -> None:
        """Write ``NAME.jsonl``, completely or not at all."""
        write_lines(self.path / f"{name}.jsonl", map(msgspec.json.Encoder().encode, items))

    def write_json(self, name: str, item: Any) -> None:
        """Write ``NAME.json``, indented for people, completely or not at all."""
        text = msgspec.json.format(msgspec.json.encode(item), indent=2)
        write_atomically(self.path / f"{name}.json", text + b"\n")

    def _is_there(self, name: str) -> bool:
        """Whether a file that may be missing is there; raises if the manifest says that it was written."""
        if lexists(path := self.file(name)):
            return True
        if self._has_manifest and (many := self.manifest.records.get(name, 0)) > 0:
            raise _broken(path, f"it is missing; the manifest says that it has {many:,} records")
        return False

    def _must_be_whole(self, name: str, found: int, manifest: Manifest) -> None:
        if found != (said := manifest.records.get(name, found)):
            why = f"it has {found:,} records; the manifest says that it has {said:,}"
            raise _broken(self.file(name), why)

    def _lines(self, name: str, kind: type[Any]) -> Iterator[Any]:
        path = self.file(name)
        number = 0
        try:
            for items in read_records(path, kind):
                yield from items
                number += len(items)
            if self._has_manifest:
                self._must_be_whole(name, number, self.manifest)
        except msgspec.DecodeError as error:
            raise _broken(path, f"line {line_number(path, number + 1)}: {error}") from error
        except (OSError, ValueError, zstandard.ZstdError) as error:
            raise _broken(path, str(error)) from error


def open_run(path: Path) -> RunDirectory:
    """The run directory ``path``; raises ``BrokenEvidence`` if it is not one."""
    if not (path / "manifest.json").is_file():
        raise BrokenEvidence(
            f"{str(path)!r} is not a run directory",
            detail="it has no manifest.json",
            hint="`tidemark run` prints the run directory that it wrote; by default it is below runs/",
        )
    return RunDirectory(path)


def _broken(path: Path, why: str) -> BrokenEvidence:
    return BrokenEvidence(
        f"{str(path)!r} cannot be read as evidence",
        detail=why,
        hint="the docstring of tidemark/formats/evidence.py describes each file",
    )
