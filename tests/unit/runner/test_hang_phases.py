"""A query that does not start, whose output does not end, or that does not stop hung, as one that commits nothing.

``tests/chaos/test_hung_query.py`` has them on a real stack.
"""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tests.unit.runner.test_checkpoint import commit, plan
from tidemark.errors import (
    DeadlineExceeded,
    DrainHung,
    QueryHung,
    StartHung,
    StopHung,
    TestbedError,
    TidemarkError,
)
from tidemark.formats.liveness import HangPhase
from tidemark.runner.hung_query import HangRecorder, hang_of
from tidemark.runner.live_run import LiveRun
from tidemark.runner.query_runs import Query
from tidemark.runner.run_options import RunOptions
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Driver

HERE = Driver("driver", "sc://here", "app-1", None)
SILENT = DeadlineExceeded("it does not answer", detail="the end of its log")


class Program:
    """A query's program that answers what it knows, and is silent otherwise."""

    has_ended = False

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        pass

    def ask(self, command, timeout_s, *, unless):
        unless()
        self.asked.append((command, timeout_s))
        if command not in self.answers:
            raise SILENT
        return self.answers[command]


def stack(folder, *, is_up=lambda: True):
    """A stack whose driver lives for as long as ``is_up`` says."""

    def driver(_name):
        if not is_up():
            raise TestbedError("the driver does not run")
        return HERE

    return SimpleNamespace(
        driver=driver, register_session=lambda _id, _name: nullcontext(), state_dir=folder,
        thread_stacks=lambda name: {name: "Full thread dump"},
    )  # fmt: skip


def query(folder, program, **more):
    return Query(
        stack(folder, **more), HERE, Checkpoint(folder / "checkpoint"), lambda _driver, _session: program
    )


@pytest.fixture
def collector():
    """What the recorder needs of a collector."""
    notes, stopped = [], []
    return SimpleNamespace(
        hang=None, notes=notes, note=notes.append, stops=stopped, stopped=stopped.append, states=[],
        read_state=lambda: collector_state(notes),
    )  # fmt: skip


def collector_state(notes):
    notes.append("the state was read")


def recorder(folder, collector, **options):
    said = []
    asked = RunOptions("left_outer", say=said.append, **options)
    return said, HangRecorder(stack(folder), Checkpoint(folder / "checkpoint"), folder, collector, asked)


@pytest.mark.parametrize(
    ("command", "hung", "what"),
    [
        ("plan", StartHung, "the plan of the query"),
        ("start", StartHung, "the query to start"),
        ("status", QueryHung, "an answer of the driver"),
        ("explain", StopHung, "the plan of the query"),
        ("stop", StopHung, "the query to stop"),
    ],
)
def test_a_query_whose_driver_lives_and_that_does_not_answer_hung_in_the_phase_of_the_question(
    command, hung, what, tmp_path
):
    with query(tmp_path, Program()) as asked, pytest.raises(QueryHung) as raised:
        asked.ask(command, 7.0)

    error = raised.value
    assert type(error) is hung
    assert (error.waited_for, error.is_answering, error.detail) == (what, False, "the end of its log")
    assert error.message == f"{hung.said}: timed out after 7 s waiting for {what}"


def test_its_state_is_no_such_question(tmp_path):
    with query(tmp_path, Program()) as asked, pytest.raises(DeadlineExceeded) as raised:
        asked.ask("state {}", 7.0)

    assert raised.value is SILENT


def test_a_query_is_given_as_long_to_start_as_the_run_says(tmp_path):
    program = Program(plan={}, start={"query_id": "q", "app_id": "app-1"})
    asked = query(tmp_path, program)
    asked.start_s = 300.0

    with asked:
        asked.plan()
        asked.start()

    assert program.asked == [("plan", 300.0), ("start", 300.0)]


