"""A query whose checkpoint is damaged between two of its runs: a left outer join on a warm driver, slice by slice.

Every batch has rows to write: pairs in the batch of a slice, NULL rows in the one without input that follows. What is
damaged can be put back, or is behind a mount, for root ignores the modes of files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.campaigns.case import Case
from tidemark.campaigns.random_cases import ARRIVAL_MS, flush_of, make_contract
from tidemark.campaigns.warm_driver import CaseRun
from tidemark.errors import PipelineFailed
from tidemark.formats.contract import Bound, JoinKind
from tidemark.formats.events import write_time
from tidemark.formats.trace import Record
from tidemark.kafka import client as kafka
from tidemark.sparkfiles.checkpoint import Checkpoint

CONTRACT = make_contract("damaged", JoinKind.LEFT_OUTER, Bound(-3_000, 4_000))
SLICES = 3
SLICE_S = 10
ROWS = {"lefts": {"both": 0, "left": 0, "apart": 0}, "rights": {"both": 1, "right": 2, "apart": 5}}
"""Topic -> key -> seconds after the slice's beginning; what is ``apart`` is a second too far apart to match."""
SIZE = "4m"
PAGE = 4096


def case(sink: str) -> Case:
    """What is run: slice by slice, each of them a start of the query."""
    records = tuple(
        _record(topic, f"{key}-{number}", SLICE_S * (number + 1) + after_s, number)
        for number in range(SLICES)
        for topic, keys in ROWS.items()
        for key, after_s in keys.items()
    )
    goals = ("rows_joined", "null_row_after_eviction")
    flush = flush_of(CONTRACT)
    return Case("damaged", CONTRACT, records, flush, mode="stepped", sink=sink, goals=goals)


def _record(topic: str, key: str, at_s: int, number: int) -> Record:
    value = {"id": f"{topic}-{key}", "k0": key, "t": write_time(at_s * 1_000_000)}
    return Record(
        topic=topic, value=json.dumps(value), arrival_ms=ARRIVAL_MS, partition=number % 2, slice=number
    )


def begin(run: CaseRun) -> Checkpoint:
    """The first two slices, each to its end."""
    for number in range(2):
        run.publish("trace", number)
        run.run_to_its_end()
    assert run.checkpoint.running() is None
    return run.checkpoint


def finish(run: CaseRun, *, published: bool = False) -> None:
    """The last slice, and the flush."""
    if not published:
        run.publish("trace", SLICES - 1)
    run.run_to_its_end()
    run.publish("flush", 0)
    run.run_to_its_end()


def failure_of(run: CaseRun) -> PipelineFailed:
    """What the query, started now, fails with."""
    with pytest.raises(PipelineFailed) as failed:
        run.run_to_its_end()
    return failed.value


def forget(checkpoint: Checkpoint, log: str, batch: int) -> None:
    """Remove an entry of ``offsets`` or ``commits``, as if it had never been written."""
    remove(checkpoint.path / log / str(batch))


def roll_back(checkpoint: Checkpoint, batches: int) -> None:
    """Forget that the last batches were planned, and that they were committed."""
    for batch in checkpoint.planned()[-batches:]:
        forget(checkpoint, "offsets", batch)
        forget(checkpoint, "commits", batch)


def newest_state(checkpoint: Checkpoint) -> Path:
    """The newest file of one store of one partition: what the last batch changed in the rows of the left side."""
    store = checkpoint.path / "state" / "0" / "0" / "left-keyWithIndexToValue"
    return max(store.glob("*.delta"), key=lambda file: int(file.stem))


def cut(file: Path) -> None:
    """Leave half of a file."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def remove(file: Path) -> None:
    """Remove a file and its checksum."""
    file.unlink()
    without_checksum(file)


def without_checksum(file: Path) -> None:
    """Remove the checksum of a file alone, as whoever copies visible files does."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@contextmanager
def saved(checkpoint: Checkpoint, *names: str) -> Iterator[None]:
    """What is done in the block to the checkpoint, also by queries, is undone at its end; or to these folders of it."""
    copy = checkpoint.path.with_name("saved")
    shutil.copytree(checkpoint.path, copy)
    yield
    for name in names or ["."]:
        shutil.rmtree(checkpoint.path / name)
        shutil.copytree(copy / name, checkpoint.path / name)
    shutil.rmtree(copy)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody can write below the folder, for the length of the block."""
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,bind,ro", str(folder))
        yield
    finally:
        _unmount(folder)


@contextmanager
def full_disk(folder: Path, *, free_pages: int) -> Iterator[None]:
    """The folder is on a disk of its own, with room for so many small files; at the end it is back on the large one.

    What was written there comes along.
    """
    there = folder.with_name("small-disk")
    there.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(there))
    try:
        shutil.copytree(folder, there, dirs_exist_ok=True)
        room = shutil.disk_usage(there).free - free_pages * PAGE
        ballast = there / ".ballast"
        ballast.write_bytes(bytes(room))
        _mount("--bind", str(there), str(folder))
        try:
            yield
        finally:
            _unmount(folder)
        ballast.unlink()
        shutil.rmtree(folder)
        shutil.copytree(there, folder)
    finally:
        _unmount(there)
        there.rmdir()


def lose_records(bootstrap: str, topic: str) -> None:
    """Delete every record that is in a topic, as a broker does when its retention is over."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    ends = kafka.end_offsets(bootstrap, [topic])[topic]
    every = [TopicPartition(topic, partition, end) for partition, end in ends.items()]
    for answer in admin.delete_records(every).values():
        answer.result()
