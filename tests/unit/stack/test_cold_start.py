from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tidemark.errors import DaemonDied, TestbedError
from tidemark.stack import StackSpec, cold_start, readiness
from tidemark.stack.components.ports import LOOPBACK
from tidemark.stack.install import jars
from tidemark.stack.install.toolchain import find_spark
from tidemark.stack.local import local_backend
from tidemark.stack.local.local_backend import LocalBackend
from tidemark.stack.local.process_runtime import ProcessRuntime


@pytest.fixture
def start(state, monkeypatch):
    """A function that starts a stack with ``start_all``; its progress messages are in ``start.messages``."""
    monkeypatch.setattr(local_backend, "check_java", lambda _java, _spark: "17")
    monkeypatch.setattr(
        jars, "provide", lambda *_: {g: [] for g in ("broker", "files", "connector", "spark-4.2.0")}
    )

    def one(start_all, spec=None):
        monkeypatch.setattr(cold_start, "_start_all", start_all)
        return cold_start.cold_start(state, LocalBackend(spec or StackSpec()), "digest", one.messages.append)

    one.messages = []
    state.make()
    return one


def test_a_port_taken_by_another_program_is_replaced(start, state):
    with socket.socket() as other:
        tried = []

        def start_all(_state, record, _runtime, _say):
            tried.append(record.master_port)
            if len(tried) == 1:
                other.bind((LOOPBACK, record.master_port))
                other.listen()
                (state.path / "broker").mkdir()
                raise DaemonDied("the master died while starting")
            assert not (state.path / "broker").exists()

        record = start(start_all)
    assert record.master_port == tried[1] != tried[0]
    assert "has taken port" in start.messages[0]


def test_a_drivers_port_taken_by_another_program_is_detected(state, component, sleeper):
    """Another program listens at the driver's address."""
    state.make()
    with socket.create_server((LOOPBACK, 0)) as other:
        address = f"sc://{LOOPBACK}:{other.getsockname()[1]}"
        driver = component("driver", "driver", address=address, process=sleeper())
        with pytest.raises(DaemonDied, match="could not bind its port") as error:
            readiness.await_driver(ProcessRuntime(state), driver)
    assert address in error.value.detail


def test_a_daemon_that_dies_for_another_reason_is_not_retried(start):
    tried = []

    def start_all(_state, record, _runtime, _say):
        tried.append(record)
        raise DaemonDied("the broker died while starting")

    with pytest.raises(DaemonDied):
        start(start_all)
    assert len(tried) == 1


def test_a_record_describes_the_stack(start):
    record = start(lambda *_: None)
    assert record.versions == {
        "java": "17",
        "kafka": jars.kafka_version(),
        "spark": "4.2.0",
        "connector": "4.2.0",
        "python": find_spark(Path(sys.executable)).python_version,
    }
    ports = [*record.kafka_ports, *record.controller_ports, record.master_port, *record.worker_ports]
    assert len(set(ports)) == 5


def test_three_brokers_have_ports_of_their_own(start):
    record = start(lambda *_: None, StackSpec(brokers=3, kafka_port=None))
    assert len({*record.kafka_ports, *record.controller_ports}) == 6
    assert record.spec == StackSpec(brokers=3)


def test_a_full_disk_is_reported_before_anything_is_started(start, monkeypatch):
    monkeypatch.setattr(cold_start, "LEAST_DISK", 1 << 60)
    with pytest.raises(TestbedError, match="the disk is full") as error:
        start(lambda *_: pytest.fail("it was started"))
    assert "free disk space" in error.value.hint


def test_the_end_of_a_log_has_messages_without_stack_frames(state, component, tmp_path):
    driver = component("driver", "driver")
    Path(driver.log).write_text(
        "Exception in thread main java.io.IOException: No space left on device\n"
        + "\tat org.apache.spark.Somewhere.in(Spark.scala:1)\n" * 40
        + "\t... 12 more\n"
    )
    tail = readiness.log_tail(ProcessRuntime(state), driver)
    assert tail == "Exception in thread main java.io.IOException: No space left on device"
