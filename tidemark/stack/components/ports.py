"""Free TCP ports on the loopback address.

A free port is found by binding to it, below the range that the system uses for outgoing connections. Another program
may take it before the daemon binds to it; that is unlikely, and a cold start then tries again with other ports.
"""

from __future__ import annotations

import os
import random
import socket
import urllib.request
from pathlib import Path

from tidemark.errors import PortTaken, TestbedError

LOOPBACK = "127.0.0.1"
_LOWEST = 15000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_ELSEWHERE = 32768


def can_bind(port: int) -> bool:
    """Whether a server could listen on this port of the loopback address now."""
    with socket.socket() as server:
        server.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as Java does: a port in TIME_WAIT counts as free
        try:
            server.bind((LOOPBACK, port))
            server.listen(1)
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    """Whether a server accepts connections on this port of the loopback address."""
    with socket.socket() as client:
        client.settimeout(1.0)
        return client.connect_ex((LOOPBACK, port)) == 0


def accepts_connections(host: str, port: int) -> bool:
    """Whether a server accepts connections at an address that may be on another machine."""
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


def ask_here(request: str | urllib.request.Request, timeout_s: float) -> bytes:
    """The answer of a server of this machine by HTTP, past any proxy that the environment names. Raises ``OSError``."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=timeout_s) as answer:
        found: bytes = answer.read()
        return found


def free_ports(count: int) -> list[int]:
    """``count`` different ports that can be bound; raises ``TestbedError`` if there are not as many."""
    highest = min(_first_ephemeral(), 65536)
    lowest = min(_LOWEST, highest // 2)
    choice = random.Random(os.urandom(8))
    found: list[int] = []
    for _ in range(200 * count):
        port = choice.randrange(max(lowest, 1024), highest)
        if port not in found and can_bind(port):
            found.append(port)
        if len(found) == count:
            return found
    raise TestbedError(
        f"fewer than {count} free ports between {lowest} and {highest}",
        detail=f"binding to {200 * count} random ports of {LOOPBACK} did not find them",
        hint="`tidemark doctor` checks the loopback address",
    )


def requested_port(port: int) -> int:
    """``port`` itself; raises ``PortTaken`` if it cannot be bound."""
    if not can_bind(port):
        raise PortTaken(
            f"port {port} is in use",
            detail=f"another program listens on {LOOPBACK}:{port}",
            hint="choose another --kafka-port, or omit the option to get a free port",
        )
    return port


def _first_ephemeral() -> int:
    try:
        return int(_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _EPHEMERAL_ELSEWHERE
