"""JSON Lines files, plain or compressed (``.zst``), written whole or not at all.

Free of any particular format: ``trace`` and ``evidence`` are the formats.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

import zstandard

_BLOCK_BYTES = 1 << 20


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of lines for reading, decompressing it if its name ends in ``.zst``."""
    if path.suffix == ".zst":
        return io.BufferedReader(zstandard.open(path, "rb"), _BLOCK_BYTES)
    return path.open("rb")


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
