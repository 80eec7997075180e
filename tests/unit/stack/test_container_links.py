"""Which packets of a container are a link: those of a worker's executors, those of a broker. The engine is of words."""

from __future__ import annotations

import pytest

from tidemark.stack import REQUESTS, RESPONSES, ComponentKind, Executor, Toxic
from tidemark.stack.compose import container_links
from tidemark.stack.compose.compose_project import project_of
from tidemark.stack.compose.container_links import ContainerLinks
from tidemark.stack.registry import ComponentRecord, StateFolder

ADDRESSES = {
    "broker": "10.0.0.2",
    "broker-2": "10.0.0.3",
    "driver": "10.0.0.4",
    "worker-1": "10.0.0.5",
    "worker-2": "",
}


class Engine:
    """Containers with addresses; it notes the commands that are run in them, in which every chain is missing."""

    def __init__(self, project):
        self.project, self.commands = project, []

    def inspect_container(self, container):
        network = {"IPAddress": ADDRESSES[self._name(container)], "Gateway": "10.0.0.1"}
        return {"State": {"Running": True}, "NetworkSettings": {"Networks": {self.project: network}}}

    def exec_create(self, container, command, user):
        assert user == "0"
        self.commands.append((self._name(container), command[-1]))
        return {"Id": command[-1]}

    def exec_start(self, _number, demux):
        assert demux
        return b"", b""

    def exec_inspect(self, command):
        return {"ExitCode": int(" -nL " in command or " -C " in command)}

    def _name(self, container):
        assert container.startswith(f"{self.project}-")
        return container.removeprefix(f"{self.project}-")

    def rules(self, where):
        """The rules that tell packets apart in a container, by their chain."""
        told = [
            line.removeprefix("-A tidemark").split(maxsplit=1)
            for name, command in self.commands
            if name == where and "iptables-restore" in command
            for line in command.splitlines()
            if line.startswith(("-A tidemark-out ", "-A tidemark-in "))
        ]
        return [(chain, rule) for chain, rule in told]


@pytest.fixture
def engine(tmp_path, monkeypatch):
    state = StateFolder(tmp_path / ".tidemark")
    state.path.mkdir(parents=True)
    for name in ("broker", "broker-2"):
        state.write_component(
            ComponentRecord(
                name=name, kind=ComponentKind.BROKER, argv=[], env={}, cwd="/", log="", address=""
            )
        )
    found = Engine(project_of(state))
    monkeypatch.setattr(container_links.docker_engine, "connect", lambda: found)
    found.links = ContainerLinks(state)
    return found


def test_of_a_broker_all_packets_are_the_link_but_those_of_brokers_and_of_this_machine(engine):
    engine.links.watch_broker("broker-2", 0)

    others = ["127.0.0.0/8", "10.0.0.2", "10.0.0.3", "10.0.0.1"]
    rules = engine.rules("broker-2")
    assert [rule for chain, rule in rules if chain == "-in"] == [
        *(f"-s {address} -j RETURN" for address in others), "-j tidemark-s",
    ]  # fmt: skip
    assert [rule for chain, rule in rules if chain == "-out"] == [
        *(f"-d {address} -j RETURN" for address in others), "-j tidemark-r",
    ]  # fmt: skip
    assert {name for name, _ in engine.commands} == {"broker-2"}


def test_of_a_worker_the_packets_of_the_driver_and_of_workers_that_run_are_the_link(engine):
    driver = ComponentRecord(
        name="driver", kind=ComponentKind.DRIVER, argv=[], env={}, cwd="/", log="", address=""
    )
    engine.links.watch("worker-1", driver, [], [Executor("1", "worker-2", None)])

    assert sorted(engine.rules("worker-1")) == [
        ("-in", "-s 10.0.0.4 -j tidemark-r"), ("-out", "-d 10.0.0.4 -j tidemark-s"),
    ]  # fmt: skip


@pytest.mark.parametrize("rate", [16, 64, 1000])
def test_what_is_beyond_a_rate_is_lost_in_a_container(engine, rate):
    engine.links.disturb("worker-1", [Toxic("bandwidth", RESPONSES, {"rate": rate})])

    most = f"--hashlimit-above {rate}kb/s --hashlimit-burst {rate}kb"  # a smaller burst is refused
    rule = f"-m hashlimit --hashlimit-name tidemark-r {most} -j DROP"
    assert engine.commands == [("worker-1", f"iptables -w -I tidemark-r 2 {rule}")]


@pytest.mark.parametrize(("stream", "chain"), [(REQUESTS, "tidemark-s"), (RESPONSES, "tidemark-r")])
def test_a_link_of_a_broker_is_disturbed_in_its_container(engine, stream, chain):
    engine.links.disturb("broker-2-packets", [Toxic("timeout", stream, {"timeout": 0})])

    assert engine.commands == [("broker-2", f"iptables -w -I {chain} 2 -j DROP")]
