"""Which state stores have committed a batch, by the files of a checkpoint."""

from __future__ import annotations

import os

import pytest

from tidemark.sparkfiles.state_files import half_committed, snapshots_begun

STORES = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)


@pytest.fixture
def committed(tmp_path):
    def commit(partition, *files):
        for store, names in zip(STORES, files, strict=True):
            folder = tmp_path / "state" / partition / store
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                (folder / name).touch()
        return tmp_path

    return commit


@pytest.mark.parametrize("name", ["5.delta", "5.changelog", "5.zip", "5_1f0c-9b.changelog"])
def test_a_partition_is_half_committed_while_a_store_lacks_the_version_of_the_batch(committed, name):
    before, done = ["4.delta"], ["4.delta", name]
    committed("0/0", done, done, done, done)
    checkpoint = committed("0/1", done, done, before, before)

    assert half_committed(checkpoint, 4) == {
        "0/1": {STORES[0]: True, STORES[1]: True, STORES[2]: False, STORES[3]: False}
    }
    assert half_committed(checkpoint, 3) == {}
    assert half_committed(checkpoint, 5) == {}


def test_a_file_that_is_still_written_a_checksum_and_a_snapshot_are_no_commit(committed):
    others = [".5.delta.7d.tmp", ".5.delta.crc", "5.snapshot", "_metadata"]
    checkpoint = committed("0/0", *[others] * 4)

    assert half_committed(checkpoint, 4) == {}


def test_an_operator_with_one_store_is_never_half_committed(tmp_path):
    folder = tmp_path / "state" / "1" / "0"
    folder.mkdir(parents=True)
    (folder / "5.delta").touch()

    assert half_committed(tmp_path, 4) == {}
    assert half_committed(tmp_path / "nothing", 4) == {}


def test_a_snapshot_is_begun_until_it_is_renamed_and_only_in_the_batch_that_runs(committed):
    begun = [".5.snapshot.0b-1.TID7.tmp", ".7.delta.0b-1.TID8.tmp", "4.snapshot", ".4.snapshot.crc"]
    checkpoint = committed("0/1", begun, [".6_1f0c-9b.zip.0b-2.tmp"], [], [])
    (checkpoint / "offsets").mkdir()
    for batch, planned_s in ((3, 0), (4, 2**40)):
        (checkpoint / "offsets" / str(batch)).touch()
        os.utime(checkpoint / "offsets" / str(batch), (planned_s, planned_s))

    assert snapshots_begun(checkpoint, 3) == [f"0/1/{STORES[0]}/5", f"0/1/{STORES[1]}/6"]
    assert snapshots_begun(checkpoint, 4) == []
