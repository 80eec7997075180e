"""Makes brokers want a login: certificates and passwords before they start, the user and its rights once they run."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemark.errors import TestbedError
from tidemark.formats.client_settings import broker_settings, read_client_settings, write_secret
from tidemark.stack import readiness
from tidemark.stack.api import PROXY
from tidemark.stack.components import kafka_security as parts
from tidemark.stack.components import launch_specs
from tidemark.stack.components.names import broker_names
from tidemark.stack.components.ports import LOOPBACK
from tidemark.stack.install.certificates import Authority
from tidemark.stack.registry import StackRecord, StateFolder

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ADMIN_S = 30.0
"""Calibration: a broker makes a user or a right in 10-50 ms."""
ITERATIONS = 4096
"""Of SCRAM's hash, the least that Kafka takes."""


def make_secrets(state: StateFolder, record: StackRecord) -> None:
    """Write certificates, keys and the client's settings below the stack's folder, before its brokers start."""
    folder = state.path / parts.FOLDER
    folder.mkdir(mode=0o700)
    authority, password = Authority(), secrets.token_urlsafe(24)
    write_secret(state.path / parts.CA_FILE, authority.certificate)
    hosts = (LOOPBACK, "localhost", PROXY, *broker_names(len(record.kafka_ports)))
    write_secret(state.path / parts.BROKER_FILE, authority.issue(parts.BROKER_USER, hosts))
    write_secret(state.path / parts.SECRETS_FILE, parts.plain_secrets(password))
    if record.kafka_security == "mtls":
        write_secret(state.path / parts.CERTIFICATE_FILE, authority.issue(parts.USER))
    settings = parts.client_properties(record.kafka_security, state.path, password)
    write_secret(state.path / parts.CLIENT_FILE, settings)


def client_settings(state: StateFolder, record: StackRecord) -> dict[str, str]:
    """The settings of a client of this stack on this machine, with its login if its brokers want one."""
    conf = state.path / parts.CLIENT_FILE if record.kafka_security else None
    return broker_settings(launch_specs.bootstrap_servers(record), conf)


def allow_clients(state: StateFolder, record: StackRecord, unless: Callable[[], object]) -> None:
    """Wait for the brokers, then make the user of SCRAM and give the user its rights.

    ``unless`` raises to end the wait. Raises ``TestbedError`` if a broker refuses one of them.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    broker = parts.admin_client(state.path, launch_specs.admin_servers(record))
    readiness.await_brokers(broker, len(record.kafka_ports), unless)
    admin = AdminClient({**broker, "log_level": 0})
    try:
        if record.kafka_security == "sasl-scram":
            _make_user(admin, read_client_settings(state.path / parts.CLIENT_FILE)["sasl.password"])
        _allow(admin)
    except (KafkaException, TimeoutError) as error:
        raise TestbedError(
            f"the user {parts.USER!r} could not be made on the brokers",
            detail=str(error),
            hint="the broker's log in failed-start says more; `tidemark doctor` checks the rest",
        ) from error


def _make_user(admin: AdminClient, password: str) -> None:
    from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    made = UserScramCredentialUpsertion(parts.USER, kind, password.encode())
    for answer in admin.alter_user_scram_credentials([made], request_timeout=ADMIN_S).values():
        answer.result(2 * ADMIN_S)


def _allow(admin: AdminClient) -> None:
    from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
    from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

    rights = [
        AclBinding(
            ResourceType[kind], name, ResourcePatternType[pattern], f"User:{parts.USER}", "*",
            AclOperation[operation], AclPermissionType.ALLOW,
        )
        for kind, name, pattern, operations in parts.RIGHTS
        for operation in operations
    ]  # fmt: skip
    for answer in admin.create_acls(rights, request_timeout=ADMIN_S).values():
        answer.result(2 * ADMIN_S)
