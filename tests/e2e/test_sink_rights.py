"""One task of the exactly-once sink as a user who may not do everything: what is missing is said, and costs nothing."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.e2e.own_broker import own_broker
from tests.e2e.tasks import LEDGER, Writer, made, values, wanted
from tests.support.tiers import every_day
from tidemark.kafka import client as kafka
from tidemark.sink.cluster_check import check_cluster
from tidemark.sink.sink_options import read_options
from tidemark.stack.components.ports import LOOPBACK

WRITER = "User:writer"
LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "writer",
    "kafka.sasl.password": "secret",
}
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin" user_admin="admin" user_writer="secret";'
)
SETTINGS = {
    "listener_security_protocol_map": "HOST:PLAINTEXT,CONTROLLER:PLAINTEXT,SECOND:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "PLAIN",
    "listener_name_second_plain_sasl_jaas_config": JAAS,
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
PREFIXED, LITERAL = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
RIGHTS = {
    "transactional id": (ResourceType.TRANSACTIONAL_ID, "tidemark.", PREFIXED, AclOperation.WRITE),
    "group": (ResourceType.GROUP, "tidemark.", PREFIXED, AclOperation.READ),
    "ledger topic": (ResourceType.TOPIC, LEDGER, LITERAL, AclOperation.READ),
    "output topic": (ResourceType.TOPIC, "protocol-", PREFIXED, AclOperation.WRITE),
}
"""The table of ``tidemark/sink/README.md``; READ and WRITE include DESCRIBE."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker that anybody may use at its plain address, and the user ``writer`` only as far as was allowed."""
    with own_broker(tmp_path_factory.mktemp("broker"), **SETTINGS) as broker:
        yield broker


@pytest.fixture
def told(guarded):
    """As ``tests.e2e.tasks.made``, with the user's login; at the start of a test he has no right."""
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    [deleted] = admin.delete_acls([everything]).values()
    deleted.result(30)
    told = made(guarded.bootstrap)
    return {**told, "options": LOGIN, "plain": told["bootstrap"], "bootstrap": f"{LOOPBACK}:{guarded.second}"}


def allow(told, *rights) -> None:
    """Grant rights: (kind, name, pattern, operation)."""
    admin = AdminClient({"bootstrap.servers": told["plain"]})
    wanted = [
        AclBinding(kind, name, pattern, WRITER, "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in rights
    ]
    for future in admin.create_acls(wanted).values():
        future.result(30)


def seen(told):
    return values({**told, "bootstrap": told["plain"]})


SAID = {
    "transactional id": ("allow WRITE on transactional id 'tidemark.{query}.0.0'",),
    "group": ("allow READ on group 'tidemark.{query}.0.0'",),
    "ledger topic": ("allow READ on the ledger topic 'tidemark-ledger'",),
    "output topic": ("allow WRITE on topic '{topic}'",),
}


@pytest.mark.parametrize("may_describe", every_day([True, False], [False]))
@pytest.mark.parametrize("missing", RIGHTS)
def test_a_right_that_is_missing_is_named_and_once_it_is_there_the_batch_is_written(
    missing, may_describe, told
):
    allow(told, *(right for name, right in RIGHTS.items() if name != missing))
    if may_describe:
        allow(told, (*RIGHTS[missing][:3], AclOperation.DESCRIBE))

    word, said = Writer(**told).go_on()

    print(missing, may_describe, said["message"])
    assert word == "failed"
    for text in SAID[missing]:
        assert text.format(**told) in said["message"]
    assert seen(told) == []
    allow(told, RIGHTS[missing])
    word, said = Writer(**told).go_on()
    assert (word, said["new"]) == ("done", True)
    assert not Writer(**told).go_on()[1]["new"]
    assert seen(told) == wanted(0)


def test_a_missing_right_to_create_the_ledger_topic_is_reported(told):
    ledger = f"ledger-{told['query'][:8]}"
    allow(told, *RIGHTS.values(), (ResourceType.TOPIC, ledger, LITERAL, AclOperation.READ))
    options = {
        **LOGIN,
        "kafka.bootstrap.servers": told["bootstrap"],
        "topic": told["topic"],
        "ledgerTopic": ledger,
    }

    answer = check_cluster(read_options(options))
    assert f"ledger topic {ledger!r} does not exist" in answer["message"]
    assert f"CREATE on topic {ledger!r}" in answer["hint"]
    assert ledger not in kafka.partitions(told["plain"])

    allow(told, (ResourceType.TOPIC, ledger, LITERAL, AclOperation.CREATE))
    assert "message" not in check_cluster(read_options(options))
    assert kafka.partitions(told["plain"])[ledger] == 1
    assert Writer(**{**told, "options": {**LOGIN, "ledgerTopic": ledger}}).go_on()[1]["new"]
    assert seen(told) == wanted(0)


def test_the_offset_retention_is_read_if_the_right_exists_and_is_optional(told):
    allow(told, *RIGHTS.values())
    options = {**LOGIN, "kafka.bootstrap.servers": told["bootstrap"], "topic": told["topic"]}
    assert check_cluster(read_options(options)) == {}

    allow(told, (ResourceType.BROKER, "kafka-cluster", LITERAL, AclOperation.DESCRIBE_CONFIGS))
    assert check_cluster(read_options(options)) == {"retention_s": str(7 * 24 * 3600)}


def test_a_wrong_password_is_reported(told):
    options = {**LOGIN, "kafka.sasl.password": "wrong", "kafka.transaction.timeout.ms": "2000"}
    word, said = Writer(**{**told, "options": options}).go_on()
    print(said["message"])
    assert word == "failed"
    assert "kafka.sasl" in said["message"]
    assert seen(told) == []
