"""What a worker's executors exchange with their driver and with other executors, as packets of the worker's container.

A container has a network of its own, in which the addresses of the others' containers tell the packets: those of the
driver and of other workers are the link, those of brokers and master are not. The rules of the packet filter are made
inside, by a command that the engine runs as root; a worker's container has ``CAP_NET_ADMIN`` for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from docker.errors import NotFound

from tidemark.errors import UsageError
from tidemark.stack.api import Executor, LinkTraffic, Toxic
from tidemark.stack.compose import docker_engine
from tidemark.stack.compose.compose_project import project_of
from tidemark.stack.packet_rules import Hook, PacketRules
from tidemark.stack.registry import ComponentRecord, StateFolder

CHAIN = "tidemark"
"""Each container has its own chains."""
_SENT, _RECEIVED = Hook("filter", "OUTPUT -p tcp", "-out"), Hook("filter", "INPUT -p tcp", "-in")


class ContainerLinks:
    """The links of the workers of one stack; :class:`tidemark.stack.runtime.PacketLinks` documents each method."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    def watch(
        self, worker: str, driver: ComponentRecord, own: Sequence[Executor], others: Sequence[Executor]
    ) -> None:
        """Begin to count what passes between the worker's container and those of the driver and of the others."""
        del own  # all that its container sends
        names = [driver.name, *sorted({executor.worker for executor in others})]
        addresses = list(map(self._address, names))
        sent = [f"-d {address} -j {CHAIN}-s" for address in addresses]
        received = [f"-s {address} -j {CHAIN}-r" for address in addresses]
        self._rules(worker).watch({_SENT: sent, _RECEIVED: received})

    def forget(self, worker: str) -> None:
        """Take all rules out; a container that does not run has none."""
        if self._runs(worker):
            self._rules(worker).forget()

    def disturb(self, worker: str, toxics: Sequence[Toxic]) -> None:
        """Disturb a watched link; an error may leave it disturbed in part. Raises ``UsageError`` for ``bandwidth``."""
        if any(toxic.kind == "bandwidth" for toxic in toxics):
            raise no_throttle()
        for toxic in toxics:
            self._rules(worker).disturb(toxic)

    def heal(self, worker: str) -> None:
        """Take what disturbs a link out, and leave it watched."""
        rules = self._rules(worker)
        if self._runs(worker) and rules.are_there():
            rules.heal()

    def is_disturbed(self, worker: str) -> bool:
        """Whether there are rules but those that count."""
        return self._runs(worker) and self._rules(worker).are_disturbing()

    def traffic(self, worker: str) -> LinkTraffic:
        """Both streams since the link is watched."""
        return self._rules(worker).traffic()

    def _rules(self, worker: str) -> PacketRules:
        return PacketRules(CHAIN, partial(self._command, self._container(worker)), (_SENT, _RECEIVED))

    def _runs(self, worker: str) -> bool:
        api, container = docker_engine.connect(), self._container(worker)
        with docker_engine.engine_errors(f"inspect {container}"):
            try:
                return bool(api.inspect_container(container)["State"]["Running"])
            except NotFound:
                return False

    def _address(self, name: str) -> str:
        container = self._container(name)
        with docker_engine.engine_errors(f"inspect {container}"):
            known: dict[str, Any] = docker_engine.connect().inspect_container(container)
        return str(known["NetworkSettings"]["Networks"][project_of(self._state)]["IPAddress"])

    def _container(self, name: str) -> str:
        return f"{project_of(self._state)}-{name}"

    @staticmethod
    def _command(container: str, command: str) -> tuple[int, str, str]:
        api = docker_engine.connect()
        with docker_engine.engine_errors(f"run a command in {container}"):
            made = api.exec_create(container, ["sh", "-c", command], user="0")
            texts = api.exec_start(made["Id"], demux=True)
            printed, errors = ((text or b"").decode(errors="replace") for text in texts)
            return int(api.exec_inspect(made["Id"])["ExitCode"]), printed, errors


def no_throttle() -> UsageError:
    """The error of a throttled link in containers."""
    return UsageError(
        "the network between driver and executors cannot be throttled in containers",
        detail="what a container receives has no queue of its own",
        hint="take loss, which slows it, too: executor:loss=20%@planned; or local processes: TIDEMARK_BACKEND=local",
    )
