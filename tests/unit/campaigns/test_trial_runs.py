"""Trials on a stack that fails: what is an outcome, what is tried again, and what ends the search."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.unit.campaigns.test_shrunk_cases import EVIDENCE, LOST, SPARK, semi_case
from tidemark.campaigns.shrink import trial_runs
from tidemark.campaigns.shrink.predicted_bug import PredictedBug
from tidemark.campaigns.shrink.shrinkable import Shrinkable
from tidemark.campaigns.shrink.trial_journal import JournalledTrial, TrialJournal
from tidemark.campaigns.shrink.trial_runs import FAILURES, TrialRuns
from tidemark.errors import DeadlineExceeded, PipelineFailed, TestbedError, TidemarkError
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge


class Stack:
    """A stack that does nothing; ``gone`` are the components that a repair finds dead, each a name or an error."""

    spec = SimpleNamespace(backend="local")

    def __init__(self, *gone):
        self.gone = list(gone)
        self.ended = []

    def start(self, _name):
        pass

    def start_driver(self, name):
        return SimpleNamespace(name=name)

    def stop(self, name):
        self.ended.append(name)

    def repair(self):
        one = self.gone.pop(0) if self.gone else None
        if isinstance(one, TidemarkError):
            raise one
        return [one] if one else []


def runs_of(stack, folder, monkeypatch, *outcomes, faults=()):
    """Trials whose runs end with these outcomes, one after the other: a verdict, or an error."""
    left = list(outcomes)

    def run(*_arguments, **_options):
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return SimpleNamespace(verdict=outcome)

    red = SimpleNamespace(signature=LOST, faults=faults, is_unread=False, python=None)
    runs = TrialRuns(stack, red, folder, PredictedBug(LOST, SPARK))
    monkeypatch.setattr(trial_runs, "run_pipeline", run)
    monkeypatch.setattr(runs, "_on_warm_driver", lambda candidate: run(candidate).verdict)
    return runs


@pytest.fixture
def valid():
    return judge(RunDirectory(EVIDENCE / "inner"))


ONE = Shrinkable(semi_case(7))
UNDER_FAULTS = Shrinkable(semi_case(7), ("driver@written",))


def test_a_query_that_fails_is_green_and_a_testbed_that_fails_is_no_outcome(tmp_path, monkeypatch, valid):
    late = DeadlineExceeded("timed out after 120 s waiting for an answer")
    runs = runs_of(Stack(), tmp_path, monkeypatch, valid, PipelineFailed("the query failed"), late)

    assert [runs.run(ONE) for _ in range(3)] == [False, False, None]
    assert "timed out" in (runs.trial / "failure.txt").read_text()


def test_a_query_that_fails_because_a_component_had_died_is_no_outcome(tmp_path, monkeypatch):
    runs = runs_of(Stack("broker"), tmp_path, monkeypatch, *[PipelineFailed("the query failed")] * 2)

    assert runs.run(ONE) is None
    assert runs.run(ONE) is False


def test_a_testbed_that_fails_again_and_again_ends_the_search(tmp_path, monkeypatch):
    runs = runs_of(Stack(), tmp_path, monkeypatch, *[TestbedError("lost")] * FAILURES)

    assert [runs.run(ONE) for _ in range(FAILURES - 1)] == [None] * (FAILURES - 1)
    with pytest.raises(TestbedError, match="lost"):
        runs.run(ONE)


def test_ctrl_c_under_faults_is_not_swallowed_by_a_repair_that_fails(tmp_path, monkeypatch):
    stack = Stack(TestbedError("the broker does not start"))
    runs = runs_of(stack, tmp_path, monkeypatch, KeyboardInterrupt(), faults=("driver@written",))

    with pytest.raises(KeyboardInterrupt):
        runs.run(UNDER_FAULTS)


def test_the_driver_of_a_search_is_stopped_though_its_programs_do_not_end(tmp_path, monkeypatch):
    stack = Stack()
    runs = runs_of(stack, tmp_path, monkeypatch, faults=("driver@written",))

    def does_not_end():
        raise TestbedError("it does not end")

    with pytest.raises(TestbedError, match="it does not end"), runs:
        runs._of_warm.callback(does_not_end)
    assert len(stack.ended) == 1


@pytest.mark.parametrize(
    ("end", "greens"),
    [
        (b'{"digest":"a","red":fal', 0),
        (b'{"digest":"a","red":false,"seconds":0.5}', 1),
    ],
)
def test_a_journal_whose_last_line_was_cut_off_is_gone_on_with(end, greens, tmp_path):
    path = tmp_path / "trials.jsonl"
    TrialJournal(path, "this", resume=False).add(JournalledTrial("a", True, 0.5))
    with path.open("ab") as file:
        file.write(end)

    journal = TrialJournal(path, "this", resume=True)
    assert journal.outcomes == {"a": [True, *[False] * greens]}
    journal.add(JournalledTrial("b", True, 0.5))

    assert TrialJournal(path, "this", resume=True).outcomes == {**journal.outcomes, "b": [True]}
