"""The exactly-once sink, stopped in a known state: who dies where is certain, never a matter of luck."""

from __future__ import annotations

import sys
import threading
import uuid
from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException

from tests.e2e.sinks import (
    Copy,
    Program,
    Trap,
    await_ledger,
    bare_python,
    connected,
    driver_of_ones_own,
    in_order,
    ledger,
)
from tidemark import paths
from tidemark.errors import SinkRefused
from tidemark.kafka import client as kafka
from tidemark.sparkfiles.eventlog import QueryEvents
from tidemark.waiting import wait_until

pytestmark = [pytest.mark.e2e]

OTHER = {"spark.cores.max": "2", "spark.executor.cores": "2", "spark.sql.shuffle.partitions": "5"}
"""A driver unlike the shared one, which has two executors of one core each: one executor, of two."""
FAILURES = 4
BATCHES = 3
BATCH = 2000
SLOWLY: dict[str, str | None] = {
    "kafka.batch.size": "1",
    "kafka.max.in.flight.requests.per.connection": "1",
    "kafka.buffer.memory": "65536",
    "kafka.transaction.timeout.ms": "10000",
}
"""One request for each row: a batch takes long enough to be hit. Nor do readers wait long for a writer that is dead."""


@pytest.fixture(scope="module")
def session(stack):
    with connected(stack, stack.driver()) as shared:
        yield shared


@pytest.fixture(scope="module")
def second(stack):
    """A second driver, whose tasks may fail three times, and a session of it."""
    conf = {"spark.task.maxFailures": str(FAILURES)}
    with driver_of_ones_own(stack, **conf) as driver, connected(stack, driver) as its_session:
        yield driver, its_session


@pytest.fixture
def victim(stack):
    """A driver to be killed, and a session of it."""
    with driver_of_ones_own(stack, **OTHER) as driver, connected(stack, driver) as its_session:
        yield driver, its_session


@pytest.fixture
def copy(stack, session):
    return Copy(stack, session, inputs=1)


def trap(copy, name="trap", **rows):
    return Trap(copy.checkpoint.parent / f"{copy.checkpoint.name}-{name}", **rows)


def commits(copy):
    folder = copy.checkpoint / "commits"
    return {path.name for path in folder.glob("[0-9]*")} if folder.exists() else set()


def failure_of(query):
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination(120)
    return str(failed.value)


@pytest.mark.long
def test_a_batch_of_which_some_partitions_are_there_is_completed_by_another_kind_of_driver(
    stack, session, copy, victim
):
    copy.feed(1600)
    driver, copy.session = victim
    held = trap(copy, hold=[1599])
    query = copy.start(copy.padded(800), partitions=4, key=held.key())
    held.await_task(1599)
    copy.await_ledger(query, [1, 2, 2, 2])
    copy.await_open()
    stack.pause(driver.name)
    assert sorted(ledger(copy.bootstrap, query.id).values()) == [1, 2, 2, 2]
    assert commits(copy) == {"0"}
    assert copy.is_open()
    stack.kill(driver.name)

    copy.session = session
    copy.run(copy.padded(800), partitions=4, key=trap(copy, "open").key())
    assert copy.counted() == copy.wanted()
    assert sorted(ledger(copy.bootstrap, query.id).values()) == [2, 2, 2, 2]


@pytest.mark.long
def test_a_batch_that_is_there_is_not_written_again_though_spark_does_not_know_of_it(
    stack, session, copy, victim
):
    copy.feed(400)
    driver, copy.session = victim
    held = trap(copy, hold=[399])
    query = copy.start(copy.padded(400), key=held.key())
    held.await_task(399)
    copy.await_open()
    stack.pause(driver.name)
    held.let_go(399)
    copy.await_ledger(query, [1, 1])
    assert commits(copy) == set()
    stack.kill(driver.name)
    before = copy.counted()
    ends = kafka.end_offsets(copy.bootstrap, [copy.output])

    copy.session = session
    copy.run(copy.padded(400), key=trap(copy, "open").key())
    assert before == copy.counted() == copy.wanted()
    assert kafka.end_offsets(copy.bootstrap, [copy.output]) == ends
    assert commits(copy) == {"0"}


