"""A throttled process runs and stops by turns; an error resumes it."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from tidemark import waiting
from tidemark.errors import TestbedError
from tidemark.faults import commit_points
from tidemark.faults.commit_points import RunningBatch
from tidemark.formats.faults import CommitPoint

BATCH = 3


class Query:
    """One whose driver does a step each time that it runs, from a batch that is planned to one that is committed.

    A number among ``steps`` is a partition that writes; a set of names are the stores that are committed.
    """

    def __init__(self, *steps, monkeypatch):
        self.said = []
        self.throttle = commit_points.Throttle(
            lambda: self.said.append("stop"), lambda: self.said.append("resume")
        )
        self._steps = list(steps)
        self._rows, self._over, self._now = set(), False, 100.0
        self.path, self.stores = "checkpoint", set()
        monkeypatch.setattr(commit_points, "pause", self._pause)
        monkeypatch.setattr(commit_points, "time", SimpleNamespace(monotonic=lambda: self._now))
        monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: self._now, sleep=self._pause))
        self.checkpoint = self.progress = self

    def _pause(self, seconds):
        self._now += max(seconds, 0.001)
        if (not self.said or self.said[-1] == "resume") and self._steps:
            step = self._steps.pop(0)
            self._over = step == "commits"
            self._rows |= {step} if isinstance(step, int) else set()
            self.stores = step if isinstance(step, set) else self.stores

    def running(self):
        return None if self._over else BATCH

    def ends(self):
        return dict.fromkeys(self._rows, 1)

    def half_committed(self, path, batch):
        assert (path, batch) == ("checkpoint", BATCH)
        stores = {name: name in self.stores for name in ("left", "right")}
        return {"0/0": stores} if len(set(stores.values())) > 1 else {}

    def snapshot(self):
        return {"ends": self.ends()}

    def throttle_until_state(self):
        now = RunningBatch(BATCH, {})
        look = partial(commit_points.with_executor_stopped, self, CommitPoint.STATE, now)
        return commit_points.throttle_finely_until(self, now, self.throttle, look, lambda: None)

    def throttle_until(self, look):
        return commit_points.throttle_until(self, RunningBatch(BATCH, {}), self.throttle, look, lambda: None)

    def all_written(self):
        return {"rows": sorted(self._rows)} if self._rows == {0, 1} else None


@pytest.fixture
def query(monkeypatch):
    return partial(Query, monkeypatch=monkeypatch)


def test_a_throttled_process_stays_stopped_once_all_is_written(query):
    made = query("works", "works", 0, 1, "commits")

    assert made.throttle_until(made.all_written) == {"rows": [0, 1]}
    assert made.said == ["stop"] + ["resume", "stop"] * 3
    assert made.running() == BATCH


def test_a_process_needed_for_another_partition_runs_on_after_the_first(query):
    made = query(0, "works", "works", 1, "commits")
    looks = []

    def look():
        looks.append(made.ends())
        return made.all_written()

    assert made.throttle_until(look) == {"rows": [0, 1]}
    assert looks == [{0: 1}, {0: 1, 1: 1}]


def test_a_batch_of_which_a_partition_never_writes_is_committed(query):
    made = query(0, "works", "commits")

    assert made.throttle_until(made.all_written) is None
    assert made.said[-1] == "resume"


def test_an_executor_is_stopped_once_some_stores_of_a_partition_have_committed(query, monkeypatch):
    made = query("works", 0, {"left"}, {"left", "right"}, "commits")
    monkeypatch.setattr(commit_points, "half_committed", made.half_committed)

    assert made.throttle_until_state() == {"state": {"0/0": {"left": True, "right": False}}, "ends": {0: 1}}
    assert made.said[-1] == "stop"


def test_stores_that_another_executor_goes_on_to_commit_are_no_point_of_the_stopped_one(query, monkeypatch):
    made = query("works", "commits")
    seen = iter([{"left"}, {"left", "right"}])

    def half_committed(path, batch):
        made.stores = next(seen, made.stores)
        return made.half_committed(path, batch)

    monkeypatch.setattr(commit_points, "half_committed", half_committed)

    assert made.throttle_until_state() is None
    assert made.said[-1] == "resume"


def test_a_process_that_writes_no_more_is_resumed_after_a_while(query):
    made = query(0)

    assert made.throttle_until(made.all_written) is None
    assert made.said[-1] == "resume"
    assert made.running() == BATCH


def test_an_error_resumes_a_throttled_process(query):
    made = query("works", 0)

    def look():
        raise TestbedError("no look")

    with pytest.raises(TestbedError):
        made.throttle_until(look)
    assert made.said[-1] == "resume"


def test_a_stopped_process_is_not_stopped_again(query):
    made = query()
    made.throttle.stop()
    made.throttle.stop()
    assert made.said == ["stop"]

    made.throttle.resume()
    made.throttle.resume()
    assert made.said == ["stop", "resume"]


def test_only_an_error_resumes_a_process_that_was_stopped():
    said = []
    with commit_points.resuming_on_error(lambda: said.append("resume")):
        pass
    assert said == []

    with pytest.raises(TestbedError), commit_points.resuming_on_error(lambda: said.append("resume")):
        raise TestbedError("no look")
    assert said == ["resume"]
