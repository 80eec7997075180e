"""The exactly-once sink with its checkpoint in an S3-compatible store: the checks that read it are made there, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.refusals import (
    failure_of,
    must_refuse_a_lost_ledger,
    must_refuse_an_old_batch,
    must_refuse_another_batch,
)
from tests.e2e.sinks import Trap
from tests.e2e.stored_copy import StoredCopy, session_of_a_store
from tests.e2e.tasks import entries
from tests.support.s3_server import S3Server, s3_server
from tidemark.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.long]  # every day: tests/unit/sink/test_checkpoint_files.py

PYARROW = "aws-sdk-cpp"
"""What the ``User-Agent`` of the driver's Python has, and that of Spark's S3A has not."""
CLOSED_S = 60.0
"""Calibration: 1-3 s after the batch was given up; by itself a transaction ends after 120 s."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        server.weather.agent = PYARROW
        yield server


@pytest.fixture(scope="module")
def session(stack, server, tmp_path_factory):
    if stack.spec.backend != "local":
        pytest.skip("containers do not reach a store on this machine's loopback")
    conf = {"spark.task.maxFailures": "2"}
    with session_of_a_store(stack, server, tmp_path_factory.mktemp("home"), **conf) as session:
        yield session


@pytest.fixture
def copy(stack, session, server):
    return StoredCopy(stack, session, server, inputs=1)


def test_every_row_is_there_once_also_of_a_batch_that_is_run_again(copy, server):
    server.weather.asked.clear()
    copy.feed(250)
    query = copy.run()
    copy.forget("commits")
    copy.feed(120)
    copy.run()
    assert copy.values() == copy.wanted()
    assert all(entry.offsets for entry in entries(copy.bootstrap, query.id).values())
    assert {asked.partition(" ")[0] for asked in server.weather.asked} <= {"GET", "HEAD"}


def test_a_checkpoint_rolled_back_by_one_batch_is_refused_if_the_batch_is_another_now(copy):
    must_refuse_another_batch(copy)


def test_a_batch_older_than_what_brokers_remember_is_refused_unless_forced(copy):
    must_refuse_an_old_batch(copy)


def test_a_batch_in_flight_without_a_ledger_is_refused(copy):
    must_refuse_a_lost_ledger(copy)


def test_a_batch_that_is_given_up_leaves_no_reader_waiting(copy):
    copy.feed(400)
    deadly = Trap(copy.traps / "trap", kill=[399])
    failure_of(copy, copy.padded(400), key=deadly.key())
    wait_until(lambda: not copy.is_open(), CLOSED_S, lambda: f"readers of {copy.output} to be let through")
    deadly.repair(399)
    copy.run(copy.padded(400), key=deadly.key())
    assert copy.values() == copy.wanted()


@pytest.mark.parametrize("status", ["503 Slow Down", "403 Forbidden"])
def test_a_store_that_refuses_fails_the_batch_and_nothing_is_lost(status, copy, server):
    copy.feed(100)
    copy.run()
    copy.feed(100)
    server.weather.status = status
    try:
        text = failure_of(copy)
    finally:
        server.weather.status = ""
    assert f"the checkpoint s3a://{copy.root} cannot be read by the driver's Python" in text
    assert copy.values() == [str(number) for number in range(100)]
    copy.run()
    assert copy.values() == copy.wanted()


def test_a_slow_store_delays_a_batch_and_nothing_else(copy, server):
    copy.feed(150)
    server.weather.agent, server.weather.delay_s = "", 0.2
    try:
        copy.run()
    finally:
        server.weather.agent, server.weather.delay_s = PYARROW, 0.0
    assert copy.values() == copy.wanted()


def test_a_store_that_python_does_not_see_is_refused_or_left_out(copy):
    copy.feed(50)
    elsewhere = {"checkpointStore": "endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"}
    text = failure_of(copy, options=elsewhere)
    assert "checkpointStore" in text
    assert copy.values() == []
    copy.run(options={**elsewhere, "checkpointChecks": "false"})
    assert copy.values() == copy.wanted()
