"""A producer that waits until all it has sent is acknowledged: what an idle producer beside it has heard, too."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from producers import kafka_out
from producers.kafka_out import KafkaOut
from tidemark.stack.components.ports import free_ports
from tidemark.waiting import wait_until


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
