"""A query that commits nothing more ends its run as UNKNOWN, with since when, what was awaited, and thread stacks.

So does one that does not start, whose output does not end, or that does not stop.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.e2e.conftest import shown
from tidemark.errors import EXIT_UNKNOWN, TidemarkError
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.liveness import HangPhase
from tidemark.oracle import judge
from tidemark.stack import DRIVER

pytestmark = [pytest.mark.chaos]

HUNG_AFTER_S = 25.0
"""Calibration: a batch of this run takes 1 s; on a machine with a load of 25 the first one took 20 s."""
AFTER_SLICE = 3
MIDDLE, BEFORE_START, AFTER_FLUSH = ("publish", AFTER_SLICE), ("publish", 1), ("flush", 1)
"""Steps of a run, as it reports them: some slices are read; one is published, and no query runs; all is read."""


def hung_run(run_on_own, harm, step=MIDDLE):
    """A run to which something is done for good after a step."""

    def report(what, done, _total):
        if (what, done) == step:
            harm()

    result = run_on_own(
        "left_outer", seed=3, impressions=300, hung_after_s=HUNG_AFTER_S, generator=("--slices", "6"),
        report=report, state_rows_at_most=100_000,
    )  # fmt: skip
    verdict, evidence = result.verdict, RunDirectory(result.run_dir)
    assert (verdict.verdict, verdict.exit_code) == ("UNKNOWN", EXIT_UNKNOWN), shown(verdict)
    assert verdict.findings == [], shown(verdict)
    assert judge(evidence).inconclusive == verdict.inconclusive
    hang = evidence.manifest.hang
    assert hang is not None
    assert verdict.inconclusive[0] == hang.said()
    assert hang.said().startswith("the query hung: ")
    assert hang.committed == max(
        (batch.batch for batch in evidence.batches() if batch.committed), default=None
    )
    assert (result.run_dir / "report.html").is_file()
    if step == MIDDLE:
        assert hang.committed >= AFTER_SLICE - 1
    if hang.phase is HangPhase.RUN:
        assert "no batch was committed from 20" in hang.said()
        assert verdict.counts["overdue_ms"] >= 1000 * HUNG_AFTER_S
    else:
        assert verdict.counts.get("overdue_ms", 0) <= 1000 * HUNG_AFTER_S
    return verdict, evidence, hang


def stacks_of(evidence, hang):
    """The thread stacks of the driver, and of its executors."""
    of_driver, *of_executors = [(evidence.path / name).read_text() for name in hang.stacks]
    assert of_executors
    return of_driver, of_executors


@pytest.mark.long
def test_a_query_whose_executors_stand_still_hung_and_the_threads_of_its_driver_are_kept(
    own_stack, run_on_own
):
    paused = []

    def harm():
        paused.extend(own_stack.pause_executor(DRIVER, one) for one in own_stack.executors(DRIVER))

    try:
        _, evidence, hang = hung_run(run_on_own, harm)
    finally:
        for one in paused:
            with suppress(TidemarkError):
                own_stack.resume_executor(DRIVER, one)
    assert hang.planned == hang.committed + 1
    assert hang.waited_for == "a batch that reads the last record published"
    assert hang.stacks == ["stacks/driver.txt", *(f"stacks/executor-{one.executor_id}.txt" for one in paused)]
    of_driver, of_executors = stacks_of(evidence, hang)
    assert "MicroBatchExecution" in of_driver
    assert all("is suspended" in text for text in of_executors)


@pytest.mark.long
def test_a_query_whose_driver_stands_still_hung_and_it_is_said_that_it_is_suspended(own_stack, run_on_own):
    try:
        _, evidence, hang = hung_run(run_on_own, lambda: own_stack.pause(DRIVER))
    finally:
        own_stack.kill(DRIVER)  # and with it the query, which nobody could stop
    assert hang.planned is None
    assert hang.waited_for == "an answer of the driver"
    of_driver, of_executors = stacks_of(evidence, hang)
    assert "is suspended" in of_driver
    assert all("Full thread dump" in text for text in of_executors)


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "phase", "waited_for"),
    [
        (BEFORE_START, HangPhase.START, ("the plan of the query", "the query to start")),
        (AFTER_FLUSH, HangPhase.STOP, ("the query to stop",)),
    ],
)
def test_a_query_whose_driver_stands_still_before_it_starts_or_stops_hung_there(
    step, phase, waited_for, own_stack, run_on_own
):
    try:
        _, evidence, hang = hung_run(run_on_own, lambda: own_stack.pause(DRIVER), step)
    finally:
        own_stack.kill(DRIVER)
    assert hang.phase is phase
    assert hang.waited_for in waited_for
    assert (hang.committed is None) == (phase is HangPhase.START)
    assert "is suspended" in stacks_of(evidence, hang)[0]


@pytest.mark.long
def test_a_query_behind_a_transaction_that_stays_open_hung_when_its_output_was_read(own_stack, run_on_own):
    servers, opened = own_stack.bootstrap_servers, []

    def harm():
        topics = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10).topics
        [output] = [name for name in topics if name.endswith("-output")]
        settings = {"transactional.id": "left-open", "transaction.timeout.ms": 900_000}
        producer = Producer({"bootstrap.servers": servers, **settings})
        producer.init_transactions(30)
        producer.begin_transaction()
        opened.append(producer)
        for partition in (0, 1):
            producer.produce(output, b"{}", partition=partition)
        assert producer.flush(30) == 0

    try:
        verdict, evidence, hang = hung_run(run_on_own, harm)
    finally:
        for producer in opened:
            with suppress(Exception):  # its topic is gone with the run
                producer.abort_transaction(10)
    assert hang.phase is HangPhase.DRAIN
    assert any("they may come after its end" in why for why in verdict.inconclusive)
    of_driver, of_executors = stacks_of(evidence, hang)
    assert all("Full thread dump" in text for text in (of_driver, *of_executors))
