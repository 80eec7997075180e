"""When the archives of a stack that are missing are written: once, after its first streaming query has done a batch.

The archives themselves, and what they are for: ``components/cds.py``. The process that writes them: ``cds_writer.py``.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tidemark import paths
from tidemark.processes import base_environment, spawn
from tidemark.stack.components import cds, spark_settings
from tidemark.stack.install.cds_writer import Job, write_jobs
from tidemark.stack.registry import StackRecord, StateFolder

Wrap = Callable[[Sequence[str], Path], list[str]]
"""A command, and the folder it needs to see, made into one that runs where the stack's JVMs do."""
SETTLE_S = 30.0
"""Calibration: from its first batch to its end a short run in cold JVMs took 24 s on a busy machine."""
_BATCH = b"StreamingQueryListener$QueryProgressEvent"
"""In an event log: a streaming query has done a batch."""
_ID = re.compile(r" id: \d+")


class Writer:
    """Starts, once for a stack, who writes the archives that are missing; asked often, never waits.

    For a stack that runs no query none are written: they would be without the classes of streaming, Kafka and Connect,
    which are worth most, and it would stay so, because one that is there is not written again. ``wrap`` makes of a
    command the one that runs it where the stack's JVMs run (``Runtime.wrap``).
    """

    def __init__(self, wrap: Wrap) -> None:
        self._wrap = wrap
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
                _write(state, record, self._wrap)
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


def _write(state: StateFolder, record: StackRecord, wrap: Wrap) -> None:
    """Have archives written of the classes that JVMs have loaded so far, by a process that outlives the stack.

    It runs like any other: one that gave way to the stack's JVMs would let them load classes one by one for as long as
    they are busy. One minute of a core for all, once.
    """
    try:
        groups = [group for group in cds.missing(record) if _lists(state, group)]
    except OSError:
        return  # Java or PySpark was taken away
    if not groups:
        return
    place = Path(tempfile.mkdtemp(prefix="writing-", dir=cds.folder()))
    jobs = []
    for group in groups:
        classes, written = place / f"{group}.lst", place / f"{group}.jsa"
        classes.write_text("".join(sorted(_names(_lists(state, group)))), encoding="utf-8")
        argv = _command(
            record, group, [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={written}"]
        )
        jobs.append(Job(wrap(argv, cds.folder()), written, cds.archive_of(record, group)))
    write_jobs(place, jobs)
    spawn(
        [sys.executable, "-P", "-m", "tidemark.stack.install.cds_writer", str(place)],
        log=state.path / "logs" / "classes.log",
        cwd=cds.folder(),
        env=base_environment(PYTHONPATH=str(paths.PACKAGE.parent)),
    )


def _command(record: StackRecord, group: str, files: Sequence[str]) -> list[str]:
    modules = spark_settings.SPARK_MODULES if group == "spark" else ()
    return [
        record.java,
        "-Xshare:dump",
        *spark_settings.DAEMON_JVM,
        *modules,
        *files,
        "-cp",
        cds.class_path(record, group),
    ]


def _lists(state: StateFolder, group: str) -> list[Path]:
    """What the group's JVMs have noted; nothing where they map an archive."""
    return sorted((state.path / "classes" / group).glob("*.lst"))


def _names(lists: Iterable[Path]) -> set[str]:
    """The lines of class lists that hold for every JVM of a group: not those of classes from passing loaders."""
    lines: set[str] = set()
    for path in lists:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            if line.endswith("\n") and not line.startswith("#") and " source: " not in line:
                lines.add(_ID.sub("", line))
    return lines
