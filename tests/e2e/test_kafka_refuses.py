"""A broker that does not let a client in: each reason is one clear error, within seconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.e2e.own_broker import own_broker
from tidemark.errors import KafkaRefused, TestbedError, UsageError
from tidemark.formats.client_settings import write_secret
from tidemark.kafka import client as kafka
from tidemark.stack import readiness
from tidemark.stack.components.ports import LOOPBACK, free_ports
from tidemark.stack.install.certificates import Authority

SOON_S = 10.0
"""Calibration: a refusal takes 0.3 s where the broker says it, 3 to 6 s where it only closes the connection."""
WITHOUT = ("create-on-topics", "delete-on-topics", "write-on-topics", "read-on-topics", "read-on-groups")
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin" user_admin="admin" user_nobody="secret" user_with-all="secret" '
    + " ".join(f'user_without-{right}="secret"' for right in WITHOUT)
    + ";"
)
NOBODY = {"sasl.mechanism": "PLAIN", "sasl.username": "nobody", "sasl.password": "secret"}
PROTOCOLS = {
    "HOST": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "SECOND": "SASL_PLAINTEXT",
    "LOGIN": "SASL_SSL",
    "EXPIRED": "SSL",
    "OTHER": "SSL",
    "MUTUAL": "SSL",
}


class Place:
    """One broker with a listener of each kind, and the files of its clients."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.ports = dict(zip(list(PROTOCOLS)[3:], free_ports(len(PROTOCOLS) - 3), strict=True))
        authority, stranger = Authority(), Authority("stranger")
        past = datetime.now(UTC) - timedelta(days=9), datetime.now(UTC) - timedelta(days=1)
        texts = {
            "ca": authority.certificate,
            "good": authority.issue("broker", [LOOPBACK]),
            "expired": authority.issue("broker", [LOOPBACK], past),
            "other": authority.issue("broker", ["elsewhere.example"]),
            "client": authority.issue("client"),
            "client-of-a-stranger": stranger.issue("client"),
            "ca-of-a-stranger": stranger.certificate,
        }
        for name, text in texts.items():
            write_secret(folder / f"{name}.pem", text)

    def settings(self) -> dict[str, str]:
        """Settings of the broker."""
        stores = {
            "login": "good",
            "mutual": "good",
            "expired": "expired",
            "other": "other",
        }
        settings = {
            "listener_security_protocol_map": ",".join(f"{name}:{kind}" for name, kind in PROTOCOLS.items()),
            "sasl_enabled_mechanisms": "PLAIN",
            "listener_name_second_plain_sasl_jaas_config": JAAS,
            "listener_name_login_plain_sasl_jaas_config": JAAS,
            "listener_name_mutual_ssl_client_auth": "required",
            "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super_users": "User:ANONYMOUS",
        }
        for listener, store in stores.items():
            settings |= {
                f"listener_name_{listener}_ssl_keystore_type": "PEM",
                f"listener_name_{listener}_ssl_keystore_location": str(self.folder / f"{store}.pem"),
                f"listener_name_{listener}_ssl_truststore_type": "PEM",
                f"listener_name_{listener}_ssl_truststore_location": str(self.folder / "ca.pem"),
            }
        return settings

    def client(self, listener: str, settings: dict[str, str]) -> dict[str, str]:
        """Settings of a client of this listener; a value may name one of the files."""
        port = self.ports.get(listener, self.broker.second)
        address = self.broker.bootstrap if listener == "HOST" else f"{LOOPBACK}:{port}"
        files = {
            name: str(self.folder / f"{value}.pem") if name.endswith("location") else value
            for name, value in settings.items()
        }
        return {**files, "bootstrap.servers": address}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("certificates"))
    with own_broker(tmp_path_factory.mktemp("broker"), listeners=made.ports, **made.settings()) as broker:
        made.broker = broker
        yield made


