"""Writing a file so that a reader sees all of it or nothing: into a name of its own, then renamed."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4


def write_atomically(path: Path, content: bytes, *, modified_s: int | None = None) -> None:
    """Write a file's content. Threads and processes may write the same file at once: the last one remains.

    ``modified_s`` sets the modification time, in seconds since the epoch; ``None`` leaves it.
    """
    unfinished = unfinished_path(path)
    try:
        unfinished.write_bytes(content)
        if modified_s is not None:
            os.utime(unfinished, (modified_s, modified_s))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def unfinished_path(path: Path) -> Path:
    """A path beside ``path`` that no other writer uses, in this process or in another."""
    return path.with_name(f"{path.name}.{uuid4().hex[:12]}.part")
