"""What executors exchange with their driver, and Spark with a broker, as packets of a container.

A container has a network of its own, in which the addresses of the others' containers tell the packets: in a worker's
those of the driver and of other workers are the link, in a broker's all but those of brokers and of this machine. The
rules of the packet filter are made inside, by a command that the engine runs as root; the containers of workers and
brokers have ``CAP_NET_ADMIN`` for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from docker.errors import NotFound

from tidemark.stack.api import REQUESTS, RESPONSES, ComponentKind, Executor, LinkTraffic, Toxic
from tidemark.stack.compose import docker_engine
from tidemark.stack.compose.compose_project import project_of
from tidemark.stack.packet_rules import STREAMS, Hook, PacketRules, broker_of, packets_of
from tidemark.stack.registry import ComponentRecord, StateFolder

CHAIN = "tidemark"
"""Each container has its own chains."""
_SENT, _RECEIVED = Hook("filter", "OUTPUT -p tcp", "-out"), Hook("filter", "INPUT -p tcp", "-in")


class ContainerLinks:
    """The links of one stack; :class:`tidemark.stack.runtime.PacketLinks` documents each method."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    def watch(
        self, worker: str, driver: ComponentRecord, own: Sequence[Executor], others: Sequence[Executor]
    ) -> None:
        """Begin to count what passes between the worker's container and those of the driver and of the others."""
        del own  # all that its container sends
        names = [driver.name, *sorted({executor.worker for executor in others})]
        addresses = [*filter(None, map(self._address, names))]
        sent = [f"-d {address} -j {CHAIN}-{STREAMS[REQUESTS]}" for address in addresses]
        received = [f"-s {address} -j {CHAIN}-{STREAMS[RESPONSES]}" for address in addresses]
        self._rules(worker).watch({_SENT: sent, _RECEIVED: received})

    def watch_broker(self, broker: str, port: int) -> None:
        """Begin to count what passes between the broker's container and all others but those of brokers.

        A driver that is started again may have another address. What comes from this machine comes from the gateway of
        the containers' network.
        """
        del port  # of all its listeners
        brokers = [one.name for one in self._state.components() if one.kind is ComponentKind.BROKER]
        networks = list(map(self._network, brokers))
        known = [str(network[what]) for what in ("IPAddress", "Gateway") for network in networks]
        others = dict.fromkeys(["127.0.0.0/8", *filter(None, known)])
        self._rules(packets_of(broker)).watch(
            {
                hook: [
                    *(f"{side} {address} -j RETURN" for address in others),
                    f"-j {CHAIN}-{STREAMS[stream]}",
                ]
                for hook, side, stream in ((_RECEIVED, "-s", REQUESTS), (_SENT, "-d", RESPONSES))
            }
        )

    def forget(self, link: str) -> None:
        """Take all rules out; a container that does not run has none."""
        if self._runs(link):
            self._rules(link).forget()

    def disturb(self, link: str, toxics: Sequence[Toxic]) -> None:
        """Disturb a watched link, but not by ``latency``; an error may leave it so in part."""
        for toxic in toxics:
            self._rules(link).disturb(toxic)

    def heal(self, link: str) -> None:
        """Take what disturbs a link out, and leave it watched."""
        rules = self._rules(link)
        if self._runs(link) and rules.are_there():
            rules.heal()

    def is_disturbed(self, link: str) -> bool:
        """Whether there are rules but those that count."""
        return self._runs(link) and self._rules(link).are_disturbing()

    def traffic(self, link: str) -> LinkTraffic:
        """Both streams since the link is watched."""
        return self._rules(link).traffic()

    def _rules(self, link: str) -> PacketRules:
        return PacketRules(CHAIN, partial(self._command, self._container(link)), (_SENT, _RECEIVED))

    def _runs(self, link: str) -> bool:
        api, container = docker_engine.connect(), self._container(link)
        with docker_engine.engine_errors(f"inspect {container}"):
            try:
                return bool(api.inspect_container(container)["State"]["Running"])
            except NotFound:
                return False

    def _address(self, name: str) -> str:
        """Nothing of a container that does not run."""
        return str(self._network(name)["IPAddress"])

    def _network(self, name: str) -> dict[str, Any]:
        container = self._container(name)
        with docker_engine.engine_errors(f"inspect {container}"):
            known: dict[str, Any] = docker_engine.connect().inspect_container(container)
        found: dict[str, Any] = known["NetworkSettings"]["Networks"][project_of(self._state)]
        return found

    def _container(self, name: str) -> str:
        return f"{project_of(self._state)}-{broker_of(name) or name}"

    @staticmethod
    def _command(container: str, command: str) -> tuple[int, str, str]:
        api = docker_engine.connect()
        with docker_engine.engine_errors(f"run a command in {container}"):
            made = api.exec_create(container, ["sh", "-c", command], user="0")
            texts = api.exec_start(made["Id"], demux=True)
            printed, errors = ((text or b"").decode(errors="replace") for text in texts)
            return int(api.exec_inspect(made["Id"])["ExitCode"]), printed, errors
