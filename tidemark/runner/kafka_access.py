"""How the programs of a run reach Kafka: the address and, where the brokers want one, the login.

A login is handed on as the path of a file, never as a value: to the programs of this machine as the file that the user
named, to driver and executors as references into a file that they see (:mod:`tidemark.formats.client_settings`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tidemark.errors import UsageError
from tidemark.formats.client_settings import (
    broker_settings,
    conf_from_environment,
    spark_options,
    write_for_spark,
)
from tidemark.stack import Stack

SPARK_FILE = "kafka.properties"


def conf_of(stack: Stack, asked: Path | None = None) -> Path | None:
    """The file with the settings of Kafka's clients: the one that was asked for, the stack's, or the environment's.

    ``TIDEMARK_KAFKA_CONF`` is for clusters that somebody else operates: the brokers of a stack that tidemark started
    want the login that it made, or none.
    """
    if asked is not None:
        return asked
    if stack.kafka_conf is not None or stack.spec.backend != "external":
        return stack.kafka_conf
    return conf_from_environment()


@dataclass(frozen=True)
class KafkaAccess:
    """``broker`` has the settings of this machine's clients, ``conf`` is the file that they come from.

    ``spark_file`` is the file as driver and executors see it, empty without a login; ``names`` are its settings.
    """

    broker: dict[str, str]
    bootstrap: str
    bootstrap_inside: str
    conf: Path | None = None
    spark_file: str = ""
    names: list[str] = field(default_factory=list)

    @property
    def for_producers(self) -> list[str]:
        """The arguments of a program that publishes."""
        login = [f"--kafka-conf={self.conf}"] if self.conf is not None else []
        return ["--bootstrap", self.bootstrap, *login]

    @property
    def for_pipelines(self) -> list[str]:
        """The arguments of a program that starts a query."""
        login = [f"--kafka-conf={self.spark_file}"] if self.spark_file else []
        return [
            f"--bootstrap={self.bootstrap_inside}",
            *login,
            *(f"--kafka-setting={name}" for name in self.names),
        ]

    @property
    def spark_options(self) -> dict[str, str]:
        """The login as options of Spark's Kafka source and sink."""
        return spark_options(self.spark_file, self.names)


def kafka_access(
    stack: Stack, folder: Path, asked: Path | None = None, *, inside: str | None = None
) -> KafkaAccess:
    """How a run reaches Kafka. ``folder`` is one that driver and executors see, too; the login is written there.

    ``inside`` is Kafka's address as driver and executors are to see it, if not the stack's.

    Raises ``UsageError`` for a file that cannot be used.
    """
    conf = conf_of(stack, asked)
    broker = broker_settings(stack.bootstrap_servers, conf)
    addresses = stack.bootstrap_servers, inside or stack.bootstrap_inside
    if conf is None:
        return KafkaAccess(broker, *addresses)
    file_inside = stack.kafka_conf_inside
    if file_inside is not None and asked is None:
        return KafkaAccess(broker, *addresses, conf, *file_inside)
    path = folder / SPARK_FILE
    if set(str(path)) & set(":{}"):
        raise UsageError(
            f"Spark cannot be told of the login in {str(path)!r}",
            detail="a reference to a file has a form of its own, in which :, { and } mean something",
            hint="use a folder without these characters",
        )
    return KafkaAccess(broker, *addresses, conf, str(path), write_for_spark(broker, path))
