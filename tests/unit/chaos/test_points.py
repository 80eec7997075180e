"""Who is let run and stand still by turns, and who goes on after an error."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tidemark.chaos import points
from tidemark.errors import TestbedError


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when they are told to."""
    now = [100.0]
    monkeypatch.setattr(points, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def said():
    return []


@pytest.fixture
def crawl(clock, said):
    return points.Crawl(lambda: said.append("stop"), lambda: said.append("go on"))


def steps(crawl, clock, seconds):
    """Step every millisecond."""
    for _ in range(round(seconds * 1000)):
        clock[0] += 0.001
        crawl.step()


def test_who_crawls_stands_still_most_of_the_time(crawl, clock, said):
    steps(crawl, clock, points.RUNS_S - 0.002)
    assert said == []

    steps(crawl, clock, 0.003)
    assert said == ["stop"]

    steps(crawl, clock, 10 * (points.RUNS_S + points.STANDS_S))
    assert said == ["stop"] + ["go on", "stop"] * 10


def test_who_stands_still_is_not_stopped_again(crawl, clock, said):
    steps(crawl, clock, points.RUNS_S + 0.001)
    crawl.stop()
    crawl.stop()
    assert said == ["stop"]

    crawl.go_on()
    crawl.go_on()
    assert said == ["stop", "go on"]


def test_who_runs_is_stopped_when_it_is_for_good(crawl, said):
    crawl.go_on()
    crawl.stop()

    assert said == ["stop"]


def test_who_was_stopped_goes_on_after_an_error_and_only_then(said):
    with points.going_on_after_an_error(lambda: said.append("go on")):
        pass
    assert said == []

    with pytest.raises(TestbedError), points.going_on_after_an_error(lambda: said.append("go on")):
        raise TestbedError("no look")
    assert said == ["go on"]
