"""The process that writes class archives: ``python -m tidemark.stack.install.cds_writer FOLDER``. Needs no stack.

The folder contains class lists and ``jobs.json``; it is removed at the end. Only one writer works at a time on a
machine, because it takes 1 GB. If Java writes no archive, its output stays beside the archives as a log.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

KEPT = 6
"""Archives to keep in the cache, of all installations; the least recently used are removed first."""
OLD_S = 86_400.0
"""Leftovers of this age are removed: their writer was killed, or their jars have changed."""
WRITE_S = 900.0
"""Calibration: 10 s for the broker's, 50 s for Spark's on an idle machine, several times that on a busy one."""


@dataclass(frozen=True)
class Job:
    """A command that writes a file, and the archive to rename that file to."""

    argv: Sequence[str]
    written: Path
    archive: Path


def write_jobs(folder: Path, jobs: Sequence[Job]) -> None:
    """Store the jobs where :func:`main` finds them."""
    (folder / "jobs.json").write_bytes(msgspec.json.encode(jobs, enc_hook=str))


def main(folder: Path) -> None:
    """Write the archives that are still missing, one after the other."""
    try:
        jobs = msgspec.json.decode(
            (folder / "jobs.json").read_bytes(), type=list[Job], dec_hook=lambda kind, text: kind(text)
        )
        with (folder.parent / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for job in jobs:
                if not job.archive.is_file():
                    _do(job)
            _tidy(folder.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _do(job: Job) -> None:
    output = job.archive.with_suffix(".log")
    with output.open("wb") as log:
        subprocess.run(
            job.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=WRITE_S, check=False
        )
    if job.written.is_file():
        job.written.replace(job.archive)
        output.unlink()


def _tidy(cache: Path) -> None:
    by_age = sorted(cache.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in by_age[KEPT:]:
        old.unlink(missing_ok=True)
    for left in (*cache.glob("writing-*"), *cache.glob("*.log")):
        if left.stat().st_mtime < datetime.now(UTC).timestamp() - OLD_S:
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
