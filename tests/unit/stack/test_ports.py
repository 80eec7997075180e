from __future__ import annotations

import socket

import pytest

from tidemark.errors import PortTaken
from tidemark.stack.components.ports import LOOPBACK, can_bind, free_ports, listens, requested_port


@pytest.fixture
def taken():
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server.getsockname()[1]


def test_free_ports_are_different_and_can_be_bound():
    ports = free_ports(6)
    assert len(set(ports)) == 6
    assert all(can_bind(port) for port in ports)


def test_free_ports_are_not_those_of_outgoing_connections():
    with socket.create_server((LOOPBACK, 0)) as server:
        assert all(port < max(server.getsockname()[1], 32768) for port in free_ports(20))


def test_a_requested_port_in_use_is_an_error(taken):
    with pytest.raises(PortTaken, match=str(taken)) as error:
        requested_port(taken)
    assert "--kafka-port" in error.value.hint
    assert error.value.exit_code == 4


def test_a_listening_server_is_detected(taken):
    assert listens(taken)
    assert not listens(free_ports(1)[0])
