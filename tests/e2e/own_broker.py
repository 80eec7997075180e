"""A Kafka broker of a test's own: of any locked version, with settings of its own, and a second listener.

It is a stack of one part: started, killed and ended as the stack's broker is, and ended by a reaper if the test is
killed. Ports are free ones, and stay over a restart.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from confluent_kafka import Consumer, TopicPartition

from tidemark.kafka import client as kafka
from tidemark.processes import ProcessId
from tidemark.stack import cold_start, readiness
from tidemark.stack.components import launch_specs
from tidemark.stack.components.ports import LOOPBACK, free_ports
from tidemark.stack.install import jars
from tidemark.stack.install.toolchain import find_java, find_spark
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.registry import ComponentRecord, Lease, StackRecord, StateFolder

STACKS_OWN = None
BEFORE_4 = "3.9.2"
TOO_OLD = "3.5.2"
LOCKS = {BEFORE_4: jars.BROKERS_LOCK, TOO_OLD: Path(__file__).with_name("brokers.lock")}


def on_brokers(every_day: str | None) -> pytest.MarkDecorator:
    """Runs each test of a module on a broker of this version every day, and on the other one in ``make long``."""
    versions = [
        pytest.param(
            version, id=version or "stacks-own", marks=[] if version == every_day else pytest.mark.long
        )
        for version in (STACKS_OWN, BEFORE_4)
    ]
    return pytest.mark.parametrize("modules_site", versions, indirect=True, scope="module")


class OwnBroker:
    """One broker. ``bootstrap`` is its plain address; ``second`` the port of a listener that may advertise another."""

    def __init__(self, home: Path, version: str | None = None) -> None:
        self.state = StateFolder(home)
        self.state.make()
        self.state.add("leases", Lease(ProcessId.own()), "test")
        plain, controller, self.second = free_ports(3)
        self.bootstrap = f"{LOOPBACK}:{plain}"
        self._runtime = ProcessRuntime(self.state)
        self._record = _record(version, plain, controller)
        self.state.write(self._record)

    def make(self, advertised: int | None, settings: Mapping[str, str], listeners: Mapping[str, int]) -> None:
        """Write its configuration: the stack's, with these settings and listeners (name -> port) besides."""
        part = launch_specs.broker(self.state, self._record, 1)
        more = "".join(f",{name}://{LOOPBACK}:{port}" for name, port in listeners.items())
        served = f"HOST://{self.bootstrap},SECOND://{LOOPBACK}:{self.second}{more}"
        own = {
            "listeners": f"{served},CONTROLLER://{LOOPBACK}:{self._record.controller_ports[0]}",
            "advertised.listeners": served.replace(str(self.second), str(advertised or self.second)),
            "listener.security.protocol.map": "HOST:PLAINTEXT,CONTROLLER:PLAINTEXT,SECOND:PLAINTEXT",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
            **settings,
        }
        with Path(part.cwd, "server.properties").open("a", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in own.items())
        self.state.write_component(part)

    @property
    def component(self) -> ComponentRecord:
        """How it is started, and which process it is."""
        component = self.state.component("broker")
        assert component is not None
        return component

    def start(self) -> None:
        """Start it, again after a kill, and wait until a record goes through it."""
        self._runtime.start([self.component])
        readiness.round_trip(self.bootstrap, lambda: readiness.must_live(self._runtime, self.component))

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._runtime.end(self.component, 0)

    @property
    def jars(self) -> list[str]:
        """What it runs with; a Java client of its version is among them."""
        return self._record.broker_jars

    def log(self) -> str:
        """What it has logged."""
        return self._runtime.log(self.component)


@contextmanager
def own_broker(
    home: Path,
    version: str | None = None,
    *,
    advertised: int | None = None,
    listeners: Mapping[str, int] = MappingProxyType({}),
    **settings: str,
) -> Iterator[OwnBroker]:
    """A running broker of this version (that of the stack, if not said); gone at exit, whatever happens.

    Its second listener tells clients to come to the port ``advertised``; ``listeners`` (name -> port) are more of them.
    In names of settings ``_`` stands for a dot.
    """
    broker = OwnBroker(home, version)
    try:
        cold_start.ensure_reaper(broker.state)
        broker.make(
            advertised, {name.replace("_", "."): value for name, value in settings.items()}, listeners
        )
        broker.start()
        yield broker
    finally:
        with broker.state.lock():
            cold_start.end_stack(broker.state)


def commit_an_offset(bootstrap: str) -> None:
    """Let a consumer group commit an offset, so that the cluster has the topic for the offsets of groups."""
    kafka.create_topics(bootstrap, {"somebodys": 1})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "somebody"})
    consumer.commit(offsets=[TopicPartition("somebodys", 0, 0)], asynchronous=False)
    consumer.close()


def _record(version: str | None, plain: int, controller: int) -> StackRecord:
    java, python = find_java(), Path(sys.executable)
    lock, group = (LOCKS[version], f"kafka-{version}") if version else (jars.LOCK, "broker")
    found = jars.provide(java, find_spark(python), [group], print, lock)[group]
    return StackRecord(
        digest="",
        backend="local",
        python=str(python),
        workers=0,
        asked_kafka_port=None,
        kafka_ports=[plain],
        controller_ports=[controller],
        versions={"kafka": version or jars.kafka_version()},
        java=str(java),
        java_home=str(Path(os.path.realpath(java)).parents[1]),
        worker_python=str(python),
        broker_jars=[str(path) for path in found],
    )
