"""Class archives (CDS): a JVM that maps its classes from one starts in half the time, with half the work.

The first stack of an installation notes which classes its JVMs load; a while later its keeper has Java write them,
at the lowest priority, into archives in the user's cache. Every later stack maps those. An archive for another Java or
another PySpark has another name, and one that Java does not like is ignored by Java: all this is for speed only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from tidemark import project
from tidemark.process import ProcessId, base_environment, spawn
from tidemark.stack import settings
from tidemark.stack.state import TOKEN_VARIABLE, StackRecord, StateFolder

GROUPS = ("broker", "spark")
_KEPT = 6
"""Archives in the cache, of all installations; the least recently used go first. 60 to 210 MB each."""
SETTLE_S = 30.0
"""Calibration: by then the first query has run, whose classes are worth most."""
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


def archive_of(record: StackRecord, group: str) -> Path:
    """Where a stack's archive of a group is, or would be: its name tells all that it depends on."""
    java = os.path.realpath(record.java)
    key = hashlib.sha256()
    for part in (java, os.stat(java).st_mtime_ns, class_path(record, group), settings.DAEMON_JVM):
        key.update(f"{part}\n".encode())
    if group == "spark":
        key.update(str(os.stat(Path(record.spark_home, "jars")).st_mtime_ns).encode())
    return project.cache_dir() / "classes" / f"{group}-{key.hexdigest()[:16]}.jsa"


def class_path(record: StackRecord, group: str) -> str:
    """The class path of a group's JVMs. Spark's is what Spark gives its executors, or they could not share."""
    if group == "broker":
        return ":".join(record.broker_jars)
    home = Path(record.spark_home)
    slf4j = next(iter(sorted(home.glob("jars/slf4j-api-*.jar"))), home / "jars")
    return f"{home}/conf:{slf4j}:{home}/jars/*"


def missing(record: StackRecord) -> list[str]:
    """The groups that have no archive."""
    return [group for group in GROUPS if not archive_of(record, group).is_file()]


class Writer:
    """Writes the archives that are missing, one after the other, in a process of its own; asked often, never waits."""

    def __init__(self) -> None:
        self._ready_at: float | None = None
        self._todo: list[str] | None = None
        self._writing: ProcessId | None = None

    def look(self, state: StateFolder, record: StackRecord) -> None:
        """Begin, go on, or do nothing."""
        now = time.monotonic()
        if not record.ready or (self._writing is not None and self._writing.alive):
            return
        if self._ready_at is None:
            self._ready_at = now
        if self._todo is None:
            self._todo = []  # if the look fails, it is not made again
            self._todo = missing(record)
        if self._writing is not None:
            _publish(state, record, self._todo.pop(0))
            self._writing = None
        if self._todo and now > self._ready_at + SETTLE_S:
            self._writing = _write(state, record, self._todo[0])


def _write(state: StateFolder, record: StackRecord, group: str) -> ProcessId:
    """Have Java write an archive of the classes that a group's JVMs have loaded so far."""
    folder = state.path / "classes"
    merged = folder / f"{group}.lst"
    merged.write_text("".join(sorted(_names((folder / group).glob("*.lst")))), encoding="utf-8")
    modules = settings.SPARK_MODULES if group == "spark" else ()
    argv = ["nice", "-n", "19", record.java, "-Xshare:dump", "-Xmx256m", *settings.DAEMON_JVM, *modules]
    argv += [f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={_unpublished(state, group)}"]
    argv += ["-cp", class_path(record, group)]
    return spawn(
        argv,
        log=state.path / "logs" / f"classes-{group}.log",
        cwd=folder,
        env=base_environment(**{TOKEN_VARIABLE: state.token() or ""}),
    )


def _publish(state: StateFolder, record: StackRecord, group: str) -> None:
    """Put an archive that was written into the cache; without one there is only a log."""
    written, archive = _unpublished(state, group), archive_of(record, group)
    if not written.is_file():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(f".{os.getpid()}")
    shutil.move(written, part)  # the cache may be on another disk
    part.replace(archive)
    by_age = sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in by_age[_KEPT:]:
        old.unlink(missing_ok=True)


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
