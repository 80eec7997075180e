"""Publishing slices on request and records by their arrival time, without a broker."""

from __future__ import annotations

import io
import json

import pytest

from producers import replay
from producers.replay import Slices, publish_on_request, publish_timed
from tidemark.errors import UsageError
from tidemark.formats.trace import Header, Record, TopicSpec


class Broker:
    """Takes what is sent; knows what was acknowledged when."""

    def __init__(self) -> None:
        self.sent: list[Record] = []
        self.acknowledged = 0

    def send(self, record: Record) -> None:
        self.sent.append(record)

    def check(self) -> None:
        pass

    def wait_for_acks(self) -> None:
        self.acknowledged = len(self.sent)

    def wait_until_compacted(self) -> None:
        pass


def records(*slices: int) -> list[Record]:
    return [Record(topic="t", arrival_ms=1_000 + i, slice=slice_) for i, slice_ in enumerate(slices)]


def header(slices: int) -> Header:
    return Header(tidemark_trace=2, pace="stepped", topics={"t": TopicSpec(1)}, slices=slices)


def tell(commands: str, *slices: int, of: int = 4) -> tuple[list[dict], Broker]:
    broker, answers = Broker(), io.StringIO()
    publish_on_request(
        header(of), iter(records(*slices)), broker, commands=io.StringIO(commands), answers=answers
    )
    return [json.loads(line) for line in answers.getvalue().splitlines()], broker


def test_each_slice_is_published_on_request_and_answered_when_acknowledged():
    answers, broker = tell("publish 0\n\npublish 1\npublish 2\n", 0, 0, 1, 2, 2, 2, 3)
    assert answers == [{"published": k, "records": n} for k, n in ((0, 2), (1, 1), (2, 3))]
    assert [record.slice for record in broker.sent] == [0, 0, 1, 2, 2, 2]
    assert broker.acknowledged == 6


def test_a_request_for_an_empty_slice_is_answered():
    answers, _ = tell("publish 0\npublish 1\npublish 2\npublish 3\n", 0, 2)
    assert [answer["records"] for answer in answers] == [1, 0, 1, 0]


@pytest.mark.parametrize("commands", ["publish 1\n", "publish 0\npublish 0\n", "publish 0\npublish 2\n"])
def test_a_slice_out_of_order_is_refused(commands):
    with pytest.raises(UsageError, match="was requested after slice"):
        tell(commands, 0, 1, 2)


@pytest.mark.parametrize("command", ["publish", "publish x", "publish 4", "publish -1", "stop"])
def test_an_unknown_command_is_refused(command):
    with pytest.raises(UsageError, match="is not a request"):
        tell(command + "\n", 0)


def test_only_the_next_slice_is_read_ahead():
    read = []

    def lazily():
        for record in records(0, 0, 1, 1, 2):
            read.append(record.slice)
            yield record

    slices = Slices(lazily())
    assert read == [0, 0, 1]
    assert len(list(slices.take(0))) == 2
    slices.prefetch()
    assert read == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("ahead", [1, 2, 3, 4, 5])
def test_a_large_slice_is_not_held_in_memory(monkeypatch, ahead):
    monkeypatch.setattr(replay, "AHEAD_RECORDS", ahead)
    numbers = [0, 0, 0, 0, 1, 3, 3, 3]
    answers, broker = tell("publish 0\npublish 1\npublish 2\npublish 3\n", *numbers)

    assert [answer["records"] for answer in answers] == [4, 1, 0, 3]
    assert [record.arrival_ms for record in broker.sent] == [1_000 + i for i in range(len(numbers))]

    read = []

    def lazily():
        for record in records(*numbers):
            read.append(record.slice)
            yield record

    slices = Slices(lazily())
    assert len(read) <= ahead + 1
    taken = slices.take(0)
    next(taken)
    assert len(read) <= ahead + 1
    assert len(list(taken)) == 3


def test_the_pace_timed_keeps_the_order_and_the_gaps():
    broker, told = Broker(), []
    spread = [Record(topic="t", arrival_ms=ms) for ms in (5_000, 5_001, 5_200, 5_100)]
    assert publish_timed(spread, broker, told.append, speed=10) == 4
    assert [record.arrival_ms for record in broker.sent] == [5_000, 5_001, 5_200, 5_100]
    assert broker.acknowledged == told[-1] == 4


def test_a_speed_of_0_is_refused():
    with pytest.raises(UsageError):
        publish_timed([], Broker(), print, speed=0)
