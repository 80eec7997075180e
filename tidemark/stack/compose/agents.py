"""Programs that wait inside of containers, to look after single processes there.

Free of stacks. A command that is run anew in a container takes a third of a second, most of it to start a Python; a
program that waits there answers in milliseconds, which is what a fault at a commit point has. Each process of ours has
one for each container that it asks, and it ends with whoever asked: its standard input does.
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
"""Calibration: milliseconds; a process in the middle of disk I/O is waited for up to 60 s
(``inside/worker_processes.py``)."""

_HEADER = 8
_STDOUT = 1
_open: dict[str, Agent] = {}
_turn = threading.Lock()


def ask(api: Any, container: str, program: Sequence[str], words: Sequence[str]) -> tuple[int, str]:
    """What a program in a container answers to a command: its exit code, and what it says.

    It is started if it does not wait there yet, or its container was started anew. The engine's own errors are raised
    as they are.

    Raises:
        ContainerEngineError: it does not answer.
    """
    _must_run(api, container)
    try:
        return _agent(api, container, program).ask(words)
    except ConnectionError:
        _forget(container)
    try:
        return _agent(api, container, program).ask(words)
    except ConnectionError as error:
        _forget(container)
        raise ContainerEngineError(
            f"the program that looks after processes in {container} does not start",
            detail=str(error),
            hint="`tidemark status` says whether the stack is well",
        ) from error


class Agent:
    """One program in one container; one command at a time."""

    def __init__(self, api: Any, container: str, program: Sequence[str]) -> None:
        asked = api.exec_create(container, list(program), stdin=True)["Id"]
        self._stream = api.exec_start(asked, socket=True)
        self._socket: socket.socket = self._stream._sock
        self._socket.settimeout(ANSWER_S)
        self._lock = threading.Lock()
        self._errors = ""

    def ask(self, words: Sequence[str]) -> tuple[int, str]:
        """Raises ``ConnectionError`` if it has ended, ``ContainerEngineError`` if it does not answer."""
        with self._lock:
            try:
                self._socket.sendall(json.dumps(list(words)).encode() + b"\n")
                code, said = json.loads(self._line())
            except TimeoutError as error:
                raise ContainerEngineError(
                    f"no answer within {ANSWER_S:g} s to {words[0]!r} from inside of a container",
                    detail=self._errors,
                    hint="`tidemark status` says whether the stack is well",
                ) from error
            except OSError as error:
                raise ConnectionError(self._errors or str(error)) from error
        return int(code), str(said)

    def close(self) -> None:
        """Hang up, which ends the program."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._stream._response.close()

    def _line(self) -> bytes:
        """The next line of standard output; what comes of standard error is kept for a message."""
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
                raise ConnectionError(self._errors or "it has ended")
            read += piece
        return read


def _must_run(api: Any, container: str) -> None:
    """Have the engine say so if the container does not run, or is frozen, in the words it has for that."""
    known = api.inspect_container(container)["State"]
    if known["Paused"] or not known["Running"]:
        api.exec_create(container, ["true"])


def _agent(api: Any, container: str, program: Sequence[str]) -> Agent:
    with _turn:
        if container not in _open:
            _open[container] = Agent(api, container, program)
        return _open[container]


def _forget(container: str) -> None:
    with _turn:
        if agent := _open.pop(container, None):
            agent.close()


@atexit.register
def _close() -> None:
    for container in list(_open):
        _forget(container)
