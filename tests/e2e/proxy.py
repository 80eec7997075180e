"""A TCP proxy before a broker that knows Kafka's frames: it holds, loses or cuts off a request or an answer.

A frame that is held holds back everything behind it in its direction, as a slow network does. It stays held, even if
its sender has died meanwhile, until it is released, lost (with all that follows it, while the connection stays open) or
cut off (both ends see the connection close).
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tidemark.stack.components.ports import LOOPBACK
from tidemark.waiting import wait_until

END_TXN = 26
REQUEST, ANSWER = "request", "answer"
CAUGHT_S = 60.0


@dataclass
class Held:
    """The next frame of a kind: wait until it is ``caught``, then decide."""

    api: int
    direction: str
    caught: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)
    answer: bytes = b""
    _decided: threading.Event = field(default_factory=threading.Event)
    _decision: str = ""

    def await_it(self) -> None:
        """Wait until the frame has come."""
        wait_until(self.caught.is_set, CAUGHT_S, lambda: f"a frame of API {self.api}", poll_s=0.001)

    def let_go(self) -> None:
        """Hand it on, and what is behind it."""
        self._decide("go")

    def lose(self) -> None:
        """Throw it away, and what is behind it; the connection stays open."""
        self._decide("lose")

    def cut(self) -> None:
        """Throw it away, and close the connection."""
        self._decide("cut")

    def error(self) -> int:
        """The error code that the broker answered to a request of EndTxn (version 0 to 2)."""
        wait_until(self.answered.is_set, CAUGHT_S, lambda: f"an answer to API {self.api}")
        return int(struct.unpack(">iih", self.answer[:10])[2])

    def decision(self) -> str:
        """Wait for it."""
        self._decided.wait()
        return self._decision

    def _decide(self, decision: str) -> None:
        self._decision = self._decision or decision
        self._decided.set()


class _Connection:
    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self.client, self.broker = client, broker
        self.asked: dict[int, tuple[int, Held | None]] = {}

    def cut(self) -> None:
        for end in (self.client, self.broker):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens at ``port``; connects to the broker's port ``target``, which may be set later."""

    def __init__(self) -> None:
        self.target = 0
        self._server = socket.create_server((LOOPBACK, 0))
        self.port = self._server.getsockname()[1]
        self.address = f"{LOOPBACK}:{self.port}"
        self._lock = threading.Lock()
        self._holds: list[Held] = []
        self._made: list[Held] = []
        self._connections: list[_Connection] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def hold(self, direction: str, api: int = END_TXN) -> Held:
        """Hold the next request of an API, or the answer to the next that is asked."""
        held = Held(api, direction)
        with self._lock:
            self._holds.append(held)
            self._made.append(held)
        return held

    def open_up(self) -> None:
        """Hold nothing any more; what is held now is cut off."""
        with self._lock:
            self._holds.clear()
            made, self._made = self._made, []
        for held in made:
            held.cut()

    def close(self) -> None:
        """Close everything."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.open_up()
        for connection in self._connections:
            connection.cut()
        for thread in self._threads:
            thread.join(10)
        for connection in self._connections:
            connection.client.close()
            connection.broker.close()

    def _start(self, do: object, *args: object) -> None:
        thread = threading.Thread(target=do, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection((LOOPBACK, self.target))
            except OSError:
                client.close()
                continue
            connection = _Connection(client, broker)
            self._connections.append(connection)
            self._start(self._pump, connection, REQUEST)
            self._start(self._pump, connection, ANSWER)

    def _pump(self, connection: _Connection, direction: str) -> None:
        ends = connection.client, connection.broker
        source, sink = ends if direction == REQUEST else ends[::-1]
        lost = False
        for frame in _frames(source):
            held = self._held(connection, direction, frame)
            decision = held.decision() if held is not None else "go"
            if decision == "cut":
                connection.cut()
                return
            lost = lost or decision == "lose"
            if not lost:
                with suppress(OSError):  # a sender that has died: what it is answered is still looked at
                    sink.sendall(struct.pack(">i", len(frame)) + frame)
        if not lost:
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

    def _held(self, connection: _Connection, direction: str, frame: bytes) -> Held | None:
        with self._lock:
            if direction == REQUEST:
                api, _, number = struct.unpack(">hhi", frame[:8])
                held = next((held for held in self._holds if held.api == api), None)
                connection.asked[number] = api, held
                if held is not None:
                    self._holds.remove(held)
            else:
                (number,) = struct.unpack(">i", frame[:4])
                _, held = connection.asked.pop(number, (-1, None))
                if held is not None:
                    held.answer = frame
                    held.answered.set()
            if held is None or held.direction != direction:
                return None
            held.caught.set()
            return held


def _frames(source: socket.socket) -> Iterator[bytes]:
    """Until the end, or until the connection breaks."""
    try:
        while size := source.recv(4, socket.MSG_WAITALL):
            (length,) = struct.unpack(">i", size)
            frame = source.recv(length, socket.MSG_WAITALL)
            if len(frame) < length:
                return
            yield frame
    except (OSError, struct.error):
        return


@contextmanager
def proxy() -> Iterator[Proxy]:
    """A proxy that is closed at exit."""
    between = Proxy()
    try:
        yield between
    finally:
        between.close()