@pytest.mark.long
def test_rows_are_there_once_though_executors_are_killed_while_they_are_written(stack, second):
    driver, session = second
    copy = Copy(stack, session, inputs=1)
    rows = (399, 799)
    copy.feed(800)
    held = trap(copy, hold=rows)
    query = copy.start(copy.padded(400), key=held.key())
    for row in rows:
        executor = held.await_task(row)
        copy.await_open()
        stack.kill_executor(driver.name, executor)
        held.let_go(row)
    assert query.awaitTermination(120)
    assert copy.counted() == copy.wanted()

    events = QueryEvents(driver.event_log, 0, query.id)
    wait_until(lambda: set(events.failed_tasks()) == {0, 1}, 60, lambda: f"{events.failed_tasks()}")


@pytest.mark.long
@pytest.mark.parametrize("winner", ["the first", "the second"])
def test_of_two_drivers_with_one_checkpoint_one_writes_and_the_other_is_told(
    winner, stack, session, second, copy
):
    copy.feed(800)
    copy.session = second[1]
    held = trap(copy, hold=[399])
    first = copy.start(copy.padded(400), key=held.key())
    held.await_task(399)
    copy.await_ledger(first, [1])

    copy.session = session
    late = trap(copy, "late", hold=[399] if winner == "the first" else [])
    other = copy.start(copy.padded(400), key=late.key())
    if winner == "the first":
        late.await_task(399)
        held.let_go(399)
        assert first.awaitTermination(120)
        late.let_go(399)
        said = failure_of(other)
    else:
        assert other.awaitTermination(120)
        held.let_go(399)
        said = failure_of(first)
    assert copy.counted() == copy.wanted()
    assert commits(copy) == {"0", "1"}
    assert "is older than the newest batch in Kafka" in said or "CONCURRENT" in said


@pytest.mark.long
@pytest.mark.parametrize("what", ["kill", "fail"])
def test_a_task_that_ends_early_until_spark_gives_up_leaves_nothing_and_its_rows_come_after_mending(
    what, stack, session, second
):
    copy = Copy(stack, second[1], inputs=1)
    copy.feed(400)
    deadly = trap(copy, **{what: [399]})
    query = copy.start(copy.padded(400), key=deadly.key(), provenance=True)
    said = failure_of(query)
    assert f"failed {FAILURES} times" in said or "row 399 fails" in said
    assert deadly.times(399) == FAILURES
    [there] = ledger(copy.bootstrap, query.id)
    seen = [(row.value or "").rstrip(".") for row in kafka.read_all(copy.bootstrap, copy.output)]

    deadly.repair(399)
    copy.session = session
    copy.run(copy.padded(400), key=deadly.key(), provenance=True)
    assert copy.counted() == copy.wanted()
    partition = {}
    for record in kafka.drain(copy.bootstrap, copy.output):
        partition[(record.value or "").rstrip(".")] = dict(record.headers)["partition"]
    assert {partition[value] for value in seen} <= {str(there)}
    assert partition["399"] != str(there)


class Watch(threading.Thread):
    """Asks again and again how far a reader at read_committed gets."""

    def __init__(self, copy):
        super().__init__()
        self.copy = copy
        self.ends = set()
        self.finished = threading.Event()

    def run(self):
        while not self.finished.is_set():
            self.ends.add(kafka.stable_offsets(self.copy.bootstrap, [self.copy.output])[self.copy.output][0])

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_exc):
        self.finished.set()
        self.join()


def rows_of_batches(copy):
    """Batch -> rows that a reader at read_committed sees now."""
    rows = kafka.read_all(copy.bootstrap, copy.output)
    return Counter(int(dict(row.headers)["batch"]) for row in rows)


def kill_in_the_midst(stack, driver, copy):
    """Kill the executors while a batch is on its way, until one has been hit before its end; returns that batch.

    The executors are suspended first: to freeze the container of a driver can take longer than a batch.
    """
    for _ in range(BATCHES):
        wait_until(
            copy.is_open, 90, lambda: f"an open transaction; batches {commits(copy)} have ended", poll_s=0.001
        )
        executors = [executor.executor_id for executor in stack.executors(driver.name)]
        for executor in executors:
            stack.pause_executor(driver.name, executor)
        if not copy.is_open():
            for executor in executors:
                stack.resume_executor(driver.name, executor)
            continue
        stack.pause(driver.name)
        for executor in executors:
            stack.kill_executor(driver.name, executor)
        wait_until(lambda: not copy.is_open(), 60, lambda: "the transaction to be ended")
        batch = int(copy.newest("offsets").name)
        if batch not in rows_of_batches(copy):
            return batch
        stack.resume(driver.name)
    raise AssertionError("no batch was hit in its midst")


