"""The log of Spark's file sink: which files belong to the output, and of which batch each is.

``_spark_metadata/N`` is written when batch N is complete: a line with the version (``v1``), then a line of JSON for
each file. Every tenth batch, by default, is written as ``N.compact``, with the files of all batches before it as well,
and Spark deletes older logs in time (``FileStreamSinkLog`` and ``CompactibleFileStreamLog`` of Spark 4.2). A compact
log does not say of which batch a file is. That is known of a file that an older log names as well, and of those that
are new in a compact log, if the logs of all batches since the compact log before it are there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tidemark.errors import BrokenTable
from tidemark.sparkfiles.table_files import (
    SINK_LOG,
    TableFile,
    TableFiles,
    find_file,
    gone,
    partition_columns,
)

VERSION = "v1"
COMPACT = ".compact"
_is_log = re.compile(rf"(0|[1-9]\d{{0,17}})({re.escape(COMPACT)})?", re.ASCII).fullmatch
"""A log's name; files that are being written, and checksums of Hadoop's, begin with a dot."""


class _Entry(msgspec.Struct):
    path: str
    action: str = "add"


@dataclass
class _Log:
    """All logs of a sink that are there, in the order of their batches."""

    compact: dict[int, list[_Entry]] = field(default_factory=dict)
    plain: dict[int, list[_Entry]] = field(default_factory=dict)

    def in_order(self) -> list[tuple[int, bool]]:
        """Batch, and whether its log is compact."""
        return sorted([*((batch, False) for batch in self.plain), *((batch, True) for batch in self.compact)])


def read_sink_files(folder: Path) -> TableFiles:
    """The files of the table; raises ``BrokenTable``."""
    log = _read_log(folder / SINK_LOG)
    begin = max(log.compact, default=-1)
    _must_be_contiguous(folder, log, begin)
    batches = _batches(log)
    live, dropped = _live(log, begin)
    found = TableFiles()
    for uri in live:
        path = find_file(folder, uri)
        if path is None:
            raise gone(folder, SINK_LOG, uri)
        inside = path.relative_to(folder)
        columns = partition_columns(inside.parts[:-1])
        file = TableFile(path=path, name=inside.as_posix(), columns=columns, batch=batches[uri])
        found.files.append(file)
    _add_removals(found, batches, live, dropped)
    unknown = sum(file.batch is None for file in found.files)
    if unknown:
        found.notes.append(
            f"the batch of {unknown} of {len(live)} files is not known: Spark deleted the logs of their batches, and "
            f"{begin}{COMPACT} does not say it"
        )
    return found


def last_batch(folder: Path) -> int:
    """The last batch that the log of a table has; -1 if it has none."""
    names = (_is_log(path.name) for path in (folder / SINK_LOG).iterdir())
    return max((int(name[1]) for name in names if name is not None), default=-1)


def _read_log(folder: Path) -> _Log:
    log = _Log()
    for path in folder.iterdir():
        name = _is_log(path.name)
        if name is None:
            continue
        kind = log.compact if name[2] else log.plain
        try:
            kind[int(name[1])] = _read_entries(path)
        except FileNotFoundError:
            continue  # a query that runs has just deleted it; if it still counts, the log has a gap now
    return log


def _read_entries(path: Path) -> list[_Entry]:
    try:
        first, *lines = path.read_bytes().splitlines() or [b""]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _damaged(path, str(error)) from error
    version = first.decode(errors="backslashreplace")
    if version != VERSION:
        if not version:
            raise _damaged(path, "it is empty, or cut")
        raise BrokenTable(
            f"{str(path)!r} has the log version {version[:20]!r}",
            detail=f"{VERSION} is what Spark's file sink writes, and all that is read",
            hint="name the output of Spark's file sink",
        )
    entries = []
    for number, line in enumerate(lines, 2):
        try:
            entry = msgspec.json.decode(line, type=_Entry)
        except ValueError as error:
            raise _damaged(
                path, f"line {number} ends with {line[-40:].decode(errors='replace')!r}: {error}"
            ) from error
        if entry.action not in ("add", "delete"):
            raise _damaged(path, f"line {number} has the action {entry.action[:20]!r}")
        entries.append(entry)
    return entries


def _damaged(path: Path, why: str) -> BrokenTable:
    return BrokenTable(
        f"{str(path)!r} is no log of Spark's file sink",
        detail=why,
        hint="a log that was cut while it was copied: copy it again; Spark itself could not read this one either",
    )


def _must_be_contiguous(folder: Path, log: _Log, begin: int) -> None:
    """Spark reads the last compact log and all after it; so what is missing there is missing from the table."""
    last = max(log.plain, default=begin)
    for batch in range(begin + 1, last + 1):
        if batch not in log.plain:
            raise BrokenTable(
                f"the log of {str(folder)!r} has no batch {batch}",
                detail=f"{SINK_LOG} has batch {last}, and no compact log from {batch} on",
                hint="a copy must include the whole log",
            )


def _batches(log: _Log) -> dict[str, int | None]:
    """The batch of each file that any log names."""
    batches: dict[str, int | None] = {}
    whole_to = -1
    """The last batch up to which, since the last compact log, all logs were there."""
    for batch, is_compact in log.in_order():
        entries = log.compact[batch] if is_compact else log.plain[batch]
        is_known = not is_compact or whole_to == batch - 1
        for entry in entries:
            if entry.action == "add" and (not is_compact or entry.path not in batches):
                batches[entry.path] = batch if is_known else None
        if is_compact or whole_to == batch - 1:
            whole_to = batch
    return batches


def _live(log: _Log, begin: int) -> tuple[dict[str, None], int]:
    """The files that count, in the order of the log, and how many it says were deleted."""
    live: dict[str, None] = {}
    dropped = 0
    for batch, is_compact in log.in_order():
        if batch < begin or (batch == begin and not is_compact):
            continue
        for entry in log.compact[batch] if is_compact else log.plain[batch]:
            if entry.action == "add":
                live[entry.path] = None
            elif entry.path in live:
                del live[entry.path]
                dropped += 1
    return live, dropped


def _add_removals(
    found: TableFiles, batches: dict[str, int | None], live: dict[str, None], dropped: int
) -> None:
    if dropped:
        found.removals.append(f"the log says of {dropped} files that they were deleted")
    left = len(batches) - len(live) - dropped
    if left > 0:
        found.removals.append(
            f"{left} files are in older logs and in none that counts: the sink's option `retention` dropped them"
        )
