"""Which batches can be judged, which records that takes, and what of them is gone."""

from __future__ import annotations

import pytest

from tests.unit.oracle.histories import contract
from tidemark.auditor.audited_batches import POLICY, as_logged, must_have_read, plan_audit
from tidemark.errors import UsageError
from tidemark.sparkfiles.checkpoint import PlannedBatch
from tidemark.sparkfiles.query_log import QueryLog

TOPICS = {"impressions": "prod-impressions", "clicks": "prod-clicks"}
HELD = {topic: {0: 0, 1: 0} for topic in TOPICS.values()}


def log(first: int, last: int, **changes) -> QueryLog:
    """Each batch reads 10 records of each of two partitions."""
    planned = [
        PlannedBatch(
            batch,
            1000 * batch,
            {topic: {"0": 10 * (batch + 1), "1": 10 * (batch + 1)} for topic in TOPICS.values()},
        )
        for batch in range(first, last + 1)
    ]
    started = {topic: {"0": 0, "1": 0} for topic in TOPICS.values()}
    return QueryLog(
        "the-query", planned, frozenset(range(first, last + 1)), **{"started": started, **changes}
    )


def test_a_whole_log_is_audited_from_batch_0_on():
    plan = plan_audit(log(0, 4), TOPICS, HELD, "", 4)

    assert (plan.about.first_batch, plan.about.from_batch, plan.about.to_batch, plan.about.owed_to) == (
        0,
        0,
        4,
        4,
    )
    assert plan.inputs["clicks"].start_offsets == {"0": 0, "1": 0}
    assert plan.inputs["clicks"].end_offsets == {"0": 50, "1": 50}
    assert plan.batches[0].end_offsets == {"impressions": {"0": 10, "1": 10}, "clicks": {"0": 10, "1": 10}}
    assert plan.about.deleted == {}


def test_a_trimmed_log_is_audited_from_its_second_batch_on():
    plan = plan_audit(log(7, 12), TOPICS, HELD, "", 12)

    assert (plan.about.first_batch, plan.about.from_batch) == (8, 8)
    assert [batch.batch for batch in plan.batches] == list(range(7, 13))


def test_a_query_that_began_later_in_a_topic_did_not_read_what_is_before():
    started = {"prod-clicks": {"0": 7}}

    plan = plan_audit(log(0, 1, started=started), TOPICS, {**HELD, "prod-clicks": {0: 4, 1: 0}}, "", 1)

    assert plan.inputs["clicks"].start_offsets == {"0": 7, "1": 0}
    assert plan.about.deleted == {}


def test_what_was_read_and_is_gone_is_named():
    held = {**HELD, "prod-clicks": {0: 12, 1: 99}}

    plan = plan_audit(log(0, 1), TOPICS, held, "", 1)

    assert plan.about.deleted == {"clicks": {"0": (0, 12), "1": (0, 20)}}
    assert plan.inputs["clicks"].start_offsets == {"0": 12, "1": 20}


@pytest.mark.parametrize(
    ("asked", "found"), [("", (3, 9)), ("5:7", (5, 7)), ("5:", (5, 9)), (":4", (3, 4)), ("4:4", (4, 4))]
)
def test_a_range_of_batches_limits_what_is_judged(asked, found):
    plan = plan_audit(log(2, 9), TOPICS, HELD, asked, 9)

    assert (plan.about.from_batch, plan.about.to_batch) == found
    assert plan.about.owed_to == found[1]


@pytest.mark.parametrize(
    "asked", ["5", "a:b", "7:5", "2:4", "0:", ":2", "10:", ":11", "-1:4", "1" * 30 + ":"]
)
def test_a_range_that_is_none_or_not_in_the_log_is_refused(asked):
    with pytest.raises(UsageError) as caught:
        plan_audit(log(2, 9), TOPICS, HELD, asked, 9)

    assert caught.value.hint


def test_a_log_of_one_batch_behind_the_first_cannot_be_audited():
    with pytest.raises(UsageError, match="no batch can be audited: the log has batch 5 only"):
        plan_audit(log(5, 5), TOPICS, HELD, "", 5)


def test_a_topic_that_no_batch_read_is_refused_with_those_that_were():
    with pytest.raises(UsageError) as caught:
        must_have_read(log(0, 1), {**TOPICS, "clicks": "clicks"})

    assert "no batch of the checkpoint read the topic 'clicks'" in caught.value.message
    assert "prod-clicks, prod-impressions" in caught.value.detail
    assert "--topic clicks=TOPIC" in caught.value.hint


def test_a_topic_of_which_the_beginning_is_not_known_is_refused():
    started = {"prod-impressions": {"0": 0}}

    must_have_read(log(0, 1), TOPICS)
    with pytest.raises(UsageError, match="does not say where the query began to read 'prod-clicks'"):
        must_have_read(log(0, 1, started=started), TOPICS)


def test_the_policy_of_the_log_is_the_one_that_counts_and_another_one_in_the_contract_is_said():
    same, nothing = as_logged(contract(), log(0, 1, conf={POLICY: "min"}))
    other, differences = as_logged(contract(), log(0, 1, conf={POLICY: "max"}))

    assert (same, nothing) == (contract(), [])
    assert str(other.policy) == "max"
    assert differences[0].startswith("the watermark policy: the contract says min, the log of the query max")
