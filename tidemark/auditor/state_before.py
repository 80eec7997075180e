"""Reads the state that the batches before a trimmed log have left, with Spark's state data source.

The checkpoint is not given to Spark: what Spark needs of it is laid out in a temporary folder, logs of that one batch
as copies, files of the state as links. So nothing can be written into the checkpoint, deleted from it, or added to it.
A program of its own (``pipelines.checkpoint_state``) has the session; it and its JVM are gone when the answer is there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tidemark import paths
from tidemark.errors import TidemarkError
from tidemark.formats.contract import Contract
from tidemark.processes import Conversation
from tidemark.stack.install.toolchain import check_java, find_java

READ_S = 600.0
"""Calibration: a state of a hundred rows takes 20 s on two busy cores, most of it for the session."""
END_S = 20.0
"""Calibration: a JVM that is asked to end takes about a second."""
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_NUMBER = re.compile(r"\.?(\d+)(?:[._]|$)")


@dataclass(frozen=True)
class StateWanted:
    """The state of a join after a batch; rows with a time after ``until_ms`` are left out."""

    checkpoint: Path
    contract: Contract
    state_format: int
    batch: int
    until_ms: int


def must_have_java() -> None:
    """Raise ``JavaError`` where the state could not be read."""
    check_java(find_java())


def write_state_before(wanted: StateWanted, path: Path) -> str | None:
    """Write the rows as ``state.jsonl``; why that is not possible, or ``None``."""
    with tempfile.TemporaryDirectory(prefix="tidemark-state-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            lay_out(wanted.checkpoint, folder / "checkpoint", wanted.batch)
        except OSError as error:
            return f"its files cannot be read: {error}"
        (folder / "scratch").mkdir()
        asked = {
            "checkpoint": str(folder / "checkpoint"),
            "contract": wanted.contract.to_json(),
            "scratch": str(folder / "scratch"),
            "conf": _settings(folder / "checkpoint" / "commits" / str(wanted.batch)),
            "format": wanted.state_format,
            "batches": [wanted.batch],
            "until_us": wanted.until_ms * 1000,
            "path": str(path.resolve()),
        }
        try:
            with _reader(asked, folder) as reader:
                problem = reader.answer(READ_S, "the state").get("problem")
                return None if problem is None else str(problem)
        except TidemarkError as error:
            return "; ".join([error.message, *error.detail.strip().splitlines()[-1:]])


def is_read(name: str, batch: int) -> bool:
    """Whether Spark may read a file of the state for the state after a batch, which is version ``batch + 1``."""
    number = _NUMBER.match(name)
    return number is None or int(number[1]) <= batch + 1


def lay_out(checkpoint: Path, folder: Path, batch: int) -> None:
    """Lay out what Spark needs to read the state after a batch. Raises ``OSError`` for what is not there."""
    folder.mkdir()
    shutil.copyfile(checkpoint / "metadata", folder / "metadata")
    for log in ("offsets", "commits"):
        (folder / log).mkdir()
        entry = checkpoint / log / str(batch)
        if log == "offsets" or entry.exists():
            shutil.copyfile(entry, folder / log / str(batch))
    state = (checkpoint / "state").resolve(strict=True)
    for where, _, names in os.walk(state):
        copied = folder / "state" / Path(where).relative_to(state)
        copied.mkdir(parents=True)
        for name in names:
            if is_read(name, batch):
                (copied / name).symlink_to(Path(where, name))


def _settings(commit: Path) -> dict[str, str]:
    """What the session must know of the checkpoint, which no log of offsets says: whether its files have unique ids."""
    try:
        has_ids = bool(json.loads(commit.read_text(encoding="utf-8").splitlines()[1]).get("stateUniqueIds"))
    except (OSError, ValueError, LookupError, AttributeError):
        has_ids = False
    return {CHECKPOINT_FORMAT: "2"} if has_ids else {}


@contextmanager
def _reader(asked: dict[str, object], folder: Path) -> Iterator[Conversation]:
    """The program that reads it; gone at exit, and its JVM with it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(paths.payload()), str(paths.PACKAGE.parent)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "TMPDIR": str(folder / "scratch"),
        "TZ": "UTC",
    }
    argv = [sys.executable, "-P", "-m", "pipelines.checkpoint_state", json.dumps(asked)]
    reader = Conversation(argv, log=folder / "reader.log", env=environment, cwd=folder)
    reader.name = "the reader of the state"
    try:
        yield reader
    finally:
        family = _family(reader.pid)
        reader.close()
        _, alive = psutil.wait_procs(family, timeout=END_S)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=END_S)


def _family(pid: int) -> list[psutil.Process]:
    """The processes that a process has started."""
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found
