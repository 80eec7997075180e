"""Requests that no broker answers: when a client is given up for a new one, and when a task for its next attempt.

The clients here are made up; what real ones do when brokers die is in ``tests/e2e/test_sink_brokers.py``.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.errors import SinkFailed
from tidemark.sink import transaction
from tidemark.sink.fit import Task
from tidemark.sink.options import read_options

TASK = Task(query="q", run="run", batch=0, partition=0, attempt=0, partitions=1)
OPTIONS = read_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out", "partitions": "1"})


class Producer:
    """Does not answer what it is told not to."""

    def __init__(self, diary, silent):
        self.diary, self.silent = diary, silent

    def _do(self, what):
        self.diary.append(what)
        if what in self.silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))

    def init_transactions(self, _timeout_s):
        self._do("start")

    def begin_transaction(self):
        self._do("begin")

    def send_offsets_to_transaction(self, *_what):
        self._do("send")

    def commit_transaction(self, _timeout_s):
        self._do("commit")

    def abort_transaction(self, _timeout_s):
        self._do("abort")

    def close(self):
        self._do("close")


@pytest.fixture
def diary(monkeypatch):
    """A function: producers of a task, by what each does not answer, and whether brokers are reached; what they did."""

    def prepare(*silent, reached=True):
        said, left = [], list(silent)
        topics = {"out": SimpleNamespace(error=None)}

        def list_topics(*_what, timeout):
            if timeout == transaction.REACH_S and not reached:
                raise KafkaException(KafkaError(KafkaError._TRANSPORT, "nobody there"))
            return SimpleNamespace(brokers={1: "broker"}, cluster_id="c", topics=topics)

        monkeypatch.setattr(transaction, "new_producer", lambda *_what: Producer(said, left.pop(0)))
        monkeypatch.setattr(transaction, "new_admin", lambda _: SimpleNamespace(list_topics=list_topics))
        monkeypatch.setattr(transaction, "look_up", lambda *_what, **_how: None)
        return said

    return prepare


def test_a_producer_that_gets_no_answer_is_closed_before_there_is_another(diary):
    said = diary({"start"}, {"start"}, {})
    with transaction.Writer(TASK, OPTIONS) as writer:
        assert writer.own_entry() is None
        assert said == ["start", "close", "start", "close", "start"]
    assert said[-1] == "close"


@pytest.mark.parametrize("step", ["send", "commit"])
def test_a_transaction_that_brokers_do_not_answer_is_left_to_the_next_attempt(step, diary):
    said = diary({step})
    with transaction.Writer(TASK, OPTIONS) as writer:
        writer.own_entry()
        with pytest.raises(SinkFailed, match="no answer"):
            writer.open_ledger()
    assert said.count(step) == transaction.UNANSWERED
    assert said[-2:] == ["abort", "close"]


def test_while_no_broker_is_there_it_is_asked_until_the_deadline(diary, monkeypatch):
    said = diary({"commit"}, reached=False)
    clock = iter(range(10_000))
    monkeypatch.setattr(transaction.time, "monotonic", lambda: float(next(clock)))
    with transaction.Writer(TASK, OPTIONS) as writer:
        writer.own_entry()
        with pytest.raises(SinkFailed):
            writer.open_ledger()
    assert said.count("commit") > OPTIONS.timeout_s / 2
