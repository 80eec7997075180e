"""How the large files of a run are stored, JSON Lines or Parquet, and conversion from one to the other and back.

Nothing is lost: a Parquet file has every field of every record, in order, and with it what the JSON Lines file had of
its own (spelling, blank lines), so that converting back gives the same file, byte by byte. What was compressed
(``.zst``) comes back uncompressed: the same lines.

A converted directory takes the place of the one before once it is complete, and was read back. Until then nothing of
the original is touched: an interruption, a full disk or a damaged file leave it as it was.

A seal is verified before, and the new directory is sealed anew; its seal says which seal it comes from
(``tidemark.formats.seal``). A directory without a seal stays without one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec
import zstandard

from tidemark.atomic_files import unfinished_path
from tidemark.errors import BrokenEvidence, BrokenTrace, TidemarkError, UsageError
from tidemark.formats.chain import is_chain
from tidemark.formats.evidence import STORED, TRACES, RunDirectory
from tidemark.formats.jsonlines import BLOCK_BYTES, open_lines, write_lines
from tidemark.formats.record_files import (
    DIGEST_KEY,
    END_KEY,
    HEADER_KEY,
    JSON_LINES,
    PARQUET,
    BrokenParquet,
    is_parquet,
)
from tidemark.formats.seal import Conversion, converted_from, file_sha256, is_intact, seal
from tidemark.formats.trace import Header, Record, write_trace

Storage = Literal["jsonl", "parquet"]
STORAGES: tuple[Storage, ...] = ("jsonl", "parquet")


def store_run(run: Path, storage: Storage, out: Path | None = None) -> bool:
    """Store the large files of a run directory as ``storage``; false if they are already.

    In place, or as a copy of the directory by the path ``out``. Raises ``BrokenEvidence`` if it cannot be read or is
    not as it was sealed, and ``UsageError`` if there is no space, or no permission, to do it.
    """
    run = run.resolve()
    target = run if out is None else out
    sources = _sources(RunDirectory(run), storage)
    if not sources and out is None:
        return False
    if out is None and Path.cwd().is_relative_to(run):
        raise UsageError(
            f"{str(run)!r} is the working directory",
            detail="it is replaced by another directory, in which no program would be then",
            hint="change to a directory outside of it, or name a folder with --out",
        )
    is_sealed = is_intact(run)
    part, before = _beside(target, "converting"), _beside(target, "unconverted")
    _must_be_free(target, part, before)
    with _explained(run, target), _removed_after(part):
        _copy(run, part, set(sources.values()), _linked if out is None else shutil.copy2)
        for name, source in sources.items():
            _store(name, source, part)
        _write_manifest(RunDirectory(part), list(sources))
        if is_sealed:
            (part / "seal.json").unlink()
            seal(part, [*converted_from(run), Conversion(storage, file_sha256(run / "seal.json"))])
        if out is None:
            _exchange(part, target, before)
        else:
            part.rename(target)
    return True


def store_trace(trace: Path, storage: Storage, out: Path | None = None) -> Path:
    """Store a trace as ``storage`` beside itself, or in the folder ``out``; returns its path.

    A trace that is stored so already stays; else the file before is removed once the new one is complete, unless there
    is an ``out``. Raises ``BrokenTrace``, and ``UsageError`` if there is a file of that name, or no space.
    """
    if is_parquet(trace) == (storage == "parquet"):
        return trace if out is None else Path(shutil.copy2(trace, out))
    target = (out or trace.parent) / f"{_stem(trace)}{PARQUET if storage == 'parquet' else JSON_LINES[0]}"
    if os.path.lexists(target):
        raise UsageError(
            f"{str(target)!r} is there already", hint="name another folder with --out, or move it"
        )
    with _explained(trace, target):
        convert_file(trace, target, Record, has_header=True)
        if out is None:
            trace.unlink()
    return target


def write_records(path: Path, kind: type[Any], records: Iterable[Any]) -> None:
    """Write records to a file that its name says the format of, completely or not at all, as they come.

    Raises ``OSError``, and ``BrokenParquet`` for a record that does not fit into the columns.
    """
    if not is_parquet(path):
        write_lines(path, map(msgspec.json.Encoder().encode, records))
        return
    from tidemark.formats.parquet import BLOCK_ROWS, RowWriter
    from tidemark.formats.record_columns import LAYOUTS, write_rows

    rest = ((record, None) for record in records)
    with RowWriter(path, LAYOUTS[kind].columns) as writer:
        write_rows(writer, kind, iter(lambda: list(islice(rest, BLOCK_ROWS)), []))


def write_trace_as(path: Path, header: Header, records: Iterable[Record]) -> str:
    """Write a trace to a file that its name says the format of, completely or not at all; the digest of its lines.

    Raises as :func:`write_records`.
    """
    if not is_parquet(path):
        return write_trace(path, header, records)
    from tidemark.formats.parquet import BLOCK_ROWS, RowWriter
    from tidemark.formats.record_columns import LAYOUTS, write_rows

    encode, rest = msgspec.json.Encoder().encode, iter(records)
    first = encode(header)
    digest = hashlib.sha256(first + b"\n")

    def blocks() -> Iterator[list[tuple[Record, None]]]:
        while block := list(islice(rest, BLOCK_ROWS)):
            digest.update(b"".join([encode(record) + b"\n" for record in block]))
            yield [(record, None) for record in block]

    with RowWriter(path, LAYOUTS[Record].columns) as writer:
        writer.metadata[HEADER_KEY] = first.decode()
        write_rows(writer, Record, blocks())
        writer.metadata[DIGEST_KEY] = digest.hexdigest()
    return digest.hexdigest()


def recover(run: Path) -> None:
    """Give a run directory its name back, of which a conversion was killed between two renames."""
    if not os.path.lexists(run) and (before := _beside(run, "unconverted")).is_dir():
        before.rename(run)


def convert_file(source: Path, target: Path, kind: type[Any], *, has_header: bool) -> None:
    """Write a file of records as the other format, completely or not at all, and read it back.

    Raises ``OSError``; ``BrokenParquet``, ``ValueError`` or ``zstandard.ZstdError`` for a file that cannot be read.
    """
    from tidemark.formats.record_columns import read_lines

    digest = (
        _write_parquet(source, target, kind, has_header=has_header)
        if is_parquet(target)
        else _write_lines(source, target, kind)
    )
    try:
        read_back = hashlib.sha256()
        if is_parquet(target):
            for piece in read_lines(target, kind):
                read_back.update(piece)
        with target.open("rb") as file:
            if not is_parquet(target):
                read_back = hashlib.file_digest(file, "sha256")
            os.fsync(file.fileno())  # the original is deleted soon
        if read_back.hexdigest() != digest:
            raise ValueError(f"what was written is not what {source.name} says; nothing was converted")
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _write_parquet(source: Path, target: Path, kind: type[Any], *, has_header: bool) -> str:
    """Returns the SHA-256 of the lines."""
    from tidemark.formats.parquet import RowWriter
    from tidemark.formats.record_columns import LAYOUTS, write_rows

    with open_lines(source) as file, RowWriter(target, LAYOUTS[kind].columns) as writer:
        lines = _Lines(kind)
        if has_header:
            writer.metadata[HEADER_KEY] = lines.header(file.readline())
        write_rows(writer, kind, lines.blocks(file.read, file.readline))
        if lines.end != "\n":
            writer.metadata[END_KEY] = lines.end
        digest = str(lines.digest.hexdigest())
        writer.metadata[DIGEST_KEY] = digest
    return digest


def _write_lines(source: Path, target: Path, kind: type[Any]) -> str:
    from tidemark.formats.record_columns import read_lines, read_metadata

    digest, part = hashlib.sha256(), unfinished_path(target)
    try:
        with part.open("wb") as out:
            for piece in read_lines(source, kind):
                digest.update(piece)
                out.write(piece)
        said = read_metadata(source, kind).get(DIGEST_KEY, digest.hexdigest())
        if said != digest.hexdigest():
            raise BrokenParquet(
                f"its records have the SHA-256 {digest.hexdigest()[:12]}…; it says {said[:12]!r}…"
            )
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return digest.hexdigest()


@dataclass
class _Lines:
    """Lines of JSON as records, each with what its line has of its own; ``digest`` is of all that was read."""

    kind: type[Any]
    digest: Any = field(default_factory=hashlib.sha256)
    _blank: bytes = b""
    _is_ended: bool = True
    _is_empty: bool = True

    def header(self, line: bytes) -> str:
        """The first line, without its end."""
        self._note(line)
        return line.removesuffix(b"\n").decode()

    @property
    def end(self) -> str:
        """What follows the last record: the end of its line, mostly."""
        text = (b"" if self._is_empty else b"\n") + self._blank
        return (text if self._is_ended else text.removesuffix(b"\n")).decode()

    def blocks(
        self, read: Callable[[int], bytes], readline: Callable[[], bytes]
    ) -> Iterator[list[tuple[Any, str | None]]]:
        """The records in blocks, each with its ``line`` if that differs from what tidemark writes."""
        decoder, encode = msgspec.json.Decoder(self.kind), msgspec.json.Encoder().encode
        number = 0
        while block := read(BLOCK_BYTES):
            block += readline()
            self._note(block)
            found: list[tuple[Any, str | None]] | None = None
            if not self._blank:
                try:
                    records = decoder.decode_lines(block)
                    if b"\n".join([*map(encode, records), b""]) == block:
                        found = [(record, None) for record in records]
                except (msgspec.DecodeError, RecursionError):
                    pass  # the lines are read one by one, and it is named
            if found is None:
                found = list(self._one_by_one(block, decoder.decode, encode, number))
            number += len(found)
            yield found

    def _one_by_one(
        self, block: bytes, decode: Callable[[bytes], Any], encode: Callable[[Any], bytes], number: int
    ) -> Iterator[tuple[Any, str | None]]:
        lines = block.split(b"\n")
        for raw in lines[:-1] if self._is_ended else lines:
            if not raw or raw.isspace():
                self._blank += raw + b"\n"
                continue
            number += 1
            try:
                record = decode(raw)
            except (msgspec.DecodeError, RecursionError) as error:
                raise ValueError(f"record {number}: {error}") from error
            is_plain = not self._blank and encode(record) == raw
            yield record, None if is_plain else (self._blank + raw).decode()
            self._blank = b""

    def _note(self, block: bytes) -> None:
        self.digest.update(block)
        self._is_ended = block.endswith(b"\n")
        self._is_empty = False


def _sources(run: RunDirectory, storage: Storage) -> dict[str, Path]:
    """Name -> path of each large file that is there and is stored otherwise."""
    of_chain = is_chain(run.manifest.contract)  # raises for what is no run directory of this version
    # The state of a chain has other fields than the columns of the file.
    files = {name: run.file(name) for name in STORED if not (of_chain and name == "state")}
    return {
        name: path
        for name, path in files.items()
        if os.path.lexists(path) and is_parquet(path) != (storage == "parquet")
    }


def _store(name: str, source: Path, part: Path) -> None:
    target = part / f"{name}{JSON_LINES[0] if is_parquet(source) else PARQUET}"
    try:
        convert_file(source, target, STORED[name], has_header=name in TRACES)
    except (ValueError, zstandard.ZstdError) as error:
        raise BrokenEvidence(
            f"{str(source)!r} cannot be converted",
            detail=str(error),
            hint="the docstring of tidemark/formats/evidence.py describes each file",
        ) from error


def _write_manifest(run: RunDirectory, names: list[str]) -> None:
    """Write the digests of the Parquet files; what the manifest says otherwise is true of either format."""
    path = run.path / "manifest.json"
    manifest = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    for name in set(names) & set(TRACES):
        if (said := manifest.get(f"{name}_sha256")) is not None:
            _must_be_said(run, name, said)
    manifest.pop("parquet_sha256", None)
    if digests := parquet_digests(run):
        manifest["parquet_sha256"] = digests
    run.write_json("manifest", manifest)


def parquet_digests(run: RunDirectory) -> dict[str, str]:
    """The digests of trace and flush, where they are Parquet files, for ``parquet_sha256`` of the manifest."""
    files = {name: run.file(name) for name in TRACES}
    return {name: file_sha256(path) for name, path in files.items() if is_parquet(path)}


def _must_be_said(run: RunDirectory, name: str, said: str) -> None:
    from tidemark.formats.trace import trace_sha256

    if said != (found := trace_sha256(run.file(name))):
        raise BrokenEvidence(
            f"{name} of {str(run.path)!r} is not that of its manifest",
            detail=f"its SHA-256 is {found[:12]}…; the manifest says {said[:12]!r}…",
            hint="restore the file: evidence that contradicts itself is not converted",
        )


def _stem(path: Path) -> str:
    ending = next((one for one in (*reversed(JSON_LINES), PARQUET) if path.name.endswith(one)), path.suffix)
    return path.name.removesuffix(ending) if ending else path.name


def _copy(run: Path, part: Path, left_out: set[Path], copy: Callable[..., object]) -> None:
    """A directory with the files of another, but some."""
    part.mkdir()
    for path in sorted(run.rglob("*")):
        target = part / path.relative_to(run)
        if path.is_dir() and not path.is_symlink():
            target.mkdir()
        elif path not in left_out:
            if not (path.is_file() or path.is_symlink()):
                raise OSError(f"{str(path)!r} is no regular file")
            copy(path, target, follow_symlinks=False)


def _linked(source: Path, target: Path, *, follow_symlinks: bool) -> None:
    """Link a file that stays as it is; copy it where a file system has no links."""
    try:
        os.link(source, target, follow_symlinks=follow_symlinks)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=follow_symlinks)


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{what}")


def _must_be_free(target: Path, *others: Path) -> None:
    for path in others:
        if os.path.lexists(path):
            raise UsageError(
                f"{str(path)!r} is there already",
                detail="another conversion is under way, or one was killed",
                hint=f"once no other conversion runs, delete it: {str(target)!r} is complete without it",
            )


def _exchange(part: Path, target: Path, before: Path) -> None:
    """Put a directory in the place of another, which is deleted; an error leaves the one before in its place."""
    target.rename(before)
    try:
        part.rename(target)
    except BaseException:
        if not os.path.lexists(target):
            before.rename(target)
        raise
    shutil.rmtree(before)


@contextmanager
def _removed_after(part: Path) -> Iterator[None]:
    """Remove what is unfinished, unless it has got another name."""
    try:
        yield
    finally:
        if os.path.lexists(part):
            shutil.rmtree(part)


@contextmanager
def _explained(source: Path, target: Path) -> Iterator[None]:
    """Errors of files as errors of usage: the original is as it was."""
    kind = BrokenEvidence if source.is_dir() else BrokenTrace
    try:
        yield
    except TidemarkError:
        raise
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UsageError(
            f"{str(source)!r} could not be converted; it is as it was",
            detail=f"there is no space left in {str(target.parent)!r}" if is_full else str(error),
            hint="free some space, or name a folder on another disk with --out"
            if is_full
            else "name another folder with --out",
        ) from error
    except (ValueError, zstandard.ZstdError) as error:
        raise kind(
            f"{str(source)!r} cannot be converted",
            detail=str(error),
            hint="restore the file; it is as it was",
        ) from error