@pytest.mark.parametrize("hung", [StartHung, DrainHung, StopHung])
def test_a_query_hung_in_its_start_or_end_since_that_was_awaited_whatever_it_has_committed(hung, tmp_path):
    plan(tmp_path, 0, 0, '{"left":{"0":1}}')
    commit(tmp_path, 0, 0)
    now = datetime.now(UTC)

    hang = hang_of(hung("its end", 90.0, hint="none"), Checkpoint(tmp_path), now, 300.0)

    assert hang is not None
    assert (hang.phase, hang.committed) == (HangPhase(hung.phase), 0)
    since, seen = datetime.fromisoformat(hang.since_utc), datetime.fromisoformat(hang.seen_utc)
    assert seen - since == timedelta(seconds=90)
    assert hang.owes_batches == (hung is StartHung)


def test_the_first_hang_is_kept_with_its_stacks_and_what_follows_is_a_note(tmp_path, collector):
    said, hangs = recorder(tmp_path, collector)

    hangs.keep(DrainHung("its output to end", 60.0, detail="position 3, end 4", hint="none"), "driver")
    hangs.keep(StopHung("the query to stop", 120.0, hint="none"), "driver")

    assert collector.hang.phase is HangPhase.DRAIN
    assert collector.hang.stacks == ["stacks/driver.txt"]
    assert (tmp_path / "stacks" / "driver.txt").read_text() == "Full thread dump"
    assert said[0].startswith("the query hung: its output was not complete from")
    assert collector.notes == [
        "of the query that hung: position 3, end 4",
        "of the query that hung, later: the query did not stop: timed out after 120 s waiting for the query to stop",
    ]


def test_a_query_that_is_silent_is_not_asked_to_stop(tmp_path, collector):
    _, hangs = recorder(tmp_path, collector)
    program = Program(stop={"progress": []})

    with query(tmp_path, program) as asked:
        hangs.stop(StartHung("the query to start", 120.0, hint="none", is_answering=False), asked)
        assert (program.asked, len(collector.notes)) == ([], 1)
        hangs.stop(QueryHung("a batch", 120.0, hint="none"), asked)

    assert collector.stops == [{"progress": []}]


class Ending(LiveRun):
    """The end of a run, without what comes before."""

    def __init__(self, **options):
        self._options = RunOptions("left_outer", **options)


@pytest.mark.parametrize(
    ("program", "phase", "is_read"),
    [(Program(stop={"progress": []}), None, True), (Program(), HangPhase.STOP, False)],
)
def test_of_a_query_that_does_not_stop_the_state_is_not_read(program, phase, is_read, tmp_path, collector):
    _, hangs = recorder(tmp_path, collector)

    with query(tmp_path, program) as asked:
        Ending(hung_after_s=200.0)._stop(collector, asked, hangs)

    assert program.asked == [("stop", 200.0)]
    assert (None if collector.hang is None else collector.hang.phase) is phase
    assert ("the state was read" in collector.notes) is is_read


def test_a_query_whose_output_does_not_end_hung_and_is_stopped_as_any_other(tmp_path, collector):
    _, hangs = recorder(tmp_path, collector)

    def never_ends():
        raise DrainHung("its output to end", 60.0, hint="none")

    collector.drain = never_ends
    program = Program(stop={"progress": []})
    with query(tmp_path, program) as asked:
        Ending()._drain(collector, asked, hangs)
        Ending()._stop(collector, asked, hangs)

    assert collector.hang.phase is HangPhase.DRAIN
    assert "the state was read" in collector.notes


def test_an_output_that_cannot_be_read_at_all_is_an_error_of_the_testbed(tmp_path, collector):
    _, hangs = recorder(tmp_path, collector)

    def unreachable():
        raise TestbedError("no broker answers")

    collector.drain = unreachable
    with query(tmp_path, Program()) as asked, pytest.raises(TidemarkError, match="no broker answers"):
        Ending()._drain(collector, asked, hangs)

    assert collector.hang is None
