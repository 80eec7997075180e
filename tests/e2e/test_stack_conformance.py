"""What every backend must do: start, stop, kill, pause, resume, logs, status; executors; private drivers.

The tests do not depend on how a backend works. They have a stack of their own, because they kill its components; they
use it one after the other, also under ``pytest -n``, and leave it complete. Containers are skipped, with the reason,
where there is no engine and they were not requested.
"""

from __future__ import annotations

import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tests.e2e.sinks import connected
from tidemark.errors import TestbedError, UsageError
from tidemark.kafka import client as kafka
from tidemark.stack import POWERS, ComponentState
from tidemark.waiting import wait_until

ANSWER_S = 60.0
"""Calibration: an executor is replaced within 3 s, a Spark session answers within 5 s; both on two idle cores."""


@pytest.fixture
def stack(own_stack):
    """The stack, exclusively for this test."""
    return own_stack


@pytest.fixture
def own_driver(stack):
    driver = stack.start_driver(f"own-{uuid.uuid4().hex[:6]}")
    yield driver
    stack.stop(driver.name)


def states(stack) -> dict[str, ComponentState]:
    return {component.name: component.state for component in stack.status()}


def run_job(driver) -> int:
    """Count ten rows, in one partition for each executor."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(driver.remote).create()
    try:
        return session.range(0, 10, 1, 2).count()
    finally:
        session.stop()


def import_origins() -> type[DataSource]:
    """A data source with one row: the files from which driver and executor import PySpark and Py4J."""

    def origins() -> list[str]:
        import py4j
        import pyspark

        cached = [module.__spec__.cached or "" for module in (pyspark, py4j)]
        return [*cached, *(f"not there: {path}" for path in cached if not os.path.isfile(path))]

    class ImportOrigins(DataSource):
        @classmethod
        def name(cls) -> str:
            return "import_origins"

        def schema(self) -> str:
            return "driver array<string>, executor array<string>"

        def reader(self, schema):
            class Reader(DataSourceReader):
                def partitions(self):
                    return [InputPartition(origins())]

                def read(self, partition):
                    yield partition.value, origins()

            return Reader()

    return ImportOrigins


def write_record(stack, topic: str, value: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "message.timeout.ms": 30_000})
    producer.produce(topic, value.encode())
    assert producer.flush(30) == 0


def records(stack, topic: str) -> list[str | None]:
    return [record.value for record in kafka.read_all(stack.bootstrap_servers, topic)]


@pytest.fixture
def topic(stack):
    name = f"conformance-{uuid.uuid4().hex[:8]}"
    kafka.create_topics(stack.bootstrap_servers, {name: 1})
    yield name
    kafka.delete_topics(stack.bootstrap_servers, [name])


def await_executors(stack, driver: str, count: int = 2):
    def enough():
        found = stack.executors(driver)
        return found if len(found) == count else None

    return wait_until(enough, ANSWER_S, lambda: f"{count} executors, not {stack.executors(driver)}")


def test_every_component_runs(stack):
    asked = [name for name in stack.components() if name != "registry"]  # another test may have asked for one
    assert asked == ["broker", "master", "worker-1", "worker-2", "driver"]
    for component in stack.status():
        assert component.state is ComponentState.RUNNING
        assert component.pid
        assert component.address
        assert component.rss_bytes > 1 << 20


def test_versions_are_known(stack):
    assert {"java", "kafka", "spark", "connector", "python"} <= stack.versions.keys()


def test_every_component_has_a_log(stack):
    assert all(stack.logs(component, 5).strip() for component in stack.components())
    assert len(stack.logs("driver", 2).splitlines()) == 2


def test_an_unknown_component_is_wrong_usage(stack):
    with pytest.raises(UsageError, match="no component 'worker-9'") as error:
        stack.kill("worker-9")
    assert "worker-2" in error.value.detail


def test_the_broker_stores_and_returns_a_record(stack, topic):
    write_record(stack, topic, "x")
    assert records(stack, topic) == ["x"]


def test_the_driver_has_two_executors_and_runs_a_job_on_them(stack):
    assert len(await_executors(stack, "driver")) == 2
    assert run_job(stack.driver()) == 10


def test_driver_and_executors_import_compiled_modules_and_not_a_zip(stack):
    with connected(stack, stack.driver()) as session:
        session.dataSource.register(import_origins())
        [row] = session.read.format("import_origins").load().collect()
    for origins in row:
        assert [path.rsplit("/", 3)[1:3] for path in origins] == [
            ["pyspark", "__pycache__"],
            ["py4j", "__pycache__"],
        ]


def test_the_event_log_is_written_continuously(stack):
    driver = stack.driver()
    run_job(driver)

    def events() -> set[str]:
        lines = driver.event_log.read_text().splitlines()
        return {json.loads(line)["Event"] for line in lines if line.endswith("}")}

    wanted = {"SparkListenerApplicationStart", "SparkListenerExecutorAdded", "SparkListenerTaskEnd"}
    wait_until(lambda: wanted <= events(), ANSWER_S, lambda: f"{wanted} in {driver.event_log}: {events()}")


def test_host_driver_and_executors_share_the_work_folder(stack):
    from pyspark.sql.connect.session import SparkSession

    folder = stack.work_dir(f"shared-{uuid.uuid4().hex[:6]}")
    session = SparkSession.builder.remote(stack.driver().remote).create()
    try:
        session.range(10).write.json(str(folder / "rows"))
    finally:
        session.stop()
    written = [line for path in (folder / "rows").glob("part-*") for line in path.read_text().splitlines()]
    assert len(written) == 10


def test_a_killed_broker_comes_back_with_its_records(stack, topic):
    address = stack.bootstrap_servers
    write_record(stack, topic, "before")
    stack.kill("broker")
    assert states(stack)["broker"] is ComponentState.STOPPED
    stack.start("broker")
    assert states(stack)["broker"] is ComponentState.RUNNING
    assert stack.bootstrap_servers == address
    write_record(stack, topic, "after")
    assert records(stack, topic) == ["before", "after"]


@pytest.mark.long_on("compose")  # a Kafka client of this machine: the same there
def test_watched_ends_are_right_while_the_broker_restarts(stack, topic, monkeypatch):
    monkeypatch.setattr(kafka, "ANSWER_S", ANSWER_S)
    write_record(stack, topic, "before")
    observed = []
    with kafka.watched_ends(stack.bootstrap_servers, topic) as ends, ThreadPoolExecutor(1) as pool:
        observed.append(ends())
        stack.kill("broker")
        starting = pool.submit(stack.start, "broker")
        while not starting.done():
            observed.append(ends())
        starting.result()
        observed.append(ends())
    assert len(observed) > 2
    assert all(one == {0: 1} for one in observed)


def test_a_stopped_broker_comes_back_with_its_records(stack, topic):
    write_record(stack, topic, "before")
    stack.stop("broker")
    stack.start("broker")
    assert records(stack, topic) == ["before"]


def test_a_paused_broker_can_be_resumed(stack, topic):
    stack.pause("broker")
    try:
        assert states(stack)["broker"] is ComponentState.PAUSED
    finally:
        stack.resume("broker")
    assert states(stack)["broker"] is ComponentState.RUNNING
    write_record(stack, topic, "x")


def test_starting_a_running_component_changes_nothing(stack):
    before = stack.status()
    stack.start("broker")
    assert [component.pid for component in stack.status()] == [component.pid for component in before]


def test_a_killed_executor_is_replaced_by_the_master(stack):
    victim = await_executors(stack, "driver")[0]
    assert stack.kill_executor("driver", victim.executor_id) == victim
    assert victim not in stack.executors("driver")
    assert victim.executor_id not in {executor.executor_id for executor in await_executors(stack, "driver")}
    assert run_job(stack.driver()) == 10
    with pytest.raises(TestbedError, match="does not run"):
        stack.kill_executor("driver", victim.executor_id)


def test_a_paused_executor_can_be_resumed(stack):
    executor = await_executors(stack, "driver")[0]
    assert stack.pause_executor("driver", executor.executor_id) == executor
    assert stack.resume_executor("driver", executor.executor_id) == executor
    assert run_job(stack.driver()) == 10


def test_a_killed_worker_ends_its_executors_and_comes_back(stack):
    stack.kill("worker-1")
    assert states(stack)["worker-1"] is ComponentState.STOPPED
    wait_until(
        lambda: all(executor.worker == "worker-2" for executor in stack.executors("driver")),
        ANSWER_S,
        lambda: f"executors on worker-2 only: {stack.executors('driver')}",
    )
    stack.start("worker-1")
    await_executors(stack, "driver")
    assert run_job(stack.driver()) == 10


@pytest.mark.left_to_containers
def test_a_killed_driver_comes_back_at_its_address(stack):
    before = stack.driver()
    stack.kill("driver")
    with pytest.raises(TestbedError, match="does not run"):
        stack.driver()
    stack.start("driver")
    after = stack.driver()
    assert after.remote == before.remote
    assert after.app_id != before.app_id
    assert after.event_log != before.event_log
    assert {executor.worker for executor in await_executors(stack, "driver")} == {"worker-1", "worker-2"}
    assert run_job(after) == 10


@pytest.mark.long
def test_a_killed_private_driver_comes_back_at_its_address(stack, own_driver):
    stack.kill(own_driver.name)
    with pytest.raises(TestbedError, match="does not run"):
        stack.driver(own_driver.name)
    stack.start(own_driver.name)
    after = stack.driver(own_driver.name)
    assert after.remote == own_driver.remote
    assert after.app_id != own_driver.app_id
    assert run_job(after) == 10


def survives_many_killed_executors_and_a_killed_master(stack, driver) -> None:
    def kill_one() -> None:
        victim = await_executors(stack, driver.name)[0]
        stack.kill_executor(driver.name, victim.executor_id)

    for _ in range(12):
        kill_one()
    assert len(await_executors(stack, driver.name)) == 2
    assert run_job(driver) == 10

    stack.kill("master")
    stack.start("master")
    kill_one()
    assert len(await_executors(stack, driver.name)) == 2
    assert run_job(driver) == 10


@pytest.mark.long_on("compose")  # where a run under faults has a driver of its own every day
def test_a_private_driver_runs_beside_the_shared_one_and_survives_killed_executors_and_a_killed_master(stack):
    from pyspark.sql.connect.session import SparkSession

    driver = stack.start_driver("mine", {"spark.sql.shuffle.partitions": "3"})
    try:
        assert "mine" in stack.components()
        assert driver.app_id != stack.driver().app_id
        assert run_job(stack.driver()) == 10
        executors = await_executors(stack, "mine")
        assert {executor.worker for executor in executors} == {"worker-1", "worker-2"}
        ours = {executor.pid for executor in executors}
        assert not ours & {executor.pid for executor in stack.executors("driver")}

        session = SparkSession.builder.remote(driver.remote).create()
        assert session.conf.get("spark.sql.shuffle.partitions") == "3"
        assert session.range(0, 10, 1, 2).count() == 10
        session.stop()

        with pytest.raises(UsageError, match="cannot be called 'mine'"):
            stack.start_driver("mine")
        survives_many_killed_executors_and_a_killed_master(stack, driver)
    finally:
        stack.stop("mine")
    assert "mine" not in stack.components()


def test_a_component_can_be_partitioned_where_there_is_a_network(stack, topic):
    if "network" not in POWERS[stack.spec.backend]:
        with pytest.raises(UsageError, match="cannot be disconnected") as error:
            stack.partition_network("broker")
        assert "BACKEND=compose" in error.value.hint
        return
    write_record(stack, topic, "before")
    stack.partition_network("broker")
    try:
        assert states(stack)["broker"] is ComponentState.RUNNING
        with pytest.raises(TestbedError):
            records(stack, topic)
    finally:
        stack.heal_network("broker")
    write_record(stack, topic, "after")
    assert records(stack, topic) == ["before", "after"]


def test_a_driver_is_suspended_only_inside_the_block(stack):
    with stack.suspended("driver"):
        assert states(stack)["driver"] is ComponentState.PAUSED
    assert states(stack)["driver"] is ComponentState.RUNNING
    assert run_job(stack.driver()) == 10
