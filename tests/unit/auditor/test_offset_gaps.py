"""The cleanup policy of topics, as a broker tells it or does not, and what offsets without a record mean then."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.auditor import offset_gaps
from tidemark.auditor.offset_gaps import CleanupPolicy, OffsetGaps, cleanup_policies
from tidemark.formats.audited_query import AuditedQuery


class Admin:
    """Answers for each topic with its settings, or with an error."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    def describe_configs(self, resources: list[Any], **_given: float) -> dict[Any, Future[Any]]:
        found: dict[Any, Future[Any]] = {}
        for resource in resources:
            answer = found[resource] = Future()
            told = self._answers[resource.name]
            if isinstance(told, Exception):
                answer.set_exception(told)
            else:
                answer.set_result({name: SimpleNamespace(value=value) for name, value in told.items()})
        return found


def test_the_policy_of_each_topic_is_told(monkeypatch):
    admin = Admin({"a": {"cleanup.policy": "compact"}, "b": {"cleanup.policy": "delete"}})
    monkeypatch.setattr(offset_gaps, "connected_admin", lambda _broker: admin)

    assert cleanup_policies("127.0.0.1:9", ["b", "a"]) == {
        "a": CleanupPolicy("a", "compact"),
        "b": CleanupPolicy("b", "delete"),
    }


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), "Topic authorization failed"),
        (TimeoutError(), "no answer within 15 s"),
        ({}, "the broker names no cleanup.policy"),
        ({"cleanup.policy": None}, "the broker names no cleanup.policy"),
    ],
    ids=["no right", "no answer", "not named", "without a value"],
)
def test_a_policy_that_cannot_be_read_is_not_known_and_says_why(monkeypatch, answer, why):
    monkeypatch.setattr(offset_gaps, "connected_admin", lambda _broker: Admin({"a": answer}))

    policy = cleanup_policies("127.0.0.1:9", ["a"])["a"]

    assert (policy.is_known, policy.compacts) == (False, False)
    for with_unknown in (False, True):
        assert why in policy.said_of(2, with_unknown=with_unknown)
        assert "DESCRIBE_CONFIGS" in policy.said_of(2, with_unknown=with_unknown)


def test_without_topics_no_broker_is_asked(monkeypatch):
    monkeypatch.setattr(offset_gaps, "connected_admin", lambda _broker: pytest.fail("asked"))

    assert cleanup_policies("127.0.0.1:9", []) == {}


@pytest.mark.parametrize(
    ("setting", "may"),
    [("delete", False), ("compact", True), ("compact,delete", True), ("delete, compact", True), ("", False)],
)
def test_a_topic_is_compacted_if_its_policy_says_so_among_others(setting, may):
    assert (CleanupPolicy("a", setting).is_known, CleanupPolicy("a", setting).compacts) == (True, may)


ABOUT = AuditedQuery(first_batch=0, from_batch=0, to_batch=1, owed_to=1, output_removals=["of a table"])
COMPACTED, PLAIN, UNKNOWN = (
    CleanupPolicy("c", "compact"), CleanupPolicy("p", "delete"), CleanupPolicy("u", None, "no right"),
)  # fmt: skip


def test_a_topic_whose_policy_is_not_known_is_compacted_only_if_that_with_unknown():
    gaps = OffsetGaps({"a": (1, COMPACTED), "b": (2, PLAIN), "d": (3, UNKNOWN)}, (4, UNKNOWN))

    assert gaps.has_unknown
    plain, wary = (gaps.told_in(ABOUT, with_unknown=with_unknown) for with_unknown in (False, True))
    assert (plain.compacted, plain.output_removals) == (["a"], ["of a table"])
    assert (wary.compacted, len(wary.output_removals)) == (["a", "d"], 2)
    told = [
        [note.split(":")[1].split("(")[0].strip() for note in gaps.notes(with_unknown=one)]
        for one in (False, True)
    ]
    unknown = "whether Kafka compacts the topic 'u' is not known"
    assert told == [
        ["Kafka compacts the topic 'c'", unknown, unknown],
        ["Kafka compacts the topic 'c'", unknown],
    ]


def test_a_compacted_output_is_a_reason_for_rows_that_are_gone_and_no_note():
    gaps = OffsetGaps({}, (4, COMPACTED))

    assert not gaps.has_unknown
    [_, said] = gaps.told_in(ABOUT, with_unknown=False).output_removals
    assert said.startswith("Kafka compacts the topic 'c'")
    assert gaps.notes(with_unknown=False) == []
