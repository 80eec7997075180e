"""The network proxy as a component: where it listens, what it passes on to, and a start that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509

from tidemark.errors import DaemonDied
from tidemark.stack import running_stack, secured_kafka
from tidemark.stack.components import kafka_security, launch_specs
from tidemark.stack.running_stack import RunningStack


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "network-proxy-1"
    path.write_text("a program")
    path.chmod(0o755)
    return path


@pytest.fixture
def record(state, stack_record):
    """The record of a stack of two brokers with ports of the proxy."""
    state.make()
    stack_record.kafka_ports, stack_record.controller_ports = [1, 2], [9093, 9093]
    stack_record.proxy_ports, stack_record.proxied_ports = [9192, 9193], [9095, 9095]
    return stack_record


def links(component):
    config = json.loads((Path(component.cwd) / "proxies.json").read_text())
    return [(one["name"], one["listen"], one["upstream"]) for one in config]


def test_in_containers_it_passes_on_to_the_brokers_by_their_names(state, record, program):
    record.backend = "compose"
    found = launch_specs.proxy(state, record, program, 23456)

    assert links(found) == [
        ("broker", "0.0.0.0:9192", "broker:9095"), ("broker-2", "0.0.0.0:9193", "broker-2:9095"),
    ]  # fmt: skip
    assert launch_specs.bootstrap_proxied(record) == "proxy:9192,proxy:9193"
    copy = Path(found.argv[0])
    assert copy.parent == Path(found.cwd)
    assert copy.read_text() == "a program"
    assert copy.stat().st_mode & 0o111
    assert found.argv[1:3] == ["-api", "0.0.0.0:23456"]
    assert found.address == "http://127.0.0.1:23456"


def test_on_local_processes_all_is_on_the_loopback_address(state, record, program):
    found = launch_specs.proxy(state, record, program, 23456)

    assert links(found) == [
        ("broker", "127.0.0.1:9192", "127.0.0.1:9095"), ("broker-2", "127.0.0.1:9193", "127.0.0.1:9095"),
    ]  # fmt: skip
    assert found.argv[0] == str(program)


def test_the_certificate_of_the_brokers_has_its_name(state, record):
    record.kafka_security = "mtls"
    secured_kafka.make_secrets(state, record)

    certificate = x509.load_pem_x509_certificate((state.path / kafka_security.BROKER_FILE).read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"proxy", "broker", "broker-2"} <= set(names.get_values_for_type(x509.DNSName))


def test_a_proxy_that_does_not_start_leaves_nothing_behind(state, record, program, monkeypatch):
    said = []

    class Runtime:
        def start(self, components):
            raise DaemonDied("Compose could not start proxy")

        def end(self, component, ask_s):
            said.append(f"end {component.name}")

        def forget(self, component):
            said.append(f"forget {component.name}")

    monkeypatch.setattr(running_stack, "provide_network_proxy", lambda _say: program)
    stack = RunningStack(state, record, Runtime())
    with pytest.raises(DaemonDied, match="could not start proxy"):
        stack.start_proxy()

    assert said == ["end proxy", "forget proxy"]
    assert state.component("proxy") is None
