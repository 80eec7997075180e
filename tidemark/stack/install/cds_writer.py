"""The process that writes class archives, without a stack: ``python -m tidemark.stack.install.cds_writer FOLDER``.

In the folder are the class lists and ``jobs.json``. One writes at a time on a machine: while it lasts it takes 1 GB.
What Java said stays beside the archives where it has written none; the folder goes in any case.
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
"""Archives in the cache, of all installations; the least recently used go first."""
OLD_S = 86_400.0
"""What is left for so long belongs to nobody: whoever wrote it was killed, or its jars are others now."""
WRITE_S = 900.0
"""Calibration: 10 s for the broker's, 50 s for Spark's on an idle machine, several times that on a busy one."""


@dataclass(frozen=True)
class Job:
    """A command that writes a file, and the archive that it is to become."""

    argv: Sequence[str]
    written: Path
    archive: Path


def write_jobs(folder: Path, jobs: Sequence[Job]) -> None:
    """Put them where :func:`main` finds them."""
    (folder / "jobs.json").write_bytes(msgspec.json.encode(jobs, enc_hook=str))


def main(folder: Path) -> None:
    """Write what is still missing, one after the other."""
    try:
        jobs = msgspec.json.decode(
            (folder / "jobs.json").read_bytes(), type=list[Job], dec_hook=lambda kind, text: kind(text)
        )
        with (folder.parent / "lock").open("wb") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            for job in jobs:
                if not job.archive.is_file():
                    _do(job)
            _tidy(folder.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _do(job: Job) -> None:
    said = job.archive.with_suffix(".log")
    with said.open("wb") as log:
        subprocess.run(
            job.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=WRITE_S, check=False
        )
    if job.written.is_file():
        job.written.replace(job.archive)
        said.unlink()


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
