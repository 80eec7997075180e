"""What a query leaves behind that is stopped or killed while it writes: no transaction open, no part of a partition."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.e2e.sinks import Copy, connected, driver_of_ones_own
from tests.e2e.tasks import entries, is_open
from tests.support.environment import classic_environment
from tidemark.kafka import client as kafka
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.waiting import wait_until

pytestmark = [pytest.mark.e2e]

PROGRAM = Path(__file__).parent / "sink_classic.py"
SLOW = {"kafka.linger.ms": "1000", "kafka.buffer.memory": "65536"}
"""64 KiB a second, so that the rows below take minutes: what is stopped is stopped in the middle."""
ROWS, SIZE = 30_000, 500
OPEN_S = 240.0
"""Calibration: 15-40 s for a classic session, a first batch and its Python, longer on a machine that is busy."""
CLOSED_S = 60.0
"""Calibration: 1-3 s after the stop, on two busy cores; by itself a transaction ends after 120 s."""


def await_open(bootstrap, topic, unless=None):
    """Wait until rows are in the topic that no reader at read_committed may see yet."""
    wait_until(
        lambda: is_open(bootstrap, topic), OPEN_S, lambda: f"an open transaction in {topic}", unless=unless
    )


def await_closed(bootstrap, topic):
    """Wait until a reader at read_committed is let through to the end."""
    wait_until(
        lambda: not is_open(bootstrap, topic), CLOSED_S, lambda: f"readers of {topic} to be let through"
    )


def large(stack, session):
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    copy = Copy(stack, session)
    copy.feed(ROWS, [f"{number}".rjust(SIZE).encode() for number in range(ROWS)])
    return copy


def is_whole(copy):
    found = sorted(int(row.value) for row in kafka.drain(copy.bootstrap, copy.output, settle_s=0.2))
    return found == list(range(ROWS))


@pytest.mark.parametrize("how", [{"partitions": 1, "key": ()}, {"partitions": 2}])
def test_a_query_stopped_in_the_middle_of_a_batch_leaves_nothing_of_it_and_no_reader_waiting(how, stack):
    with connected(stack, stack.driver()) as session:
        copy = large(stack, session)
        query = copy.start(copy.source(ROWS), options=SLOW, **how)
        await_open(copy.bootstrap, copy.output)
        query.stop()
        await_closed(copy.bootstrap, copy.output)
        written = [entry for entry in entries(copy.bootstrap, query.id).values() if entry.next_batch]
        assert len(written) < how["partitions"]

        copy.run(copy.source(ROWS), **how)
        assert is_whole(copy)
        assert sum(entry.rows for entry in entries(copy.bootstrap, query.id).values()) == ROWS


def test_a_driver_that_is_killed_leaves_no_reader_waiting_either(stack):
    with driver_of_ones_own(stack) as driver, connected(stack, driver) as session:
        copy = large(stack, session)
        copy.start(copy.source(ROWS), options=SLOW)
        await_open(copy.bootstrap, copy.output)
        stack.kill(driver.name)
        await_closed(copy.bootstrap, copy.output)

    with connected(stack, stack.driver()) as copy.session:
        copy.run(copy.source(ROWS))
    assert is_whole(copy)


@pytest.mark.long
def test_a_classic_session_that_ends_in_the_middle_of_a_batch_leaves_no_reader_waiting(stack, tmp_path):
    topic = f"classic-{uuid.uuid4().hex[:8]}"
    kafka.create_topics(stack.bootstrap_servers, {topic: 2})
    asked = [sys.executable, PROGRAM, stack.bootstrap_servers, topic, tmp_path / "checkpoint", str(ROWS)]
    how = {
        "env": classic_environment(),
        "cwd": tmp_path,
        "text": True,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }

    first = subprocess.Popen([*asked, "slowly"], stdin=subprocess.PIPE, **how)

    def must_live():
        assert first.poll() is None, first.communicate()[0]

    try:
        await_open(stack.bootstrap_servers, topic, unless=must_live)
        said, _ = first.communicate("stop\n", timeout=200)
    finally:
        first.kill()
    assert first.returncode == 0, said
    await_closed(stack.bootstrap_servers, topic)
    assert not list(kafka.read_all(stack.bootstrap_servers, topic))

    again = subprocess.run(asked, timeout=400, **how)
    assert again.returncode == 0, again.stdout
    values = sorted(int(row.value) for row in kafka.drain(stack.bootstrap_servers, topic))
    whole = ROWS * len(Checkpoint(tmp_path / "checkpoint").committed())
    assert whole >= 2 * ROWS
    # Of the batch in which it was stopped one partition may be there: what is missing comes with the next start.
    assert values[:whole] == list(range(whole))
    assert len(set(values)) == len(values)
    assert set(values[whole:]) <= set(range(whole, whole + ROWS))
