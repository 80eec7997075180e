"""Starts the writing of a stack's missing class archives: once, after its first streaming query has finished a batch.

``components/cds.py`` explains the archives; ``cds_writer.py`` is the process that writes them.
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
"""Turns a command, and the folder that it needs, into one that runs where the stack's JVMs run (``Runtime.wrap``)."""
SETTLE_S = 30.0
"""Calibration: a short run in cold JVMs took 24 s from its first batch to its end on a busy machine."""
_BATCH = b"StreamingQueryListener$QueryProgressEvent"
"""The event that a streaming query has finished a batch, in an event log."""
_ID = re.compile(r" id: \d+")


class ArchiveTrigger:
    """Starts the writer of missing archives once per stack; polled often, never waits.

    A stack that runs no query gets no archives. They would lack the classes of streaming, Kafka and Connect, which
    save most, and they would stay incomplete, because an existing archive is not written again.
    """

    def __init__(self, wrap: Wrap) -> None:
        self._wrap = wrap
        self._first_batch = _FirstBatch()
        self._seen_at: float | None = None
        self._done = False

    def poll(self, state: StateFolder, record: StackRecord) -> None:
        """Start the writer if it is time; mostly does nothing."""
        if self._done or not record.ready:
            return
        if self._seen_at is not None:
            if time.monotonic() > self._seen_at + SETTLE_S:
                self._done = True
                _write(state, record, self._wrap)
        elif self._first_batch.seen(state.path / "event-logs"):
            self._seen_at = time.monotonic()


class _FirstBatch:
    """Whether a query has finished a batch, from the event logs of the drivers; reads only what was appended."""

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
            return b""  # its driver has just ended and renamed it
        self._read[path] = max(
            0, begin + len(added) - len(_BATCH)
        )  # the text may end in the middle of the event name
        return added


def _write(state: StateFolder, record: StackRecord, wrap: Wrap) -> None:
    """Start a process, which outlives the stack, that writes archives of the classes loaded so far.

    It takes one minute of a core, once. It has normal priority: with a lower one a busy stack would delay it, and go on
    without archives.
    """
    try:
        groups = [group for group in cds.missing(record) if _lists(state, group)]
    except OSError:
        return  # Java or PySpark was removed
    if not groups:
        return
    folder = Path(tempfile.mkdtemp(prefix="writing-", dir=cds.folder()))
    jobs = []
    for group in groups:
        classes, written = folder / f"{group}.lst", folder / f"{group}.jsa"
        classes.write_text("".join(sorted(_names(_lists(state, group)))), encoding="utf-8")
        argv = _command(
            record, group, [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={written}"]
        )
        jobs.append(Job(wrap(argv, cds.folder()), written, cds.archive_of(record, group)))
    write_jobs(folder, jobs)
    spawn(
        [sys.executable, "-P", "-m", "tidemark.stack.install.cds_writer", str(folder)],
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
    """The class lists of a group's JVMs; empty where they map an archive."""
    return sorted((state.path / "classes" / group).glob("*.lst"))


def _names(lists: Iterable[Path]) -> set[str]:
    """The lines of class lists that apply to every JVM of a group: without classes of other class loaders."""
    lines: set[str] = set()
    for path in lists:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            if line.endswith("\n") and not line.startswith("#") and " source: " not in line:
                lines.add(_ID.sub("", line))
    return lines
