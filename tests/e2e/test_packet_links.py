"""Links of executors: packets of a group's processes are told from others, counted, disturbed, and left alone after.

Real processes and the kernel's packet filter; no Spark. A process in a worker's group stands where an executor is.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tidemark.errors import TestbedError
from tidemark.faults.network import seen_between, toxics_of
from tidemark.formats.faults import FaultAction, FaultComponent
from tidemark.processes import ProcessId, end
from tidemark.stack import REQUESTS, RESPONSES, ComponentKind, Executor
from tidemark.stack.local import packet_links
from tidemark.stack.local.packet_links import LocalLinks, chain_of, class_of, group_of
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.packet_rules import packets_of
from tidemark.stack.registry import ComponentRecord, StateFolder, Stopped, Target
from tidemark.stack.suspension import resume_abandoned
from tidemark.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(
        not packet_links.is_possible(), reason="the packet filter takes root, iptables and iproute2"
    ),
    pytest.mark.xdist_group("packet-filter"),
]

ANSWER_S = 20.0
BOTH = (REQUESTS, RESPONSES)
WORKER, OTHER = "worker-1", "worker-2"
PROGRAM = """
import socket, sys, threading

def served():
    listener = socket.create_server(("127.0.0.1", 0))
    def serve():
        while True:
            threading.Thread(target=echo, args=listener.accept()[:1], daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]

def echo(connection):
    try:
        while data := connection.recv(65536):
            connection.sendall(data)
    except OSError:
        pass

print(*(served() for _ in range(int(sys.argv[1]))), flush=True)
connections = {}
for line in sys.stdin:
    port, wait_s = line.split()
    try:
        if port not in connections:
            connections[port] = socket.create_connection(("127.0.0.1", int(port)), float(wait_s))
        connections[port].settimeout(float(wait_s))
        connections[port].sendall(b"x" * 4000)
        left = 4000
        while left:
            data = connections[port].recv(left)
            if not data:
                raise ConnectionResetError
            left -= len(data)
        print("answered", flush=True)
    except TimeoutError:
        print("silent", flush=True)
    except ConnectionError:
        connections.pop(port, None)
        print("reset", flush=True)
"""


class Peer:
    """A process that answers at its ports, and asks at others."""

    def __init__(self, listens: int, group: int | None = None) -> None:
        groups = None if group is None else [*os.getgroups(), group]
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(listens)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, extra_groups=groups,
        )  # fmt: skip
        self.ports = [int(port) for port in self._said().split()]
        self.process = ProcessId.of(self._process.pid)

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def asks(self, port: int, wait_s: float = 0.5) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{port} {wait_s}\n")
        self._process.stdin.flush()
        return self._said().strip()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Linked:
    """A driver, and an executor of each of two workers; links of the first are watched."""

    def __init__(self, state: StateFolder, ends: ExitStack) -> None:
        self.links = LocalLinks(state)
        self._state = state
        self.driver = self._peer(ends, 2)
        self.rpc, connect = self.driver.ports
        self.connect = connect
        self.executor = self._peer(ends, 1, group_of(state, WORKER))
        self.other = self._peer(ends, 1, group_of(state, OTHER))
        record = component("driver", ComponentKind.DRIVER, connect)
        record.process = self.driver.process
        own, others = Executor("0", WORKER, self.executor.process), Executor("1", OTHER, self.other.process)
        ends.callback(self.must_be_gone)
        ends.callback(self.links.forget, WORKER)
        ends.callback(self.links.forget, OTHER)
        self.record, self.own, self.others = record, own, others
        self.watch()

    def watch(self) -> None:
        """Both workers, as of a stack: a connection between their executors is of both links."""
        self.links.watch(WORKER, self.record, [self.own], [self.others])
        self.links.watch(OTHER, self.record, [self.others], [self.own])

    @staticmethod
    def _peer(ends: ExitStack, listens: int, group: int | None = None) -> Peer:
        peer = Peer(listens, group)
        ends.callback(peer.end)
        return peer

    def rules(self) -> list[str]:
        """What of the packet filter and of the traffic control of this machine is the watched link's."""
        commands = ["iptables -w -S", "iptables -w -t mangle -S", "tc class show dev lo"]
        lines = [
            line
            for command in commands
            for line in subprocess.check_output(command.split(), text=True).splitlines()
        ]
        own = [chain_of(self._state, WORKER), *(f" {class_of(self._state, WORKER, one)} " for one in BOTH)]
        return [line for line in lines if any(name in line for name in own)]

    def must_be_gone(self) -> None:
        assert self.rules() == []


