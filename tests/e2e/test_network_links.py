"""The network proxy between two real sockets: each disturbance does what its name says, and nothing else is touched."""

from __future__ import annotations

import socket
import socketserver
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from tests.unit.stack.conftest import fake_record
from tidemark.faults.network import has_effect, seen_between, toxics_of
from tidemark.formats.faults import LINK_ACTIONS, FaultAction, FaultComponent
from tidemark.processes import ProcessId
from tidemark.stack import network_links
from tidemark.stack.components import launch_specs
from tidemark.stack.components.ports import LOOPBACK, free_ports
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.registry import StateFolder, Stopped, Target
from tidemark.stack.running_stack import RunningStack
from tidemark.stack.suspension import resume_abandoned

pytestmark = [pytest.mark.long]

WORD = b"0123456789" * 8
TOUCHED, OTHER = "broker", "broker-2"
PATIENCE_S = 0.3
SLOWED_MS = 5.0
"""Calibration: a round trip through an undisturbed link takes 0.1 to 0.5 ms, with other work on the machine 2 ms."""


class Echo(socketserver.BaseRequestHandler):
    """Answers what it is sent, and notes it."""

    def handle(self):
        while content := self.request.recv(4096):
            self.server.heard.append(content)
            self.request.sendall(content)


class Echoing(socketserver.ThreadingTCPServer):
    """At a port of its own."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self, port):
        super().__init__((LOOPBACK, port), Echo)
        self.heard: list[bytes] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Linked:
    """Two servers, each behind a link of one proxy."""

    def __init__(self, home):
        self.state = StateFolder(home)
        self.state.make()
        self.record = fake_record(home)
        self.record.kafka_ports, self.record.proxy_ports = free_ports(2), free_ports(2)
        self.record.proxied_ports, self.record.controller_ports = free_ports(2), free_ports(2)
        self.servers = dict(zip((TOUCHED, OTHER), map(Echoing, self.record.proxied_ports), strict=True))
        self.stack = RunningStack(self.state, self.record, ProcessRuntime(self.state))
        for name in self.servers:
            self.state.write_component(self._broker(name))
        self.bootstrap = self.stack.start_proxy()

    def _broker(self, name):
        (self.state.path / name).mkdir(exist_ok=True)
        return launch_specs.broker(self.state, self.record, 1 if name == TOUCHED else 2)

    @contextmanager
    def client(self, name):
        """A connection through a link."""
        port = dict(zip(self.servers, self.record.proxy_ports, strict=True))[name]
        with socket.create_connection((LOOPBACK, port)) as client:
            client.settimeout(PATIENCE_S)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield client

    def round_trip_ms(self, name, count=40):
        """The median time of a word and its answer."""
        with self.client(name) as client:
            times = []
            for _ in range(count):
                begun = time.perf_counter()
                assert answer(client) == WORD
                times.append(1000 * (time.perf_counter() - begun))
        return statistics.median(times)

    def close(self):
        self.stack.stop("proxy")
        for server in self.servers.values():
            server.shutdown()
            server.server_close()


def answer(client):
    """The answer to a word; empty if the connection is closed, ``None`` if nothing comes."""
    try:
        client.sendall(WORD)
        return client.recv(4096)
    except TimeoutError:
        return None
    except ConnectionError:
        return b""


@pytest.fixture
def linked(tmp_path):
    found = Linked(tmp_path / "home")
    yield found
    found.close()


@pytest.fixture
def disturbed(linked):
    """A function that disturbs the first link for the length of a block, and gives what was seen of it."""

    @contextmanager
    def disturb(action, amount=None):
        seen = {}
        linked.stack.disturb_link(TOUCHED, toxics_of(FaultAction(action), amount))
        first = linked.stack.link_traffic(TOUCHED)
        yield seen
        last = linked.stack.link_traffic(TOUCHED)
        seen |= seen_between(FaultComponent.BROKER, first, last, holds=amount is not None)
        linked.stack.heal_link(TOUCHED)
        assert has_effect(FaultComponent.BROKER, FaultAction(action), amount, seen), seen

    return disturb


@pytest.mark.parametrize(
    ("action", "is_heard"), [("cut", False), ("cut-requests", False), ("cut-responses", True)]
)
def test_a_cut_link_is_silent_and_its_connections_are_closed_when_it_is_healed(
    linked, disturbed, action, is_heard
):
    with linked.client(TOUCHED) as old:
        assert answer(old) == WORD
        heard = linked.servers[TOUCHED].heard
        heard.clear()
        with disturbed(action) as seen, linked.client(TOUCHED) as new:
            assert (answer(old), answer(new)) == (None, None)
        assert b"".join(heard) == (2 * WORD if is_heard else b"")
        assert old.recv(1) == b""
    assert (seen["requests"].received, seen["requests"].passed) == (160, 160 if is_heard else 0)
    assert (seen["responses"].received, seen["responses"].passed) == (160 if is_heard else 0, 0)
    assert linked.round_trip_ms(TOUCHED) < SLOWED_MS


def test_a_reset_link_closes_the_connections_on_which_something_is_sent(linked, disturbed):
    with linked.client(TOUCHED) as old, linked.client(TOUCHED) as idle:
        assert answer(old) == answer(idle) == WORD
        with disturbed("reset"):
            assert answer(old) == b""
            with linked.client(TOUCHED) as new:
                new.sendall(WORD)
                with pytest.raises(ConnectionResetError):
                    new.recv(1)
        assert answer(idle) == WORD
    assert linked.round_trip_ms(TOUCHED) < SLOWED_MS


def test_a_delay_is_as_long_as_asked_for_in_each_direction(linked, disturbed):
    with linked.client(TOUCHED) as client:
        client.settimeout(5)
        assert answer(client) == WORD
        with disturbed("delay", 100.0) as seen:
            begun = time.monotonic()
            assert answer(client) == WORD
            assert 0.2 <= time.monotonic() - begun < 1.0
        assert 100 <= seen["requests"].held_ms < 150
        assert 100 <= seen["responses"].held_ms < 150
        assert answer(client) == WORD


@pytest.mark.parametrize(("action", "amount"), [("jitter", 50.0), ("throttle", 4.0)])
def test_what_is_slowed_comes_whole(linked, disturbed, action, amount):
    with linked.client(TOUCHED) as client:
        client.settimeout(5)
        with disturbed(action, amount) as seen:
            assert [answer(client) for _ in range(8)] == 8 * [WORD]
        assert seen["requests"].received == seen["requests"].passed == 8 * len(WORD)


@pytest.mark.parametrize(
    "action", [one for one in LINK_ACTIONS[FaultComponent.BROKER] if one != FaultAction.LOSS]
)
def test_what_is_not_touched_is_not_slowed(linked, action):
    """Another link, while the first one is disturbed, and has connections on which something is sent."""
    linked.stack.disturb_link(TOUCHED, toxics_of(action, 200.0))
    with linked.client(TOUCHED) as one, linked.client(TOUCHED) as two:
        one.sendall(100 * WORD)
        two.sendall(100 * WORD)
        assert linked.round_trip_ms(OTHER) < SLOWED_MS
    linked.stack.heal_link(TOUCHED)


def test_a_link_whose_disturber_has_died_is_healed(linked):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        owner = ProcessId.of(other.pid)
        linked.stack.disturb_link(TOUCHED, toxics_of(FaultAction.CUT, None))
        linked.state.add(
            "stopped", Stopped(Target(link=TOUCHED), owner), network_links.disturbance_name(TOUCHED)
        )
        resume_abandoned(linked.state, ProcessRuntime(linked.state))
        with linked.client(TOUCHED) as client:
            assert answer(client) is None, "its owner lives"
        other.kill()
    resume_abandoned(linked.state, ProcessRuntime(linked.state))
    assert linked.round_trip_ms(TOUCHED) < SLOWED_MS
    assert linked.state.records("stopped", Stopped) == []


def test_a_link_that_two_processes_disturb_is_healed_of_what_each_has_done(linked, monkeypatch):
    linked.stack.disturb_link(TOUCHED, toxics_of(FaultAction.CUT, None))
    with monkeypatch.context() as other_process:
        other_process.setattr(network_links, "disturbance_name", lambda link: f"link-{link}-by-1")
        assert not linked.stack.link_is_disturbed(TOUCHED)
        linked.stack.heal_link(TOUCHED)
        linked.stack.disturb_link(TOUCHED, toxics_of(FaultAction.DELAY, 200.0))
        linked.stack.heal_link(TOUCHED)
    with linked.client(TOUCHED) as client:
        assert answer(client) is None
    assert linked.stack.link_is_disturbed(TOUCHED)

    linked.stack.heal_link(TOUCHED)
    assert linked.round_trip_ms(TOUCHED) < SLOWED_MS
    assert linked.state.records("stopped", Stopped) == []


def test_a_proxy_that_was_killed_comes_back_with_its_links(linked):
    linked.stack.disturb_link(TOUCHED, toxics_of(FaultAction.CUT, None))
    linked.stack.kill("proxy")
    linked.stack.heal_link(TOUCHED)
    linked.stack.start_proxy()
    assert linked.round_trip_ms(TOUCHED) < SLOWED_MS
