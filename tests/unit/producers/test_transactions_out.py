"""The end of a transaction: what is waited for until its control records are there. The broker is of words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from producers import transactions_out
from producers.transactions_out import Transactions
from tidemark.errors import DeadlineExceeded, TestbedError

FENCED = KafkaError.FENCED_LEADER_EPOCH


class Admin:
    """Answers with the end of a log whose control record is there after so many requests, or with an error.

    As the real one, it does not learn of a new leader.
    """

    def __init__(self, answers):
        self.answers = answers
        self.is_stale = False

    def list_offsets(self, asked, isolation_level, request_timeout):
        def result(_timeout_s):
            answer = FENCED if self.is_stale else self.answers.pop(0)
            self.is_stale = answer == FENCED
            if answer in (FENCED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
                raise KafkaException(KafkaError(answer))
            return SimpleNamespace(offset=answer)

        assert isolation_level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        return {place: SimpleNamespace(result=result) for place in asked}


@pytest.fixture
def ended(monkeypatch):
    """A function: ends a transaction of one record whose partition answers so; returns what was not asked for."""

    def end(*answers):
        left = list(answers)
        monkeypatch.setattr(transactions_out, "AdminClient", lambda _settings: Admin(left))
        producer = SimpleNamespace(
            init_transactions=lambda _s: None,
            begin_transaction=lambda: None,
            commit_transaction=lambda _s: None,
        )
        monkeypatch.setattr(transactions_out, "Producer", lambda _settings: producer)
        transactions = Transactions({}, {})
        transactions.producer(1, "clicks", 0)
        transactions.end(1, "commit", lambda: None)
        return left

    return end


def test_it_ends_once_a_reader_of_committed_records_comes_to_the_end(ended):
    assert ended(7, 9, 9, 9) == []


def test_a_partition_whose_leader_is_just_changing_is_asked_again(ended):
    assert ended(FENCED, 9, 9, FENCED, FENCED, FENCED, 9, 9) == []


def test_a_leader_that_does_not_come_back_is_in_the_error(ended, monkeypatch):
    monkeypatch.setattr(transactions_out, "END_S", 0.01)
    with pytest.raises(
        DeadlineExceeded, match=r"transaction 1 in .*'clicks', 0.* \(Broker: Leader epoch is older"
    ):
        ended(*(FENCED for _ in range(10_000)))


def test_an_error_that_is_over_is_not_in_the_error(ended, monkeypatch):
    monkeypatch.setattr(transactions_out, "END_S", 0.05)
    with pytest.raises(DeadlineExceeded) as error:
        ended(FENCED, FENCED, *(7, 9) * 10_000)
    assert "Leader epoch" not in error.value.message


def test_another_error_is_told_at_once(ended):
    with pytest.raises(TestbedError, match="the ends of the input topics are not known") as error:
        ended(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert "right to WRITE" in error.value.hint