TLS = {"security.protocol": "SSL", "ssl.ca.location": "ca"}
CLIENT = {"ssl.certificate.location": "client", "ssl.key.location": "client"}
STRANGER = {"ssl.certificate.location": "client-of-a-stranger", "ssl.key.location": "client-of-a-stranger"}
OVER_TLS = {**TLS, "security.protocol": "SASL_SSL"}
REFUSED = {
    "no login": ("SECOND", {}, "wants a login, and the client has none"),
    "no login over TLS": ("LOGIN", TLS, "wants a login, and the client has none"),
    "no TLS": ("LOGIN", {}, "wants TLS, and the client has not begun it"),
    "no TLS for a login": (
        "LOGIN",
        {**NOBODY, "security.protocol": "SASL_PLAINTEXT"},
        "wants TLS, and the client has not begun it",
    ),
    "TLS where there is none": ("HOST", TLS, "does not speak TLS"),
    "wrong password": (
        "LOGIN",
        {**OVER_TLS, **NOBODY, "sasl.password": "wrong-secret"},
        "does not accept the login of user 'nobody'",
    ),
    "wrong mechanism": (
        "LOGIN",
        {**OVER_TLS, **NOBODY, "sasl.mechanism": "SCRAM-SHA-512"},
        "does not accept the login of user 'nobody'",
    ),
    "expired certificate": ("EXPIRED", TLS, "has expired"),
    "wrong host name": ("OTHER", TLS, "is not for the host '127.0.0.1'"),
    "unknown issuer": (
        "LOGIN",
        {**OVER_TLS, **NOBODY, "ssl.ca.location": "ca-of-a-stranger"},
        "does not trust",
    ),
    "no certificate": ("MUTUAL", TLS, "does not accept a client without a certificate"),
    "certificate of a stranger": (
        "MUTUAL",
        {**TLS, **STRANGER},
        "does not accept the client's certificate in",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_client_that_is_not_let_in_is_told_why_within_seconds(name, place):
    listener, settings, said = REFUSED[name]
    began = time.monotonic()
    with pytest.raises(KafkaRefused) as refused:
        kafka.partitions(place.client(listener, settings))
    took_s = time.monotonic() - began

    print(f"{took_s:.1f} s\n{refused.value}")
    assert said in refused.value.message
    assert refused.value.detail
    assert refused.value.hint
    assert "secret" not in str(refused.value)
    assert took_s < SOON_S


@pytest.mark.parametrize(
    ("listener", "settings"),
    [("MUTUAL", {**TLS, **CLIENT}), ("LOGIN", {**OVER_TLS, **NOBODY}), ("OTHER", {
        **TLS, "ssl.endpoint.identification.algorithm": "none"
    }), ("HOST", {})],
)  # fmt: skip
def test_a_client_with_the_right_login_and_certificates_is_let_in(listener, settings, place):
    assert isinstance(kafka.partitions(place.client(listener, settings)), dict)


def test_a_right_that_is_missing_is_named_with_the_login(place):
    client = place.client("SECOND", {**NOBODY, "security.protocol": "SASL_PLAINTEXT"})
    with pytest.raises(
        KafkaRefused, match=r"login of user 'nobody' .* may not create topic 'mine'"
    ) as refused:
        kafka.create_topics(client, {"mine": 1})
    assert "table of rights" in refused.value.hint
    assert "mine" not in kafka.partitions(place.broker.bootstrap)


RIGHTS = {
    "CREATE on topics": (ResourceType.TOPIC, "tidemark-ready-", AclOperation.CREATE),
    "DELETE on topics": (ResourceType.TOPIC, "tidemark-ready-", AclOperation.DELETE),
    "WRITE on topics": (ResourceType.TOPIC, "tidemark-ready-", AclOperation.WRITE),
    "READ on topics": (ResourceType.TOPIC, "tidemark-ready-", AclOperation.READ),
    "READ on groups": (ResourceType.GROUP, "tidemark-ready-", AclOperation.READ),
}


@pytest.mark.parametrize("missing", [*RIGHTS, ""])
def test_a_cluster_is_tried_with_a_login_and_each_missing_right_is_said_within_seconds(missing, place):
    user = f"without-{missing.lower().replace(' ', '-')}" if missing else "with-all"
    client = {**place.client("SECOND", NOBODY), "security.protocol": "SASL_PLAINTEXT", "sasl.username": user}
    allow(place, user, [right for name, right in RIGHTS.items() if name != missing])
    began = time.monotonic()
    if not missing:
        readiness.round_trip(client, lambda: None)
        return
    with pytest.raises(
        KafkaRefused, match=f"login of user '{user}' .* may not create, write, read"
    ) as refused:
        readiness.round_trip(client, lambda: None)
    print(f"{time.monotonic() - began:.1f} s\n{refused.value}")
    assert "AUTHORIZATION_FAILED" in refused.value.detail
    assert time.monotonic() - began < SOON_S


def allow(place, user: str, rights) -> None:
    """Give a user rights on everything that begins with a name."""
    admin = AdminClient({"bootstrap.servers": place.broker.bootstrap})
    wanted = [
        AclBinding(
            kind,
            prefix,
            ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for kind, prefix, operation in rights
    ]
    for future in admin.create_acls(wanted).values():
        future.result(30)


def test_a_setting_that_is_none_of_kafkas_is_wrong_usage(place):
    with pytest.raises(UsageError, match="cannot be made with the settings") as refused:
        kafka.partitions(place.client("HOST", {"default.api.timeout.ms": "1"}))
    assert "default.api.timeout.ms" in refused.value.detail


def test_where_nothing_listens_nobody_speaks_of_a_login_that_was_given():
    [port] = free_ports(1)
    with pytest.raises(TestbedError, match="no Kafka broker answers") as refused:
        kafka.partitions(
            {**NOBODY, "security.protocol": "SASL_PLAINTEXT", "bootstrap.servers": f"{LOOPBACK}:{port}"}
        )
    assert not isinstance(refused.value, KafkaRefused)
    assert "--kafka-conf" not in refused.value.hint
