"""State format and provider from the checkpoint, and the batches after which the state is read."""

from __future__ import annotations

import json

import pytest

from tidemark.formats.manifest import StateInfo
from tidemark.runner.state_reader import ROWS, chosen, read_state, what_ran
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


class Program:
    """A query's program that has no state to show, and the batches that it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, command, _timeout_s):
        self.asked += json.loads(command.removeprefix("state "))["batches"]
        return {}


@pytest.fixture
def committed(checkpoint, tmp_path):
    """A checkpoint with these batches."""

    def commit(*batches):
        (tmp_path / "commits").mkdir()
        for batch in batches:
            (tmp_path / "commits" / str(batch)).touch()
        return checkpoint({FORMAT: "2"})

    return commit


def report(batch, run, *operators):
    """A progress report; ``operators`` are the rows of state of each."""
    return {"batchId": batch, "runId": run, "stateOperators": [{"numRowsTotal": rows} for rows in operators]}


def test_a_batch_of_a_driver_that_was_killed_is_skipped_by_its_own_reports(committed, tmp_path):
    program = Program()
    reports = [report(0, "first", 5), report(1, "first", ROWS, 1), report(2, "second", ROWS)]

    info = read_state(program, committed(0, 1, 2), iter(reports), tmp_path)

    assert program.asked == info.batches == [0, 2]
    assert (info.note, info.problem) == (None, None)


def test_a_state_that_is_too_large_after_every_batch_is_not_read_and_that_is_the_note(committed, tmp_path):
    program = Program()

    info = read_state(
        program, committed(0, 1), [report(batch, "run", ROWS + 1) for batch in (0, 1)], tmp_path
    )

    assert (program.asked, info.batches, info.problem) == ([], [], None)
    assert info.note == "after each committed batch it had more than 50,000 rows"


def test_of_a_query_that_committed_nothing_no_state_is_called_too_large(committed, tmp_path):
    assert read_state(Program(), committed(), [], tmp_path) == StateInfo()


def test_the_requested_format_is_reported_beside_the_actual_one(checkpoint):
    ran = checkpoint({FORMAT: "2", "spark.sql.streaming.stateStore.providerClass": PROVIDER})

    assert what_ran(ran, (f"{FORMAT}=4", "spark.x=1"), StateInfo(batches=[0])) == StateInfo(
        format=2, provider="RocksDBStateStoreProvider", changelog=False, asked_format=4, batches=[0]
    )


def test_a_checkpoint_without_a_format_has_the_oldest_one(checkpoint):
    info = what_ran(checkpoint({"spark.sql.shuffle.partitions": "2"}), (), StateInfo())
    assert (info.format, info.asked_format, info.provider) == (1, None, None)


def test_the_format_of_a_trimmed_checkpoint_is_that_of_its_last_batch(checkpoint, tmp_path):
    ran = checkpoint({FORMAT: "2"})
    (tmp_path / "offsets" / "0").rename(tmp_path / "offsets" / "120")

    assert what_ran(ran, (), StateInfo(batches=[120])) == StateInfo(format=2, changelog=False, batches=[120])


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