def component(name: str, kind: ComponentKind, port: int) -> ComponentRecord:
    return ComponentRecord(
        name=name, kind=kind, argv=[], env={}, cwd="/", log="", address=f"127.0.0.1:{port}"
    )


@pytest.fixture
def state(tmp_path) -> StateFolder:
    folder = StateFolder(tmp_path / ".tidemark")
    folder.path.mkdir(parents=True)
    folder.write_component(component(WORKER, ComponentKind.WORKER, 1))
    return folder


@pytest.fixture
def linked(state) -> Iterator[Linked]:
    with ExitStack() as ends:
        yield Linked(state, ends)


def during(linked: Linked, action: str, amount: float | None, asks) -> dict[str, tuple[int, int]]:
    """What both directions see while a fault is in effect and something asks; healed after."""
    linked.links.disturb(WORKER, toxics_of(FaultAction(action), amount))
    assert linked.links.is_disturbed(WORKER)
    first = linked.links.traffic(WORKER)
    asks()
    seen = seen_between(FaultComponent.EXECUTOR, first, linked.links.traffic(WORKER))
    linked.links.heal(WORKER)
    assert not linked.links.is_disturbed(WORKER)
    return seen


def test_a_link_that_is_not_disturbed_passes_everything_and_counts_it(linked):
    first = linked.links.traffic(WORKER)
    assert linked.executor.asks(linked.rpc) == "answered"
    assert linked.executor.asks(linked.other.ports[0]) == "answered"
    assert linked.driver.asks(linked.executor.ports[0]) == "answered"
    seen = seen_between(FaultComponent.EXECUTOR, first, linked.links.traffic(WORKER))
    assert {name: one.received >= 3 * 4000 for name, one in seen.items()} == {
        "from_executor": True,
        "to_executor": True,
    }
    assert [one.received - one.passed for one in seen.values()] == [0, 0]


def test_of_a_link_what_is_not_between_executors_and_their_driver_is_not_counted(linked):
    first = linked.links.traffic(WORKER)
    assert linked.executor.asks(linked.connect) == "answered"  # where the driver's clients reach it
    assert linked.other.asks(linked.rpc) == "answered"
    assert linked.executor.asks(linked.executor.ports[0]) == "answered"  # as its Python workers would
    assert linked.driver.asks(linked.other.ports[0]) == "answered"
    seen = seen_between(FaultComponent.EXECUTOR, first, linked.links.traffic(WORKER))
    assert [one.received for one in seen.values()] == [0, 0]


def test_a_cut_silences_both_ways_and_nobody_else(linked):
    assert linked.executor.asks(linked.rpc) == "answered"

    def asks():
        assert linked.executor.asks(linked.rpc) == "silent"
        assert linked.executor.asks(linked.other.ports[0]) == "silent"  # a new connection
        assert linked.driver.asks(linked.executor.ports[0]) == "silent"
        assert linked.executor.asks(linked.connect) == "answered"
        assert linked.other.asks(linked.rpc) == "answered"

    seen = during(linked, "cut", None, asks)

    assert {name: (one.received > 0, one.passed) for name, one in seen.items()} == {
        "from_executor": (True, 0),
        "to_executor": (True, 0),
    }
    # What was not answered is sent again, so that nothing is lost.
    wait_until(lambda: linked.executor.asks(linked.rpc) == "answered", ANSWER_S, lambda: "an answer")


