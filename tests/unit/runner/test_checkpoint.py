"""Reading a query's checkpoint folder."""

from __future__ import annotations

import pytest

from tidemark.errors import UsageError
from tidemark.sparkfiles.checkpoint import Checkpoint, PlannedBatch

POLICY = '{"batchWatermarkMs":0,"conf":{"policy":"%s"}}'


def plan(folder, batch, watermark_ms, *sources):
    (folder / "offsets").mkdir(exist_ok=True)
    metadata = f'{{"batchWatermarkMs":{watermark_ms},"batchTimestampMs":5,"conf":{{}}}}'
    (folder / "offsets" / str(batch)).write_text("\n".join(["v1", metadata, *sources]))


def commit(folder, batch, next_watermark_ms):
    (folder / "commits").mkdir(exist_ok=True)
    (folder / "commits" / str(batch)).write_text(f'v1\n{{"nextBatchWatermarkMs":{next_watermark_ms}}}')


def test_a_folder_that_is_not_there_yet_has_no_batches(tmp_path):
    checkpoint = Checkpoint(tmp_path / "later")

    assert (checkpoint.planned(), checkpoint.committed(), checkpoint.running()) == ([], [], None)


def test_a_batch_has_its_watermark_and_the_end_offsets_of_every_source(tmp_path):
    plan(tmp_path, 0, 1_000, '{"left":{"0":7,"1":8}}', '{"right":{"0":9}}')

    wanted = PlannedBatch(0, 1_000, {"left": {"0": 7, "1": 8}, "right": {"0": 9}})
    assert Checkpoint(tmp_path).batch(0) == wanted


def test_a_source_without_data_is_a_dash(tmp_path):
    plan(tmp_path, 0, 0, "-", '{"right":{"0":9}}')

    assert Checkpoint(tmp_path).batch(0).end_offsets == {"right": {"0": 9}}


def test_version_2_of_the_log_names_its_sources(tmp_path):
    (tmp_path / "offsets").mkdir()
    lines = ["v2", '{"batchWatermarkMs":1000}', '0:{"left":{"0":7}}', 'clicks:{"right":{"0":9}}', "2:-"]
    (tmp_path / "offsets" / "3").write_text("\n".join(lines))

    planned = Checkpoint(tmp_path).batch(3)

    assert planned == PlannedBatch(3, 1_000, {"left": {"0": 7}, "right": {"0": 9}})
    assert planned.has_read({"left": {0: 7}, "right": {0: 9}})
    assert not planned.has_read({"left": {0: 8}})


def test_a_source_of_another_kind_has_no_end_offsets(tmp_path):
    plan(tmp_path, 0, 0, '{"logOffset":7}', "42", '{"right":{"0":9}}')

    assert Checkpoint(tmp_path).batch(0).end_offsets == {"right": {"0": 9}}


def test_an_unknown_version_of_the_log_is_an_error_with_its_file(tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v7\n{"batchWatermarkMs":0}\n[]')

    with pytest.raises(UsageError, match="offsets/0") as raised:
        Checkpoint(tmp_path).batch(0)
    assert raised.value.detail == "its first line is 'v7'; the versions known are v1, v2"


@pytest.mark.parametrize("text", ["", "v1", "v7", 'v1\n{"batchWatermarkMs":0}\n{"left":{"0"'])
def test_an_incomplete_batch_is_one_that_a_wait_reads_again(tmp_path, text):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(text)

    with pytest.raises(ValueError):
        Checkpoint(tmp_path).batch(0)


@pytest.mark.parametrize("newest", ["", "v1", 'v1\n{"batchWaterm', 'v1\n{"batchWatermarkMs":0}', None])
def test_the_settings_are_those_of_the_last_batch_that_can_be_read(tmp_path, newest):
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for batch, policy in ((9, "min"), (10, "max")):
        (offsets / str(batch)).write_text(f"v1\n{POLICY % policy}")
    if newest is not None:
        (offsets / "11").write_text(newest)
    (offsets / ".12.a1b2.tmp").write_text(f"v1\n{POLICY % 'min'}")

    assert Checkpoint(tmp_path).conf() == {"policy": "max"}


def test_the_next_batch_that_is_planned_is_counted_from_the_last_one_of_a_trimmed_log(tmp_path):
    assert Checkpoint(tmp_path).next_planned() == 0
    for batch in (40, 41):
        plan(tmp_path, batch, 0, '{"left":{"0":1}}')
    commit(tmp_path, 40, 0)

    assert Checkpoint(tmp_path).next_planned() == 42


def test_a_planned_batch_runs_until_it_is_committed(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    plan(tmp_path, 0, 0, '{"left":{"0":1}}')
    assert checkpoint.running() == 0
    commit(tmp_path, 0, 2_000)
    assert checkpoint.running() is None
    assert checkpoint.next_watermark_ms(0) == 2_000


def test_checksums_and_unfinished_files_are_no_batches_and_ten_comes_after_nine(tmp_path):
    for batch in (10, 9):
        plan(tmp_path, batch, 0, '{"left":{"0":1}}')
    (tmp_path / "offsets" / ".9.crc").write_text("")
    (tmp_path / "offsets" / ".11.a1b2.tmp").write_text("")

    assert Checkpoint(tmp_path).planned() == [9, 10]