@pytest.mark.long
def test_a_batch_of_one_partition_is_seen_as_a_whole_or_not_at_all(stack, session, victim):
    driver, its_session = victim
    copy = Copy(stack, its_session, inputs=1, outputs=1)
    copy.feed(BATCHES * BATCH)
    copy.extra = SLOWLY
    how = {"partitions": 1, "key": (), "provenance": True}
    with Watch(copy) as watch:
        copy.start(copy.padded(BATCH), **how)
        batch = kill_in_the_midst(stack, driver, copy)
        assert rows_of_batches(copy) == dict.fromkeys(range(batch), BATCH)
        stack.kill(driver.name)

        copy.session = session
        copy.extra = {}
        copy.run(copy.padded(BATCH), **how)
    rows = list(kafka.drain(copy.bootstrap, copy.output))
    assert in_order((row.value or "").rstrip(".") for row in rows) == copy.wanted()
    for end in watch.ends:
        seen = Counter(dict(row.headers)["batch"] for row in rows if row.offset < end)
        assert set(seen.values()) <= {BATCH}
    assert len(watch.ends) > BATCHES


@pytest.fixture
def told(stack, tmp_path):
    """What the program is told."""
    topic = f"program-{uuid.uuid4().hex[:8]}"
    kafka.create_topics(stack.bootstrap_servers, {topic: 2})
    return {
        "root": str(paths.root()),
        "bootstrap": stack.bootstrap_servers,
        "topic": topic,
        "checkpoint": str(tmp_path / "checkpoint"),
        "rows": 400,
        "until": 1,
    }


def numbers(told):
    """The values that a reader at read_committed sees."""
    rows = kafka.drain(told["bootstrap"], told["topic"])
    return sorted(int((row.value or "").rstrip(".")) for row in rows)


@pytest.mark.long
def test_the_code_travels_with_the_query_and_a_batch_in_flight_outlives_other_cores(told, tmp_path):
    python = bare_python(tmp_path / "bare")
    few = {"master": "local[2,4]", "conf": {"spark.sql.shuffle.partitions": "3"}}
    more = {"master": "local[4,4]", "conf": {"spark.sql.shuffle.partitions": "7"}}
    held = Trap(tmp_path / "first", hold=[799])
    program = Program(python, {**told, **few, "folder": str(held.folder)})
    try:
        query = program.process.stdout.readline().strip()
        held.await_task(799)
        await_ledger(told["bootstrap"], query, [1, 2])
        pythons = program.look()
        assert {line[0] for line in pythons} == {str(python)}
    finally:
        program.kill()

    code, again, error = Program(python, {**told, **more, "folder": str(tmp_path / "second")}).end()
    assert (code, again.strip()) == (0, query), error
    values = numbers(told)
    assert values == list(range(len(values)))
    assert len(values) >= 800


@pytest.mark.long
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_speculation_is_refused(kind, stack, told, tmp_path):
    conf = {"spark.speculation": "true"}
    if kind == "connect":
        with driver_of_ones_own(stack, **conf) as driver, connected(stack, driver) as session:
            copy = Copy(stack, session)
            with pytest.raises(SinkRefused, match=r"spark\.speculation is true"):
                copy.start()
    else:
        asked = {**told, "master": "local[2]", "conf": conf, "folder": str(tmp_path / "trap")}
        code, _, error = Program(sys.executable, asked).end()
        assert code == 1
        assert "refused: spark.speculation is true" in error


def test_a_query_changes_over_from_sparks_own_sink_and_back(copy):
    for count, run in (
        (150, copy.run_with_spark),
        (120, copy.run),
        (130, copy.run_with_spark),
        (50, copy.run),
    ):
        copy.feed(count)
        run()
        assert copy.counted() == copy.wanted()
