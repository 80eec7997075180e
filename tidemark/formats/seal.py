"""The seal of a run directory: what a run wrote, so that a change afterwards is seen.

Free of Kafka and Spark. ``seal.json`` is the last file that a run writes::

    {"tidemark_seal": 1,
     "files": {"output.jsonl": {"sha256": "9f86d0...", "bytes": 73120, "records": 412}, ...}}

It has every file of the directory but itself, ``verdict.json`` and ``report.html``, which are made anew. ``records`` is
the number of lines that are not blank, uncompressed, of a JSON Lines file, and of rows of a Parquet file.

A directory whose files ``tidemark convert --to`` has stored in another format was as it was sealed then, and has a new
seal, with an entry for each conversion: what was written, and the digest of the seal before it::

    "converted": [{"to": "parquet", "seal_sha256": "51c2aa..."}]

A directory without a seal is judged, and
the report says so. The seal tells of accidents; it is no signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from os.path import lexists
from pathlib import Path

import msgspec
import zstandard

from tidemark.atomic_files import write_atomically
from tidemark.errors import BrokenEvidence
from tidemark.formats.record_files import JSON_LINES, PARQUET, BrokenParquet, count_records

NAME, FORMAT = "seal.json", 1
UNSEALED = (NAME, "verdict.json", "report.html")
"""The seal itself, and what is made of the evidence anew."""
READ_BY_NAME = (
    "manifest", "contract", "pipeline", "functions", "trace", "flush", "decoded_trace", "decoded_flush", "batches",
    "output", "state", "state_keys", "executors", "faults", "progress", "project",
)  # fmt: skip
"""Stems of files that say what a run was: one of these that the seal does not have was added afterwards."""
_SHOWN = 5


class SealedFile(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One file: SHA-256 in hexadecimal digits, its length in bytes, and the number of its records."""

    sha256: str
    bytes: int
    records: int | None = None


class Conversion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One conversion: how the large files are stored since, and the SHA-256 of the seal that was intact before it."""

    to: str
    seal_sha256: str


class Seal(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``seal.json``; ``files`` by path in the run directory, ``converted`` from the first conversion to the last."""

    tidemark_seal: int
    files: dict[str, SealedFile]
    converted: list[Conversion] = []


def seal(run: Path, converted: Sequence[Conversion] = ()) -> Seal:
    """Seal a run directory as it is now, and return the seal; raises ``BrokenEvidence`` if a file cannot be read."""
    files = {name: _sealed(path) for name, path in sorted(_files(run))}
    made = Seal(tidemark_seal=FORMAT, files=files, converted=list(converted))
    write_atomically(run / NAME, msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    return made


def is_intact(run: Path) -> bool:
    """Whether a run directory has a seal, and is as it was sealed.

    ``False``: it has none. Raises ``BrokenEvidence`` if a file differs, is missing or was added, or if the seal cannot
    be read.
    """
    if not lexists(run / NAME):
        return False
    sealed = _read(run / NAME)
    if differences := list(_differences(run, sealed)):
        more = len(differences) - _SHOWN
        raise BrokenEvidence(
            f"{str(run)!r} is not as it was sealed",
            detail="\n".join([*differences[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]),
            hint=f"restore the files; or, if the change was meant, `tidemark seal {run}` seals what is there now,"
            " which is then no proof of what the run wrote",
        )
    return True


def converted_from(run: Path) -> list[Conversion]:
    """The conversions that a sealed directory has behind it; raises ``BrokenEvidence``."""
    return _read(run / NAME).converted


def _read(path: Path) -> Seal:
    try:
        return msgspec.json.decode(_regular(path).read_bytes(), type=Seal)
    except (OSError, ValueError, msgspec.DecodeError, RecursionError) as error:
        raise BrokenEvidence(
            f"{str(path)!r} cannot be read as a seal",
            detail=str(error),
            hint="the docstring of tidemark/formats/seal.py describes it; `tidemark seal DIR` makes a new one",
        ) from error


def _differences(run: Path, sealed: Seal) -> Iterator[str]:
    if sealed.tidemark_seal != FORMAT:
        yield f"{NAME} has format {sealed.tidemark_seal}; this version reads {FORMAT}"
        return
    there = dict(_files(run))
    for name, was in sealed.files.items():
        if name not in there:
            yield f"{name} is missing"
            continue
        now = _sealed(there[name])
        if now.sha256 != was.sha256 or now.bytes != was.bytes:
            yield f"{name} was changed: {_described(now)}; it was sealed with {_described(was)}"
        elif now.records != was.records:
            yield f"{name} has {now.records} records; it was sealed with {was.records}"
    for name in there:
        if name not in sealed.files and name.replace("/", ".").split(".")[0] in READ_BY_NAME:
            yield f"{name} was added"


def _described(file: SealedFile) -> str:
    records = "" if file.records is None else f"{file.records:,} records, "
    return f"{records}{file.bytes:,} bytes, SHA-256 {file.sha256[:12]}"


def _files(run: Path) -> Iterator[tuple[str, Path]]:
    """All files that are sealed, by path in the run directory."""
    for path in run.rglob("*"):
        name = path.relative_to(run).as_posix()
        if name not in UNSEALED and not (path.is_dir() and not path.is_symlink()):
            yield name, path


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits; raises ``OSError``."""
    with _regular(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sealed(path: Path) -> SealedFile:
    try:
        digest, size = file_sha256(path), path.stat().st_size
        records = count_records(path) if path.name.endswith((*JSON_LINES, PARQUET)) else None
    except (OSError, zstandard.ZstdError, BrokenParquet) as error:
        raise BrokenEvidence(
            f"{str(path)!r} cannot be read", detail=str(error), hint="a run directory has regular files only"
        ) from error
    return SealedFile(digest, size, records)


def _regular(path: Path) -> Path:
    if path.is_symlink() or not path.is_file():
        raise OSError("it is no regular file")
    return path
