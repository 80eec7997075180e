"""JSON Lines files, plain or compressed (``.zst``). A file is written completely or not at all.

This module knows lines and blocks of JSON, not what they mean: ``trace`` and ``evidence`` define that.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from itertools import islice
from os.path import lexists
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar, cast

import msgspec
import zstandard

from tidemark.atomic_files import unfinished_path

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES = 1 << 20
"""How much is read or written at once."""
_COMPRESSED_BYTES = 1 << 16

T = TypeVar("T")


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of lines for reading, decompressing it if its name ends in ``.zst``.

    Reading a compressed file raises ``zstandard.ZstdError`` where it is damaged, and where it ends too early. Raises
    ``OSError`` if the path is no regular file: reading a pipe would wait for somebody to write.
    """
    if lexists(path) and not path.is_file():
        raise OSError(f"{str(path)!r} is no regular file")
    if path.suffix == ".zst":
        return io.BufferedReader(_Frames(path.open("rb")), BLOCK_BYTES)
    return path.open("rb")


def count_records(path: Path) -> int:
    """The number of lines that are not blank; raises ``OSError`` and ``zstandard.ZstdError``."""
    with open_lines(path) as file:
        return sum(not line.isspace() for line in file)


def read_blocks(file: IO[bytes], decoder: msgspec.json.Decoder[T]) -> Iterator[list[T]]:
    """The decoded lines of a file in blocks, which is much faster than one by one; blank lines are skipped.

    A line that cannot be decoded raises ``msgspec.DecodeError``, after all lines before it have been yielded.
    """
    while block := file.read(BLOCK_BYTES):
        block += file.readline()
        try:
            items = decoder.decode_lines(block)
            if len(items) == block.count(b"\n") + (not block.endswith(b"\n")):
                yield items
                continue
        except (msgspec.DecodeError, RecursionError):
            pass  # the loop below finds the line
        items = []
        for line in block.split(b"\n"):
            if line and not line.isspace():
                try:
                    items.append(decoder.decode(line))
                except msgspec.DecodeError:
                    yield items
                    raise
                except RecursionError as error:
                    yield items
                    raise msgspec.DecodeError("it is nested too deeply") from error
        yield items


class _Frames(io.RawIOBase):
    """The content of a file of zstd frames, one after another.

    The readers of ``zstandard`` take the end of the file for the end of a frame that was cut off, and read no more than
    the first frame unless told to. This one raises ``zstandard.ZstdError`` for a file that does not end with a frame.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_within_frame = True  # an empty file has no frame
        self._compressed = b""
        self._content = memoryview(b"")

    def readable(self) -> bool:
        """Always: this is a file for reading."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill ``buffer`` with content; the number of bytes, 0 at the end."""
        with memoryview(buffer) as view:
            while not self._content and self._advance():
                pass
            length = min(len(view), len(self._content))
            view[:length] = self._content[:length]
        self._content = self._content[length:]
        return length

    def _advance(self) -> bool:
        """Decompress the next piece of the file; False at its end."""
        compressed = self._compressed or self._file.read(_COMPRESSED_BYTES)
        if not compressed:
            if self._is_within_frame:
                raise zstandard.ZstdError("the file ends within a zstd frame: its end is missing")
            return False
        if not self._is_within_frame:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._content = memoryview(self._frame.decompress(compressed))
        self._is_within_frame = not self._frame.eof
        self._compressed = self._frame.unused_data if self._frame.eof else b""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def line_number(path: Path, item: int) -> int:
    """The line number of a file's ``item``-th item. Both count from 1; a blank line is a line and no item."""
    with open_lines(path) as file:
        numbers = (number for number, line in enumerate(file, 1) if not line.isspace())
        return next(islice(numbers, item - 1, None), 0)


def write_lines(path: Path, lines: Iterable[bytes]) -> str:
    """Write lines, compressed if ``path`` ends in ``.zst``; return the SHA-256 of the uncompressed bytes."""
    digest = hashlib.sha256()
    part = unfinished_path(path)
    try:
        raw = zstandard.open(part, "wb") if path.suffix == ".zst" else part.open("wb")
        with cast("IO[bytes]", raw) as out:
            block = bytearray()
            for line in lines:
                block += line
                block += b"\n"
                if len(block) >= BLOCK_BYTES:
                    digest.update(block)
                    out.write(bytes(block))
                    block.clear()
            digest.update(block)
            out.write(bytes(block))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return digest.hexdigest()
