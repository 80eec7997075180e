"""Where a secret may be seen: command lines, environments of processes, and files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

WATCH_S = 0.05


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """The command lines and environments of all processes that run meanwhile, as one text each."""
    seen: set[str] = set()
    known: dict[psutil.Process, list[str]] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(WATCH_S):
            for process in psutil.process_iter():
                try:
                    line = process.cmdline()
                    if known.get(process) == line:  # an environment is given once, with the command line
                        continue
                    seen.add(" ".join([*line, *process.environ().values()]))
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
                known[process] = line

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def files_with(secrets: Sequence[str], folder: Path, apart: str = "") -> list[str]:
    """The files below a folder that have a secret; folders named ``apart`` are left out."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and apart not in path.parts
        and any(secret.encode() in path.read_bytes() for secret in secrets)
    ]
