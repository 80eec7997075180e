"""The exactly-once sink and what a broker is: too old for the protocol, or forgetful."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException

from tests.e2e.own_broker import TOO_OLD, own_broker
from tests.e2e.sinks import Copy, connected
from tests.e2e.tasks import Writer, entries, made, values, wanted
from tidemark.errors import SinkRefused
from tidemark.sink.cluster_check import check_cluster
from tidemark.sink.driver.in_flight import InFlight, check_age
from tidemark.sink.sink_options import read_options
from tidemark.waiting import wait_until

KEPT_S = 60


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    """A broker that keeps committed offsets for a minute: the least that can be set."""
    home = tmp_path_factory.mktemp("broker")
    settings = {"offsets_retention_minutes": "1", "offsets_retention_check_interval_ms": "1000"}
    with own_broker(home, **settings) as broker:
        yield broker


def test_a_broker_that_is_too_old_is_refused(tmp_path):
    with own_broker(tmp_path, TOO_OLD) as broker:
        answer = check_cluster(read_options({"kafka.bootstrap.servers": broker.bootstrap}))
    assert "older than Kafka 3.6" in answer["message"]
    assert "3.6.1 or newer" in answer["message"]
    assert "AddPartitionsToTxn up to version 3" in answer["detail"]
    assert "upgrade" in answer["hint"]


@pytest.mark.parametrize(
    ("said_s", "guard_s"),
    [(None, 42), (10, 10), (1000, 42)],
)
def test_a_batch_may_not_be_older_than_the_brokers_memory_lasts(said_s, guard_s, forgetful):
    options = {"kafka.bootstrap.servers": forgetful.bootstrap}
    retention_s = check_cluster(read_options(options))["retention_s"]
    assert retention_s == str(KEPT_S)
    if said_s is not None:
        options["expiryGuardSeconds"] = str(said_s)
    told = read_options({**options, "offsetsKeptSeconds": retention_s})
    assert told.expiry_guard_s == guard_s
    assert (
        read_options({**options, "offsetsKeptSeconds": retention_s, "ignoreExpiry": "true"}).expiry_guard_s
        > 1e9
    )


@pytest.mark.parametrize("leased", ["local"], indirect=True)
def test_a_query_learns_how_long_its_brokers_remember(forgetful, own_stack):
    """On local processes: the broker is on this machine's loopback, where executors in containers cannot reach it."""
    where = SimpleNamespace(
        bootstrap_servers=forgetful.bootstrap,
        bootstrap_inside=forgetful.bootstrap,
        work_dir=own_stack.work_dir,
    )
    with connected(own_stack, own_stack.driver()) as session:
        copy = Copy(where, session)
        copy.feed(50)
        copy.run()
        batch = copy.forget("commits")
        copy.backdate(batch, 50)
        with pytest.raises(StreamingQueryException) as failed:
            copy.run()
        assert f"batch {batch} was begun" in str(failed.value)


@pytest.mark.long
def test_an_entry_that_the_brokers_forgot_is_a_lost_entry_and_the_guard_is_faster(forgetful):
    """A bare task writes the batch again; in a query it is refused as soon as seven tenths of the time are over."""
    told = made(forgetful.bootstrap)
    began = time.monotonic()
    assert Writer(**told).go_on()[1]["new"]
    assert not Writer(**told).go_on()[1]["new"]

    def forgotten() -> bool:
        return not entries(told["bootstrap"], told["query"])

    wait_until(forgotten, 3 * KEPT_S, lambda: "the broker to forget", poll_s=0.5)
    age_s = time.monotonic() - began
    assert age_s > 0.7 * KEPT_S
    assert Writer(**told).go_on()[1]["new"]
    assert values(told) == sorted(wanted(0) * 2)
    guard_s = read_options(
        {"kafka.bootstrap.servers": told["bootstrap"], "offsetsKeptSeconds": str(KEPT_S)}
    ).expiry_guard_s
    with pytest.raises(SinkRefused, match=rf"was begun {age_s:.0f} s ago"):
        check_age(InFlight(0, "", 0), guard_s, datetime.fromtimestamp(age_s, UTC))
