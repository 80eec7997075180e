"""Agents: programs that run inside containers and take commands for single processes there.

Knows nothing of stacks. A new command in a container takes a third of a second, mostly to start Python; a running agent
answers in milliseconds, which a fault at a commit point needs. Each tidemark process has its own agent in each
container that it uses; the agent ends with it, because its standard input is closed.
"""

from __future__ import annotations

import atexit
import json
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tidemark.errors import ContainerEngineError

ANSWER_S = 90.0
"""Calibration: milliseconds; up to 60 s for a process in pending disk I/O (``inside/worker_processes.py``)."""

_HEADER = 8
_STDOUT = 1
_agents: dict[str, Agent] = {}
_agents_lock = threading.Lock()


def run_command(api: Any, container: str, program: Sequence[str], command: Sequence[str]) -> tuple[int, str]:
    """The exit code and the output of a command that the agent ``program`` runs in a container.

    Starts the agent if it does not run yet, or its container was restarted. Errors of the engine's client are raised
    unchanged.

    Raises:
        ContainerEngineError: the agent does not answer.
    """
    _must_accept_commands(api, container)
    try:
        return _agent(api, container, program).run(command)
    except ConnectionError:
        _forget(container)
    try:
        return _agent(api, container, program).run(command)
    except ConnectionError as error:
        _forget(container)
        raise ContainerEngineError(
            f"the agent in {container} did not start",
            detail=str(error),
            hint="`tidemark status` shows the state of the stack",
        ) from error


class Agent:
    """The agent in one container; it runs one command at a time."""

    def __init__(self, api: Any, container: str, program: Sequence[str]) -> None:
        exec_id = api.exec_create(container, list(program), stdin=True)["Id"]
        self._stream = api.exec_start(exec_id, socket=True)
        self._socket: socket.socket = self._stream._sock
        self._socket.settimeout(ANSWER_S)
        self._lock = threading.Lock()
        self._errors = ""

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """Raises ``ConnectionError`` if the agent has ended, ``ContainerEngineError`` if it does not answer."""
        with self._lock:
            try:
                self._socket.sendall(json.dumps(list(command)).encode() + b"\n")
                code, output = json.loads(self._line())
            except TimeoutError as error:
                raise ContainerEngineError(
                    f"an agent in a container did not answer {command[0]!r} within {ANSWER_S:g} s",
                    detail=self._errors,
                    hint="`tidemark status` shows the state of the stack",
                ) from error
            except OSError as error:
                raise ConnectionError(self._errors or str(error)) from error
        return int(code), str(output)

    def close(self) -> None:
        """Close the connection, which ends the agent."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._stream._response.close()

    def _line(self) -> bytes:
        """The next line of standard output; keeps standard error for an error message."""
        line = b""
        while not line.endswith(b"\n"):
            header = self._exactly(_HEADER)
            piece = self._exactly(int.from_bytes(header[4:], "big"))
            if header[0] == _STDOUT:
                line += piece
            else:
                self._errors = (self._errors + piece.decode(errors="replace"))[-2000:]
        return line

    def _exactly(self, count: int) -> bytes:
        read = b""
        while len(read) < count:
            piece = self._socket.recv(count - len(read))
            if not piece:
                raise ConnectionError(self._errors or "the agent has ended")
            read += piece
        return read


def _must_accept_commands(api: Any, container: str) -> None:
    """Have the engine raise its own error if the container does not run or is frozen."""
    state = api.inspect_container(container)["State"]
    if state["Paused"] or not state["Running"]:
        api.exec_create(container, ["true"])


def _agent(api: Any, container: str, program: Sequence[str]) -> Agent:
    with _agents_lock:
        if container not in _agents:
            _agents[container] = Agent(api, container, program)
        return _agents[container]


def _forget(container: str) -> None:
    with _agents_lock:
        if agent := _agents.pop(container, None):
            agent.close()


@atexit.register
def _close() -> None:
    for container in list(_agents):
        _forget(container)
