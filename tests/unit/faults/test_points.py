"""Who is let run and stand still by turns, and who goes on after an error."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from tidemark import waiting
from tidemark.errors import TestbedError
from tidemark.faults import commit_points
from tidemark.faults.commit_points import Running

BATCH = 3


class Query:
    """One whose driver does a step each time that it runs, from a batch that is planned to one that is committed.

    A number among ``steps`` is a partition that writes.
    """

    def __init__(self, *steps, monkeypatch):
        self.said = []
        self.crawl = commit_points.Crawl(lambda: self.said.append("stop"), lambda: self.said.append("go on"))
        self._steps = list(steps)
        self._rows, self._over, self._now = set(), False, 100.0
        monkeypatch.setattr(commit_points, "pause", self._pause)
        monkeypatch.setattr(commit_points, "time", SimpleNamespace(monotonic=lambda: self._now))
        monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: self._now, sleep=self._pause))
        self.checkpoint = self.output = self

    def _pause(self, seconds):
        self._now += max(seconds, 0.001)
        if (not self.said or self.said[-1] == "go on") and self._steps:
            step = self._steps.pop(0)
            self._over = step == "commits"
            self._rows |= {step} if isinstance(step, int) else set()

    def running(self):
        return None if self._over else BATCH

    def ends(self):
        return dict.fromkeys(self._rows, 1)

    def crawls_until(self, look):
        return commit_points.crawls_until(self, Running(BATCH, {}), self.crawl, look, lambda: None)

    def all_written(self):
        return {"rows": sorted(self._rows)} if self._rows == {0, 1} else None


@pytest.fixture
def query(monkeypatch):
    return partial(Query, monkeypatch=monkeypatch)


def test_who_crawls_stands_still_once_all_is_there(query):
    made = query("works", "works", 0, 1, "commits")

    assert made.crawls_until(made.all_written) == {"rows": [0, 1]}
    assert made.said == ["stop"] + ["go on", "stop"] * 3
    assert made.running() == BATCH


def test_who_is_needed_for_another_partition_goes_on_after_the_first_and_is_seen_again(query):
    made = query(0, "works", "works", 1, "commits")
    looks = []

    def look():
        looks.append(made.ends())
        return made.all_written()

    assert made.crawls_until(look) == {"rows": [0, 1]}
    assert looks == [{0: 1}, {0: 1, 1: 1}]


def test_where_a_partition_never_writes_the_batch_goes_by(query):
    made = query(0, "works", "commits")

    assert made.crawls_until(made.all_written) is None
    assert made.said[-1] == "go on"


def test_who_has_nothing_to_do_any_more_does_not_crawl_for_ever(query):
    made = query(0)

    assert made.crawls_until(made.all_written) is None
    assert made.said[-1] == "go on"
    assert made.running() == BATCH


def test_who_crawls_goes_on_after_an_error(query):
    made = query("works", 0)

    def look():
        raise TestbedError("no look")

    with pytest.raises(TestbedError):
        made.crawls_until(look)
    assert made.said[-1] == "go on"


def test_who_stands_still_is_not_stopped_again(query):
    made = query()
    made.crawl.stop()
    made.crawl.stop()
    assert made.said == ["stop"]

    made.crawl.go_on()
    made.crawl.go_on()
    assert made.said == ["stop", "go on"]


def test_who_was_stopped_goes_on_after_an_error_and_only_then():
    said = []
    with commit_points.going_on_after_an_error(lambda: said.append("go on")):
        pass
    assert said == []

    with pytest.raises(TestbedError), commit_points.going_on_after_an_error(lambda: said.append("go on")):
        raise TestbedError("no look")
    assert said == ["go on"]
