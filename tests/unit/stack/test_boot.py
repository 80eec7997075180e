from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tidemark.errors import DaemonDied
from tidemark.stack import StackSpec, boot, jars, launch
from tidemark.stack.boot import Toolchain
from tidemark.stack.ports import LOOPBACK
from tidemark.stack.toolchain import Spark


@pytest.fixture
def start(state, monkeypatch, tmp_path):
    """A function that starts a stack whose daemons are started by ``start_all``; what it says is in ``start.said``."""
    monkeypatch.setattr(boot, "check_java", lambda _java: "17")
    monkeypatch.setattr(jars, "provide", lambda *_: {g: [] for g in ("broker", "connector", "spark-4.2.0")})
    tools = Toolchain(Path("java"), Spark(Path(sys.executable), "3.11", "4.2.0", tmp_path))

    def one(start_all):
        monkeypatch.setattr(boot, "_start_all", start_all)
        return boot.cold_start(state, StackSpec(), tools, "digest", one.said.append)

    one.said = []
    state.make()
    return one


def test_a_port_that_was_lost_to_somebody_else_is_replaced(start, state):
    with socket.socket() as somebody:
        tried = []

        def start_all(_state, record, _say):
            tried.append(record.master_port)
            if len(tried) == 1:
                somebody.bind((LOOPBACK, record.master_port))
                somebody.listen()
                (state.path / "broker").mkdir()
                raise DaemonDied("the master died while it started")
            assert not (state.path / "broker").exists()

        record = start(start_all)
    assert record.master_port == tried[1] != tried[0]
    assert "took port" in start.said[0]


def test_a_drivers_port_that_was_lost_is_seen(state, part, sleeper):
    """Somebody else answers where the driver should."""
    state.make()
    with socket.create_server((LOOPBACK, 0)) as somebody:
        address = f"sc://{LOOPBACK}:{somebody.getsockname()[1]}"
        driver = part("driver", "driver", address=address, process=sleeper())
        with pytest.raises(DaemonDied, match="did not get its port") as error:
            launch.await_port(driver)
    assert address in error.value.detail


def test_a_daemon_that_dies_of_something_else_is_not_tried_again(start):
    tried = []

    def start_all(_state, record, _say):
        tried.append(record)
        raise DaemonDied("the broker died while it started")

    with pytest.raises(DaemonDied):
        start(start_all)
    assert len(tried) == 1


def test_a_record_says_what_the_stack_is_made_of(start):
    record = start(lambda *_: None)
    assert record.versions == {
        "java": "17",
        "kafka": jars.kafka_version(),
        "spark": "4.2.0",
        "connector": "4.2.0",
        "python": "3.11",
    }
    ports = [record.kafka_port, record.controller_port, record.master_port, *record.worker_ports]
    assert len(set(ports)) == 5