@pytest.mark.parametrize(
    ("action", "lost", "arrives"),
    [("cut-sent", "from_executor", "to_executor"), ("cut-received", "to_executor", "from_executor")],
)
def test_a_cut_one_way_lets_the_other_way_pass(linked, action, lost, arrives):
    assert linked.executor.asks(linked.rpc) == "answered"
    assert linked.driver.asks(linked.executor.ports[0]) == "answered"

    def asks():
        assert linked.executor.asks(linked.rpc) == "silent"
        assert linked.driver.asks(linked.executor.ports[0]) == "silent"

    seen = during(linked, action, None, asks)

    assert (seen[lost].received > 0, seen[lost].passed) == (True, 0)
    assert seen[arrives].passed == seen[arrives].received > 4000


def test_lost_packets_are_sent_again(linked):
    def asks():
        for _ in range(40):
            linked.executor.asks(linked.rpc, 5.0)

    seen = during(linked, "loss", 20.0, asks)

    assert all(one.received > one.passed > 0 for one in seen.values())


def test_a_throttled_link_has_packets_wait(linked):
    seen = during(
        linked, "throttle", 16.0, lambda: [linked.executor.asks(linked.rpc, 5.0) for _ in range(10)]
    )
    assert all(one.queued for one in seen.values())
    assert all(one.received == one.passed for one in seen.values())


def test_a_reset_closes_a_connection_on_which_something_is_sent(linked):
    assert linked.executor.asks(linked.rpc) == "answered"
    said = []
    seen = during(linked, "reset", None, lambda: said.append(linked.executor.asks(linked.rpc)))
    assert said == ["reset"]
    assert (seen["from_executor"].received > 0, seen["from_executor"].passed) == (True, 0)
    assert linked.executor.asks(linked.rpc) == "answered"


def test_a_link_is_left_alone_once_its_watcher_has_died(linked, state):
    linked.links.disturb(WORKER, toxics_of(FaultAction.CUT, None))
    owner = Peer(1)
    state.add("stopped", Stopped(Target(link=WORKER), owner.process), f"link-{WORKER}")
    resume_abandoned(state, ProcessRuntime(state))
    assert linked.links.is_disturbed(WORKER)
    end([owner.process], ask_s=0)
    owner.end()

    resume_abandoned(state, ProcessRuntime(state))

    linked.must_be_gone()
    assert state.records("stopped", Stopped) == []
    assert linked.executor.asks(linked.rpc) == "answered"


def test_a_stack_that_ends_takes_its_rules_with_it(linked, state):
    assert linked.rules()
    ProcessRuntime(state).end_all(None)
    linked.must_be_gone()


def test_a_port_of_the_executor_is_reached_by_nobody_while_it_is_cut(linked):
    linked.links.disturb(WORKER, toxics_of(FaultAction.CUT_RECEIVED, None))
    with pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", linked.executor.ports[0]), 0.5)


@pytest.mark.parametrize("action", ["cut", "cut-sent", "cut-received"])
@pytest.mark.parametrize("worker", [WORKER, OTHER])
def test_a_link_between_two_executors_is_cut_whichever_of_them_it_is_of(linked, worker, action):
    port = linked.other.ports[0]
    assert linked.executor.asks(port) == "answered"

    linked.links.disturb(worker, toxics_of(FaultAction(action), None))

    assert linked.executor.asks(port) == "silent"
    streams = linked.links.traffic(worker).streams.values()
    assert any(stream.received > stream.passed for stream in streams)


def test_a_link_that_is_watched_anew_goes_on_counting_and_stays_cut(linked):
    assert linked.executor.asks(linked.rpc) == "answered"
    before = linked.links.traffic(WORKER).streams[REQUESTS].received
    linked.links.disturb(WORKER, toxics_of(FaultAction.CUT, None))

    linked.watch()

    assert linked.executor.asks(linked.rpc) == "silent"
    assert linked.links.traffic(WORKER).streams[REQUESTS].received > before > 4000


def test_a_job_without_a_connect_server_is_watched_at_all_its_ports(linked):
    linked.record.address = ""
    linked.watch()
    first = linked.links.traffic(WORKER)
    assert linked.executor.asks(linked.connect) == "answered"
    assert linked.links.traffic(WORKER).streams[REQUESTS].received > first.streams[REQUESTS].received


