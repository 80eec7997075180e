"""JSON Lines files, plain or compressed (``.zst``), written whole or not at all.

Free of any particular format: ``trace`` and ``evidence`` are the formats.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar, cast

import msgspec
import zstandard

_BLOCK_BYTES = 1 << 20

T = TypeVar("T")


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of lines for reading, decompressing it if its name ends in ``.zst``."""
    if path.suffix == ".zst":
        return io.BufferedReader(zstandard.open(path, "rb"), _BLOCK_BYTES)
    return path.open("rb")


def read_blocks(file: IO[bytes], decoder: msgspec.json.Decoder[T]) -> Iterator[list[T]]:
    """The decoded lines of a file, many at a time, which is much faster than one by one; blank lines are left out.

    A line that cannot be decoded raises ``msgspec.DecodeError`` once all lines before it were given.
    """
    while block := file.read(_BLOCK_BYTES):
        block += file.readline()
        try:
            items = decoder.decode_lines(block)
            if len(items) == block.count(b"\n") + (not block.endswith(b"\n")):
                yield items
                continue
        except msgspec.DecodeError:
            pass  # found again below, line by line
        items = []
        for line in block.split(b"\n"):
            if line and not line.isspace():
                try:
                    items.append(decoder.decode(line))
                except msgspec.DecodeError:
                    yield items
                    raise
        yield items


def line_number(path: Path, item: int) -> int:
    """The number of the line that holds a file's ``item``-th item; both count from 1, items leave out blank lines."""
    with open_lines(path) as file:
        numbers = (number for number, line in enumerate(file, 1) if not line.isspace())
        return next(islice(numbers, item - 1, None), 0)


def write_lines(path: Path, lines: Iterable[bytes]) -> str:
    """Write lines, compressed if ``path`` ends in ``.zst``; return the SHA-256 of the uncompressed bytes."""
    digest = hashlib.sha256()
    part = path.with_name(path.name + ".part")
    try:
        raw = zstandard.open(part, "wb") if path.suffix == ".zst" else part.open("wb")
        with cast("IO[bytes]", raw) as out:
            block = bytearray()
            for line in lines:
                block += line
                block += b"\n"
                if len(block) >= _BLOCK_BYTES:
                    digest.update(block)
                    out.write(bytes(block))
                    block.clear()
            digest.update(block)
            out.write(bytes(block))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return digest.hexdigest()
