"""The files of a query's state: which stores have committed a batch, and which snapshots are being written.

A task of a join commits the stores of its partition one after the other, once it has given its last row to the sink
(``StreamingSymmetricHashJoinExec``, ``onOutputCompletion``). Batch N leaves version N+1 of each store:
``state/OPERATOR/PARTITION/STORE/N+1.delta`` on HDFS, ``.changelog`` or ``.zip`` on RocksDB, with an id behind the
version in state of checkpoint format 2. A query on column families has one store in a partition, never half there.

A snapshot of version N (``N.snapshot`` on HDFS, ``N.zip`` on RocksDB) is written under another name, which begins
with a dot, and renamed once it is whole (``CheckpointFileManager``); by a thread of the executor's, now and then
(``spark.sql.streaming.stateStore.maintenanceInterval``), or, on RocksDB without a changelog, by the task.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_COMMITTED = re.compile(r"(?P<version>\d+)(?:_[\w-]+)?\.(?:delta|changelog|zip)")

_BEGUN = re.compile(r"\.(?P<version>\d+)(?:_[\w-]+)?\.(?:snapshot|zip)\..+\.tmp")


def snapshots_begun(checkpoint: Path, batch: int) -> list[str]:
    """The snapshots that are being written since a batch was planned, as ``OPERATOR/PARTITION/STORE/VERSION``.

    One that a killed executor has left is older.
    """
    since_ns = (checkpoint / "offsets" / str(batch)).stat().st_mtime_ns
    found = []
    for file in checkpoint.glob("state/[0-9]*/[0-9]*/*/.*.tmp"):
        with suppress(FileNotFoundError):  # it has just been renamed
            if (begun := _BEGUN.fullmatch(file.name)) and file.stat().st_mtime_ns >= since_ns:
                found.append("/".join([*file.parts[-4:-1], begun["version"]]))
    return sorted(found)


def half_committed(checkpoint: Path, batch: int) -> dict[str, dict[str, bool]]:
    """The partitions of which some stores have committed a batch and others have not, as ``OPERATOR/PARTITION``.

    Of each its stores by name, and whether they have.
    """
    found = {}
    for partition in checkpoint.glob("state/[0-9]*/[0-9]*"):
        stores = {
            store.name: _has_version(store, batch + 1)
            for store in sorted(partition.iterdir())
            if store.is_dir()
        }
        if len(set(stores.values())) > 1:
            found[f"{partition.parent.name}/{partition.name}"] = stores
    return dict(sorted(found.items()))


def _has_version(store: Path, version: int) -> bool:
    files = (_COMMITTED.fullmatch(file.name) for file in store.iterdir())
    return any(file is not None and int(file["version"]) == version for file in files)
