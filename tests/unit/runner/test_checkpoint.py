"""Reading a query's checkpoint folder."""

from __future__ import annotations

from tidemark.sparkfiles.checkpoint import Checkpoint, PlannedBatch


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
