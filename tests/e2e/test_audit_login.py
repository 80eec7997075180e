"""``tidemark audit`` of a foreign query as a user who may read its topics and nothing else."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import tidemark
from tests.e2e.exposed import files_with
from tests.e2e.foreign_query import ForeignQuery, cluster_state
from tests.e2e.own_broker import commit_an_offset, own_broker
from tests.e2e.test_sink_rights import SETTINGS
from tidemark.errors import UsageError
from tidemark.formats.client_settings import write_secret
from tidemark.stack.components.ports import LOOPBACK

pytestmark = pytest.mark.long
PASSWORD = "read-only-secret"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="admin" user_admin="admin" user_auditor="{PASSWORD}";'
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker that the query uses at its plain address; at the other one the user ``auditor`` has no right yet."""
    settings = {**SETTINGS, "listener_name_second_plain_sasl_jaas_config": JAAS}
    with own_broker(tmp_path_factory.mktemp("broker"), **settings) as broker:
        commit_an_offset(broker.bootstrap)
        yield broker


@pytest.fixture(scope="module")
def query(guarded, tmp_path_factory):
    """A query that was killed in the middle of a batch and started again."""
    query = ForeignQuery(guarded.bootstrap, tmp_path_factory.mktemp("foreign"), seed=11)
    query.run_with_a_kill()
    assert query.repeats() > 0
    yield query
    query.drop()


def allow(bootstrap: str, operation: AclOperation, *topics: str) -> None:
    """Grant an operation on these topics, and READ on the groups that begin with ``tidemark``."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, operation) for topic in topics]
    places.append((ResourceType.GROUP, "tidemark", ResourcePatternType.PREFIXED, AclOperation.READ))
    bindings = [
        AclBinding(kind, name, pattern, "User:auditor", "*", allowed, AclPermissionType.ALLOW)
        for kind, name, pattern, allowed in places
    ]
    for created in admin.create_acls(bindings).values():
        created.result(30)


def test_an_audit_reads_as_a_user_who_may_read_three_topics(guarded, query, tmp_path):
    conf = tmp_path / "login" / "auditor.conf"
    conf.parent.mkdir()
    write_secret(
        conf,
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=auditor\nsasl.password={PASSWORD}\n",
    )

    def audited(name: str) -> tidemark.AuditResult:
        return tidemark.audit(
            query.checkpoint.path,
            query.contract,
            f"{LOOPBACK}:{guarded.second}",
            query.output,
            topics={"orders": query.orders, "payments": query.payments},
            delivery="exactly-once",
            kafka_conf=conf,
            run_dir=tmp_path / name,
        )

    allow(guarded.bootstrap, AclOperation.READ, query.orders, query.payments, query.output)
    with pytest.raises(UsageError, match="__consumer_offsets"):
        audited("refused")
    allow(guarded.bootstrap, AclOperation.DESCRIBE, "__consumer_offsets")
    before = cluster_state(guarded.bootstrap)
    verdict = audited("audit").verdict

    assert cluster_state(guarded.bootstrap) == before
    assert verdict.findings_total == {"duplicate_rows": query.repeats()}
    assert (verdict.verdict, verdict.inconclusive) == ("INVALID", [])
    assert files_with([PASSWORD], tmp_path, "login") == []
