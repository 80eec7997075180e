"""Class archives (CDS): a JVM that maps its classes from one starts in half the time, with half the work.

The first stack of an installation notes which classes its JVMs load; a while after its first streaming query has done
a batch its keeper has archives of them written into the user's cache (``archiving.py``), also if the stack ends
meanwhile. JVMs that are started then map them. An archive for another Java, other jars or another PySpark has another
name, and one that Java does not like is ignored by Java: all this is for speed only.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tidemark import project
from tidemark.process import base_environment, spawn
from tidemark.stack import settings
from tidemark.stack.archiving import Job, write_jobs
from tidemark.stack.state import StackRecord, StateFolder

GROUPS = ("spark", "broker")
"""Of what there are archives, the one first that is worth more: 60 to 230 MB each."""
SETTLE_S = 30.0
"""Calibration: from its first batch to its end a short run in cold JVMs took 24 s on a busy machine."""
_BATCH = b"StreamingQueryListener$QueryProgressEvent"
"""In an event log: a streaming query has done a batch."""
MAPPED = ("-Xlog:cds=off", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""At its own address: moved elsewhere, every page of it would be this JVM's own memory (100 MB more each)."""
_ID = re.compile(r" id: \d+")


def options(state: StateFolder, record: StackRecord, group: str, name: str) -> list[str]:
    """JVM options of a part: to map the archive, or, where there is none yet, to note its classes."""
    archive = archive_of(record, group)
    if archive.is_file():
        os.utime(archive)  # the cache drops what was not used for longest
        return [f"-XX:SharedArchiveFile={archive}", *MAPPED]
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
    """Starts, once for a stack, who writes the archives that are missing; asked often, never waits.

    For a stack that runs no query none are written: they would be without the classes of streaming, Kafka and Connect,
    which are worth most, and it would stay so, because one that is there is not written again.
    """

    def __init__(self) -> None:
        self._first_batch = _FirstBatch()
        self._seen_at: float | None = None
        self._done = False

    def look(self, state: StateFolder, record: StackRecord) -> None:
        """Do what there is to do now, mostly nothing."""
        if self._done or not record.ready:
            return
        if self._seen_at is not None:
            if time.monotonic() > self._seen_at + SETTLE_S:
                self._done = True
                _write(state, record)
        elif self._first_batch.seen(state.path / "event-logs"):
            self._seen_at = time.monotonic()


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


def _write(state: StateFolder, record: StackRecord) -> None:
    """Have archives written of the classes that JVMs have loaded so far, by a process that outlives the stack.

    It runs like any other: one that gave way to the stack's JVMs would let them load classes one by one for as long as
    they are busy. One minute of a core for all, once.
    """
    try:
        groups = [group for group in missing(record) if _lists(state, group)]
    except OSError:
        return  # Java or PySpark was taken away
    if not groups:
        return
    place = Path(tempfile.mkdtemp(prefix="writing-", dir=folder()))
    jobs = []
    for group in groups:
        classes, written = place / f"{group}.lst", place / f"{group}.jsa"
        classes.write_text("".join(sorted(_names(_lists(state, group)))), encoding="utf-8")
        argv = _command(
            state, record, group, [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={written}"]
        )
        jobs.append(Job(argv, written, archive_of(record, group)))
    write_jobs(place, jobs)
    spawn(
        [sys.executable, "-P", "-m", "tidemark.stack.archiving", str(place)],
        log=state.path / "logs" / "classes.log",
        cwd=folder(),
        env=base_environment(PYTHONPATH=str(project.PACKAGE.parent)),
    )


def _command(state: StateFolder, record: StackRecord, group: str, files: Sequence[str]) -> list[str]:
    modules = settings.SPARK_MODULES if group == "spark" else ()
    argv = [
        record.java,
        "-Xshare:dump",
        *settings.DAEMON_JVM,
        *modules,
        *files,
        "-cp",
        class_path(record, group),
    ]
    if not record.image:
        return argv
    from tidemark.stack.compose import run_in_image

    return run_in_image(state, record.image, argv, folder())


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
