"""A producer that waits until all it has sent is acknowledged: what an idle producer beside it has heard, too. One that
fails leaves no transaction open.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaException, Producer

from producers import kafka_out
from producers.kafka_out import KafkaOut
from tidemark.formats.trace import Record
from tidemark.stack.components.ports import free_ports
from tidemark.waiting import wait_until


@pytest.fixture
def broker():
    """The address of a broker that the client's library plays, and a function that ends it."""
    players = [Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "-", "log_level": 0})]
    [known] = players[0].list_topics(timeout=30).brokers.values()
    return f"{known.host}:{known.port}", players.clear


def test_errors_that_an_idle_producer_hears_of_do_not_count_as_outstanding_records(monkeypatch):
    monkeypatch.setattr(kafka_out, "DELIVERY_S", 5.0)
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    with KafkaOut(nowhere, {"clicks": "clicks"}) as out:
        idle = out._producer
        out._latest = out._transactions._producer = Producer({"bootstrap.servers": nowhere, "log_level": 0})
        wait_until(lambda: len(idle), 30, lambda: "an error of a broker that is not there")
        begun_s = time.monotonic()
        out.wait_for_acks()
        assert time.monotonic() - begun_s < 5.0


@pytest.mark.parametrize("is_acknowledged", [True, False], ids=["acknowledged", "queued"])
def test_a_transaction_that_is_open_at_an_error_is_rolled_back(broker, is_acknowledged):
    address, _ = broker
    before = KafkaOut.wait_for_acks if is_acknowledged else lambda _out: None
    out = KafkaOut(address, {"clicks": "clicks"})
    with pytest.raises(KeyboardInterrupt):
        interrupt_in_a_transaction(out, before)

    out._transactions.opened.begin_transaction()  # refused within an open one


def test_a_rollback_that_no_broker_answers_hides_no_error(broker, monkeypatch):
    monkeypatch.setattr(kafka_out, "ABORT_S", 0.1)
    address, end = broker
    out = KafkaOut(address, {"clicks": "clicks"})

    def acknowledged_by_a_broker_that_ends(out):
        out.wait_for_acks()  # of what was not sent the broker need not know the end
        end()

    with pytest.raises(KeyboardInterrupt):
        interrupt_in_a_transaction(out, acknowledged_by_a_broker_that_ends)

    with pytest.raises(KafkaException):
        out._transactions.opened.begin_transaction()


def interrupt_in_a_transaction(out, before):
    with out:
        out.send(Record(topic="clicks", arrival_ms=1_000, transaction=1, value="{}"))
        before(out)
        raise KeyboardInterrupt
