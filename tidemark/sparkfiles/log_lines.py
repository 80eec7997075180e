"""The lines of Spark's event logs and of kept progress reports, wherever they lie.

Free of Spark. A file may be compressed with zstd, as event logs are by default since Spark 4.0; a folder stands for all
files in it, as event logs are rolled by default since then. The last line of a log whose program was killed may be cut:
it is left out.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import zstandard

from tidemark.errors import UsageError

EVENT = b'{"Event":'
"""How a line of an event log begins."""
PROGRESS_EVENT = b"StreamingQueryListener$QueryProgressEvent"
HEAD = 200
"""A line of an event log names its event within so many bytes."""
_MAGIC = b"\x28\xb5\x2f\xfd"


def log_files(path: Path) -> list[Path]:
    """The file, or the files of a folder with a log that was rolled."""
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not file.name.startswith((".", "appstatus_", "_"))
    )


def log_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, each with its number; a last line without an end is left out if it is no JSON.

    Raises ``UsageError`` if the file cannot be read.
    """
    number = 0
    try:
        with _opened(file) as opened:
            for number, line in enumerate(opened, 1):
                if not line.isspace() and (line.endswith(b"\n") or _is_whole(line)):
                    yield number, line
    except zstandard.ZstdError:
        return  # the program that wrote it was killed: its last frame has no end
    except OSError as error:
        raise broken_line(file, number + 1, str(error)) from error


def parsed_line(file: Path, number: int, line: bytes) -> dict[str, Any]:
    """The object of a line, empty if it is none; raises ``UsageError`` if it is no JSON."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise broken_line(file, number, str(error)) from error
    return found if isinstance(found, dict) else {}


def is_event_log(path: Path) -> bool:
    """Whether the first line of a file, or of a folder's first file, is an event of Spark."""
    files = [file for file in log_files(path) if file.is_file()]
    try:
        return bool(files) and next(log_lines(files[0]), (0, b""))[1].startswith(EVENT)
    except UsageError:
        return False


def broken_line(file: Path, number: int, why: str) -> UsageError:
    """The error of a line that cannot be read."""
    return UsageError(
        f"line {number} of {str(file)!r} cannot be read as a progress report of Spark",
        detail=why,
        hint="a line of JSON for each report, or an event log of Spark, plain or compressed with zstd",
    )


def _opened(file: Path) -> IO[bytes]:
    opened = file.open("rb")
    head = opened.read(len(_MAGIC))
    opened.seek(0)
    if head != _MAGIC:
        return opened
    content = zstandard.ZstdDecompressor().stream_reader(opened, read_across_frames=True, closefd=True)
    return io.BufferedReader(content)


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
