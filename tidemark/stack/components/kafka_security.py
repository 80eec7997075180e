"""Settings of brokers that want a login, and the rights of the one user that they know. Pure functions.

Clients reach the listener ``HOST``, and in containers ``INTERNAL``, over TLS, with user and password (``sasl-plain``,
``sasl-scram``) or with a certificate (``mtls``). Brokers and controllers reach each other, and tidemark the brokers to
make the user, over listeners of their own with certificates on both sides. The user has the rights that runs and sink
need, and no others.
"""

from __future__ import annotations

from pathlib import Path

from tidemark.stack.components.kafka_settings import PROXIED

FOLDER = "kafka-security"
"""Below the stack's folder: certificates, keys and passwords, in files that their owner alone can read."""
CA_FILE, BROKER_FILE, SECRETS_FILE = f"{FOLDER}/ca.pem", f"{FOLDER}/broker.pem", f"{FOLDER}/broker.properties"
CERTIFICATE_FILE = f"{FOLDER}/client.pem"
CLIENT_FILE = f"{FOLDER}/client.properties"
"""The settings of a client, in Kafka's Java names."""
USER, BROKER_USER = "tidemark", "broker"
MECHANISMS = {"sasl-plain": "PLAIN", "sasl-scram": "SCRAM-SHA-512"}
PLAIN_LOGIN = "plain.login"
"""The setting in ``SECRETS_FILE`` that has the users of PLAIN and their passwords."""
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"

RIGHTS = (
    ("TOPIC", "*", "LITERAL", ("CREATE", "DELETE", "READ", "WRITE", "DESCRIBE_CONFIGS")),
    ("GROUP", "tidemark", "PREFIXED", ("READ",)),
    ("TRANSACTIONAL_ID", "tidemark", "PREFIXED", ("WRITE",)),
    ("BROKER", "kafka-cluster", "LITERAL", ("DESCRIBE_CONFIGS",)),
)
"""Resource, name, pattern and operations that the user is allowed; READ, WRITE and DELETE include DESCRIBE."""


def listener_settings(
    security: str, state: Path, *, in_containers: bool = False, proxied: bool = False
) -> dict[str, str]:
    """What a broker's settings have besides for this login, or have in the place of those without one.

    ``proxied``: it has a listener behind the network proxy, too, which passes on what it does not understand.
    """
    protocol = "SSL" if security == "mtls" else "SASL_SSL"
    of_clients = ["HOST", "INTERNAL"] if in_containers else ["HOST"]
    of_clients += [PROXIED] if proxied else []
    of_brokers = ["ADMIN", "BETWEEN", "CONTROLLER"] if in_containers else ["ADMIN", "CONTROLLER"]
    protocols = dict.fromkeys(of_clients, protocol) | dict.fromkeys(of_brokers, "SSL")
    settings = {
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        "inter.broker.listener.name": "BETWEEN" if in_containers else "ADMIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(state / BROKER_FILE),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(state / CA_FILE),
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{BROKER_USER}",
    }
    for name in protocols:
        wants_one = name in of_brokers or security == "mtls"
        settings[f"listener.name.{name.lower()}.ssl.client.auth"] = "required" if wants_one else "none"
    mechanism = MECHANISMS.get(security)
    if mechanism is None:
        return settings
    settings["sasl.enabled.mechanisms"] = mechanism
    users = f"{_SCRAM_MODULE} required;"
    if mechanism == "PLAIN":
        settings["config.providers"] = "file"
        settings["config.providers.file.class"] = "org.apache.kafka.common.config.provider.FileConfigProvider"
        users = f"${{file:{state / SECRETS_FILE}:{PLAIN_LOGIN}}}"
    logins = [f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config" for name in of_clients]
    return settings | dict.fromkeys(logins, users)


def plain_secrets(password: str) -> str:
    """The text of ``SECRETS_FILE``."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{PLAIN_LOGIN}={module} required user_{USER}="{password}";\n'


def client_properties(security: str, state: Path, password: str) -> str:
    """The text of ``CLIENT_FILE``."""
    settings = {
        "security.protocol": "SSL" if security == "mtls" else "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(state / CA_FILE),
    }
    if security == "mtls":
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(state / CERTIFICATE_FILE)}
    else:
        mechanism = MECHANISMS[security]
        name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        module = f"org.apache.kafka.common.security.{name}"
        settings["sasl.mechanism"] = mechanism
        settings["sasl.jaas.config"] = f'{module} required username="{USER}" password="{password}";'
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def admin_client(state: Path, bootstrap: str) -> dict[str, str]:
    """Settings of a client that may do everything: it has the brokers' own certificate."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(state / CA_FILE),
        "ssl.certificate.location": str(state / BROKER_FILE),
        "ssl.key.location": str(state / BROKER_FILE),
    }
