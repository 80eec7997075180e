"""The settings of brokers that want a login: no secret is among them, and clients are told no other way in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.formats.client_settings import read_properties
from tidemark.stack.components.kafka_security import (
    RIGHTS,
    client_properties,
    listener_settings,
    plain_secrets,
)
from tidemark.stack.components.kafka_settings import BrokerNetwork, broker_properties
from tidemark.stack.spec import KAFKA_SECURITY

STATE = Path("/state")


def settings_of(security: str, tmp_path) -> dict[str, str]:
    network = BrokerNetwork(
        bind="127.0.0.1", host=["127.0.0.1:1"], inside=[], controller=["127.0.0.1:2"], admin=["127.0.0.1:3"],
        security=listener_settings(security, STATE),
    )  # fmt: skip
    (tmp_path / "server.properties").write_text(broker_properties(1, Path("data"), network))
    return read_properties(tmp_path / "server.properties")


@pytest.mark.parametrize("security", KAFKA_SECURITY)
def test_every_listener_is_tls_and_only_the_brokers_themselves_may_do_everything(security, tmp_path):
    settings = settings_of(security, tmp_path)
    protocols = dict(pair.split(":") for pair in settings["listener.security.protocol.map"].split(","))
    listeners = {listener.split("://")[0] for listener in settings["listeners"].split(",")}
    assert listeners == protocols.keys() == {"HOST", "ADMIN", "CONTROLLER"}
    assert protocols["HOST"] == ("SSL" if security == "mtls" else "SASL_SSL")
    assert {protocols["ADMIN"], protocols["CONTROLLER"]} == {"SSL"}
    assert settings["inter.broker.listener.name"] == "ADMIN"
    assert settings["super.users"] == "User:broker"
    for listener in ("admin", "controller", *(["host"] if security == "mtls" else [])):
        assert settings[f"listener.name.{listener}.ssl.client.auth"] == "required"


@pytest.mark.parametrize("security", KAFKA_SECURITY)
def test_in_containers_those_inside_log_in_as_those_outside_and_brokers_have_a_listener_for_each_other(
    security,
):
    network = BrokerNetwork(
        bind="0.0.0.0", host=["127.0.0.1:1"], inside=["broker:9092"], controller=["broker:9093"],
        admin=["127.0.0.1:3"], between=["broker:9094"],
        security=listener_settings(security, STATE, in_containers=True),
    )  # fmt: skip
    lines = broker_properties(1, Path("data"), network).splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    protocols = dict(pair.split(":") for pair in settings["listener.security.protocol.map"].split(","))
    listeners = {listener.split("://")[0] for listener in settings["listeners"].split(",")}
    assert listeners == protocols.keys() == {"HOST", "INTERNAL", "ADMIN", "BETWEEN", "CONTROLLER"}
    assert protocols["INTERNAL"] == protocols["HOST"] == ("SSL" if security == "mtls" else "SASL_SSL")
    assert settings["inter.broker.listener.name"] == "BETWEEN"
    assert settings["listener.name.between.ssl.client.auth"] == "required"
    logins = {name.split(".")[2] for name in settings if name.endswith(".sasl.jaas.config")}
    assert logins == (set() if security == "mtls" else {"host", "internal"})


@pytest.mark.parametrize("in_containers", [False, True])
@pytest.mark.parametrize("security", KAFKA_SECURITY)
def test_those_who_come_through_the_network_proxy_log_in_as_the_others(security, in_containers):
    settings = listener_settings(security, STATE, proxied=True, in_containers=in_containers)
    protocols = dict(pair.split(":") for pair in settings["listener.security.protocol.map"].split(","))
    assert protocols["PROXIED"] == protocols["HOST"] == ("SSL" if security == "mtls" else "SASL_SSL")
    logins = {name.split(".")[2] for name in settings if name.endswith(".sasl.jaas.config")}
    assert logins - {"internal"} == (set() if security == "mtls" else {"host", "proxied"})


@pytest.mark.parametrize("security", KAFKA_SECURITY)
def test_the_password_is_in_the_clients_file_and_not_in_the_brokers_settings(security, tmp_path):
    (tmp_path / "client.properties").write_text(client_properties(security, STATE, "a-password"))
    client = read_properties(tmp_path / "client.properties")
    assert client["security.protocol"] in ("SSL", "SASL_SSL")
    assert ("a-password" in str(client)) == (security != "mtls")
    assert "password=" not in str(settings_of(security, tmp_path))
    assert 'user_tidemark="a-password"' in plain_secrets("a-password")


def test_the_rights_are_those_of_the_table_for_users():
    page = (Path(__file__).parents[3] / "docs/howto/external-cluster.md").read_text()
    table = page.partition("## Rights")[2].partition("##")[0]
    for kind, name, _, operations in RIGHTS:
        what = {
            "TOPIC": "| topics |",
            "BROKER": "| the cluster |",
            "GROUP": f"| groups that begin with `{name}` |",
        }
        [row] = [
            line for line in table.splitlines() if line.startswith(what.get(kind, "| transactional ids"))
        ]
        assert ", ".join(operations) in row
