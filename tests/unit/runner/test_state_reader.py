"""State format and provider from the checkpoint, and the batches after which the state is read."""

from __future__ import annotations

import json

import pytest

from tidemark.formats.manifest import StateInfo
from tidemark.runner.state_reader import chosen, what_ran
from tidemark.sparkfiles.checkpoint import Checkpoint

FORMAT = "spark.sql.streaming.join.stateFormatVersion"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture
def checkpoint(tmp_path):
    def write(conf):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / "0").write_text(f"v1\n{json.dumps({'batchWatermarkMs': 0, 'conf': conf})}")
        return Checkpoint(tmp_path)

    return write


@pytest.mark.parametrize(
    ("committed", "batches"),
    [([], []), ([0], [0]), ([0, 1, 2], [0, 1, 2]), (list(range(10)), [0, 3, 6, 9])],
)
def test_the_last_batch_is_read_and_others_evenly_spaced_before_it(committed, batches):
    assert chosen(committed) == batches


def test_a_batch_with_too_many_rows_is_skipped():
    assert chosen(range(5), frozenset({4})) == [0, 1, 2, 3]


def test_the_requested_format_is_reported_beside_the_actual_one(checkpoint):
    ran = checkpoint({FORMAT: "2", "spark.sql.streaming.stateStore.providerClass": PROVIDER})

    assert what_ran(ran, (f"{FORMAT}=4", "spark.x=1"), StateInfo(batches=[0])) == StateInfo(
        format=2, provider="RocksDBStateStoreProvider", changelog=False, asked_format=4, batches=[0]
    )


def test_a_checkpoint_without_a_format_has_the_oldest_one(checkpoint):
    info = what_ran(checkpoint({"spark.sql.shuffle.partitions": "2"}), (), StateInfo())
    assert (info.format, info.asked_format, info.provider) == (1, None, None)


def test_changelogs_are_detected_by_their_files(checkpoint, tmp_path):
    ran = checkpoint({FORMAT: "3"})
    (tmp_path / "state" / "0" / "1").mkdir(parents=True)
    (tmp_path / "state" / "0" / "1" / "1.changelog").touch()

    assert what_ran(ran, (), StateInfo()).changelog


@pytest.mark.parametrize("text", ["", "v1", "v1\n{", "v1\n[]", 'v1\n{"conf": 7}', "v1\nnull"])
def test_an_unreadable_checkpoint_gives_no_state_info(tmp_path, text):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(text)

    assert Checkpoint(tmp_path).conf() == {}
    assert what_ran(Checkpoint(tmp_path), (), StateInfo()) is None
