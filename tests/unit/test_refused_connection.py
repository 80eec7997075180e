"""What is said of an address behind which no broker is: a proxy accepts connections for one that is starting."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tidemark.kafka.refused_connection import refusal


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[int]]]:
    """The address of a listener that closes each connection; and how many it has closed."""
    closed: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_each() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.close()
                closed.append(1)

        thread = threading.Thread(target=close_each)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", closed
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("protocol", ["plaintext", "ssl", "sasl_ssl", "sasl_plaintext"])
def test_a_connection_that_nobody_answers_is_no_refusal(protocol, proxy):
    address, closed = proxy

    assert refusal({"bootstrap.servers": address, "security.protocol": protocol}) is None
    assert closed
