"""The plans that the unit tests read are those that Spark prints today."""

from __future__ import annotations

import pytest

from tests.spark.plan_queries import QUERIES, RECORDED, explain


@pytest.mark.parametrize("name", QUERIES)
def test_a_recorded_plan_is_what_spark_prints(name, session):
    recorded = (RECORDED / f"{name}.txt").read_text()

    assert explain(session, name) == recorded, "record again: python -m tests.spark.plan_queries REMOTE"


def test_every_recorded_plan_has_its_query():
    recorded = {path.stem for path in RECORDED.glob("*.txt")}

    assert recorded - {"spark_4_1"} == set(QUERIES)
