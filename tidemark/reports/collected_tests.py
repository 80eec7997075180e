"""The folder of ``pytest --tidemark-report DIR``: for each test that ran a pipeline a folder with its run directories.

A folder has ``tidemark-test.json`` beside ``run-1``, ``run-2`` and so on::

    {"test": "tests/test_joins.py::test_orders[late]", "outcome": "failed"}

Free of pytest: the plugin calls it in each worker, and once more when all tests are over.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import msgspec

from tidemark.atomic_files import write_atomically

NAME = "tidemark-test.json"
RUNNING = "running"
"""The outcome of a test until it is over; it stays if the process of the test has died."""
LONGEST_NAME = 80


class CollectedTest(msgspec.Struct, frozen=True, kw_only=True):
    """A test by pytest's node id, and its outcome in pytest's words."""

    test: str
    outcome: str = RUNNING


def empty(folder: Path) -> None:
    """Make the folder, without what an earlier session has collected there; anything else in it is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if (path / NAME).is_file():
            shutil.rmtree(path)


def new_run(folder: Path, test: str) -> Path:
    """The path of the next run of a test, which is not there yet; its folder is."""
    mine = _folder_of(folder, test)
    if not (mine / NAME).is_file():
        mine.mkdir(parents=True, exist_ok=True)
        write_outcome(folder, CollectedTest(test=test))
    number = 1 + sum(path.name.startswith("run-") for path in mine.iterdir())
    return mine / f"run-{number}"


def write_outcome(folder: Path, test: CollectedTest) -> None:
    """Write what became of a test."""
    write_atomically(_folder_of(folder, test.test) / NAME, msgspec.json.encode(test))


def tests_below(folder: Path) -> dict[str, CollectedTest]:
    """The tests whose runs are in this folder, by the name of their own."""
    found = {}
    for path in sorted(folder.glob(f"*/{NAME}")):
        try:
            found[path.parent.name] = msgspec.json.decode(path.read_bytes(), type=CollectedTest)
        except (OSError, msgspec.DecodeError):
            continue  # written by something else: its runs are listed without it
    return found


def _folder_of(folder: Path, test: str) -> Path:
    name = re.sub(r"[^A-Za-z0-9]+", "-", test.rpartition("/")[2]).strip("-")[:LONGEST_NAME]
    return folder / f"{name}-{hashlib.sha256(test.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