def test_executors_without_the_workers_group_are_refused(linked):
    stranger = Executor("2", WORKER, linked.driver.process)
    with pytest.raises(TestbedError, match="no group of their own") as error:
        linked.links.watch(WORKER, linked.record, [stranger], [])
    assert "tidemark down" in error.value.hint


def test_what_was_left_half_made_is_taken_out(linked):
    """A watcher that was killed after it had marked connections, and before it told packets apart."""
    chain = chain_of(linked._state, WORKER)
    subprocess.check_call(f"iptables -w -D OUTPUT -o lo -p tcp -j {chain}".split())
    for operation in ("-F", "-X"):
        for name in (chain, f"{chain}-s", f"{chain}-r"):
            subprocess.check_call(["iptables", "-w", operation, name])

    linked.links.forget(WORKER)

    linked.must_be_gone()


def test_a_throttle_that_was_left_behind_is_taken_out(linked):
    """A watcher that was killed after it had made the classes, and before packets were sent there."""
    linked.links.disturb(WORKER, toxics_of(FaultAction.THROTTLE, 16.0))
    subprocess.check_call(f"iptables -w -t mangle -F {chain_of(linked._state, WORKER)}-c".split())
    assert linked.links.is_disturbed(WORKER)

    linked.links.heal(WORKER)

    assert not [line for line in linked.rules() if line.startswith("class")]


@pytest.fixture
def to_broker(state) -> Iterator[tuple[LocalLinks, Peer, Peer, str]]:
    """The link of a broker: a process that listens where brokers do for the network proxy, and one that asks there."""
    state.write_component(component("broker", ComponentKind.BROKER, 1))
    link, links = packets_of("broker"), LocalLinks(state)
    with ExitStack() as ends:
        broker, client = Linked._peer(ends, 2), Linked._peer(ends, 0)
        ends.callback(links.forget, link)
        links.watch_broker("broker", broker.ports[0])
        yield links, broker, client, link


def of_broker(links, link, asks):
    """What the requests to a broker, and its responses, see while something asks."""
    first = links.traffic(link)
    asks()
    return seen_between(FaultComponent.BROKER, first, links.traffic(link))


def test_packets_to_a_broker_are_lost_and_sent_again_and_those_to_its_other_port_are_not(to_broker):
    links, broker, client, link = to_broker
    proxied, others = broker.ports
    links.disturb(link, toxics_of(FaultAction.LOSS, 20.0))

    seen = of_broker(links, link, lambda: [client.asks(proxied, 5.0) for _ in range(40)])
    assert all(one.received > one.passed > 0 for one in seen.values())

    seen = of_broker(links, link, lambda: [client.asks(others) for _ in range(10)])
    assert all(
        one.received < 10 * 4000 for one in seen.values()
    )  # what was lost before may be sent again meanwhile
    links.heal(link)
    seen = of_broker(links, link, lambda: client.asks(proxied))
    assert all(one.received == one.passed > 4000 for one in seen.values())


def test_a_stack_that_ends_takes_the_rules_of_its_brokers_with_it(to_broker, state):
    links, broker, client, link = to_broker
    links.disturb(link, toxics_of(FaultAction.LOSS, 100.0))
    assert client.asks(broker.ports[0]) == "silent"

    ProcessRuntime(state).end_all(None)

    assert chain_of(state, link) not in subprocess.check_output(["iptables-save"], text=True)
    assert client.asks(broker.ports[0], 5.0) == "answered"


def test_packets_of_a_broker_are_left_alone_once_their_watcher_has_died(to_broker, state):
    links, _, _, link = to_broker
    links.disturb(link, toxics_of(FaultAction.LOSS, 100.0))
    owner = Peer(0)
    state.add("stopped", Stopped(Target(link=link), owner.process), f"link-{link}")
    end([owner.process], ask_s=0)
    owner.end()

    resume_abandoned(state, ProcessRuntime(state))

    assert chain_of(state, link) not in subprocess.check_output(["iptables-save"], text=True)
    assert state.records("stopped", Stopped) == []
