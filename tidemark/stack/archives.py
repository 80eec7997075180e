"""Class archives (CDS): a JVM that maps its classes from one starts in half the time, with half the work.

The first stack of an installation notes which classes its JVMs load; a while after its first streaming query has done
a batch its keeper has Java write them, at the lowest priority, into archives in the user's cache. Every later stack
maps those. An archive for another Java, other jars or another PySpark has another name, and one that Java does not
like is ignored by Java: all this is for speed only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from tidemark import project
from tidemark.process import ProcessId, base_environment, spawn
from tidemark.stack import settings
from tidemark.stack.state import TOKEN_VARIABLE, StackRecord, StateFolder

GROUPS = ("broker", "spark")
_KEPT = 6
"""Archives in the cache, of all installations; the least recently used go first. 60 to 210 MB each."""
SETTLE_S = 30.0
"""Calibration: from its first batch to its end a short run in cold JVMs took 24 s on a busy machine."""
_BATCH = b"StreamingQueryListener$QueryProgressEvent"
"""In an event log: a streaming query has done a batch."""
_MAPPED = ("-Xlog:cds=off", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""At its own address: moved elsewhere, every page of it would be this JVM's own memory (100 MB more each)."""
_ID = re.compile(r" id: \d+")


def options(state: StateFolder, record: StackRecord, group: str, name: str) -> list[str]:
    """JVM options of a part: to map the archive, or, where there is none yet, to note its classes."""
    archive = archive_of(record, group)
    if archive.is_file():
        os.utime(archive)  # the cache drops what was not used for longest
        return [f"-XX:SharedArchiveFile={archive}", *_MAPPED]
    lists = state.path / "classes" / group
    lists.mkdir(parents=True, exist_ok=True)
    return [f"-XX:DumpLoadedClassList={lists / name}.lst"]


def folder() -> Path:
    """The part of the user's cache that holds the archives; containers see it under the same path."""
    path = project.cache_dir() / "classes"
    path.mkdir(parents=True, exist_ok=True)
    return path


def archive_of(record: StackRecord, group: str) -> Path:
    """Where a stack's archive of a group is, or would be: its name tells all that it depends on."""
    key = hashlib.sha256()
    for part in (*_installation(record, group), class_path(record, group), settings.DAEMON_JVM):
        key.update(f"{part}\n".encode())
    return folder() / f"{group}-{key.hexdigest()[:16]}.jsa"


def _installation(record: StackRecord, group: str) -> Iterator[object]:
    """Which Java, and which jars: those of an image, or those of this machine."""
    if record.image:
        yield record.image
        return
    java = os.path.realpath(record.java)
    yield java
    yield os.stat(java).st_mtime_ns
    if group == "spark":
        yield os.stat(Path(record.spark_home, "jars")).st_mtime_ns


def class_path(record: StackRecord, group: str) -> str:
    """The class path of a group's JVMs."""
    return ":".join(record.broker_jars) if group == "broker" else record.spark_class_path


def missing(record: StackRecord) -> list[str]:
    """The groups that have no archive."""
    return [group for group in GROUPS if not archive_of(record, group).is_file()]


class Writer:
    """Writes the archives that are missing, one after the other, in a process of its own; asked often, never waits.

    A stack that runs no query writes none: its archive would be without the classes of streaming, Kafka and Connect,
    which are worth most, and it would stay so, because one that is there is not written again. One writer on a machine
    at a time: while it lasts (half a minute) it takes 1 GB.
    """

    def __init__(self) -> None:
        self._first_batch = _FirstBatch()
        self._seen_at: float | None = None
        self._tried: set[str] = set()
        self._writing: ProcessId | None = None
        self._group = ""
        self._turn: IO[bytes] | None = None

    def look(self, state: StateFolder, record: StackRecord) -> None:
        """Begin, go on, or do nothing."""
        if not record.ready:
            return
        if self._writing is not None:
            if not self._writing.alive:
                self._writing = None
                _publish(state, record, self._group)
                self._end_turn()
        elif self._seen_at is not None:
            if time.monotonic() > self._seen_at + SETTLE_S:
                self._begin(state, record)
        elif self._first_batch.seen(state.path / "event-logs"):
            self._seen_at = time.monotonic()

    def _begin(self, state: StateFolder, record: StackRecord) -> None:
        try:
            groups = [group for group in missing(record) if group not in self._tried and _lists(state, group)]
        except OSError:
            return  # Java or PySpark was taken away
        if groups and self._take_turn():
            self._group = groups[0]
            self._tried.add(self._group)
            self._writing = _write(state, record, self._group)

    def _take_turn(self) -> bool:
        self._turn = (folder() / "lock").open("wb")
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._end_turn()
            return False
        return True

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.close()
            self._turn = None


class _FirstBatch:
    """Whether a query of a stack has done a batch, by the event logs of its drivers. Reads what was added to them."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def seen(self, event_logs: Path) -> bool:
        return any(_BATCH in self._added(path) for path in event_logs.glob("*/app-*"))

    def _added(self, path: Path) -> bytes:
        begin = self._read.get(path, 0)
        try:
            with path.open("rb") as log:
                log.seek(begin)
                added = log.read()
        except FileNotFoundError:
            return b""  # its driver has just ended, and renamed it
        self._read[path] = max(0, begin + len(added) - len(_BATCH))  # what is torn is read again
        return added


def _write(state: StateFolder, record: StackRecord, group: str) -> ProcessId:
    """Have Java write an archive of the classes that a group's JVMs have loaded so far."""
    place = state.path / "classes"
    merged = place / f"{group}.lst"
    merged.write_text("".join(sorted(_names(_lists(state, group)))), encoding="utf-8")
    modules = settings.SPARK_MODULES if group == "spark" else ()
    argv = ["nice", "-n", "19", record.java, "-Xshare:dump", *settings.DAEMON_JVM, *modules]
    argv += [f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={_unpublished(state, group)}"]
    argv += ["-cp", class_path(record, group)]
    if record.image:
        from tidemark.stack.compose import run_in_image

        argv = run_in_image(state, record.image, argv)
    return spawn(
        argv,
        log=state.path / "logs" / f"classes-{group}.log",
        cwd=place,
        env=base_environment(**{TOKEN_VARIABLE: state.token() or ""}),
    )


def _publish(state: StateFolder, record: StackRecord, group: str) -> None:
    """Put an archive that was written into the cache; without one there is only a log."""
    written, archive = _unpublished(state, group), archive_of(record, group)
    if not written.is_file():
        return
    part = archive.with_suffix(f".{os.getpid()}")
    shutil.move(written, part)  # the cache may be on another disk
    part.replace(archive)
    by_age = sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in by_age[_KEPT:]:
        old.unlink(missing_ok=True)


def _lists(state: StateFolder, group: str) -> list[Path]:
    """What the group's JVMs have noted; nothing where they map an archive."""
    return sorted((state.path / "classes" / group).glob("*.lst"))


def _unpublished(state: StateFolder, group: str) -> Path:
    return state.path / "classes" / f"{group}.jsa"


def _names(lists: Iterable[Path]) -> set[str]:
    """The lines of class lists that hold for every JVM of a group: not those of classes from passing loaders."""
    lines: set[str] = set()
    for path in lists:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            if line.endswith("\n") and not line.startswith("#") and " source: " not in line:
                lines.add(_ID.sub("", line))
    return lines
