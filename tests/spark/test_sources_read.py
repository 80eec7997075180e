"""The sources that are left in Spark's plan of a chain, against those that the judge says are read."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

import pytest

from tests.spark import chain_queries
from tests.spark.chain_fuzz import SCHEMA
from tests.unit.oracle.test_optimizer import DISTINCT
from tidemark.formats.chain import Chain


@pytest.fixture(scope="module")
def records(session, seen_by_spark):
    """A stream with the fields of all topics; nothing is ever read of it."""
    (folder := seen_by_spark / "nothing").mkdir()
    return session.readStream.schema(SCHEMA).json(str(folder))


def physical_plan(rows) -> str:
    with redirect_stdout(StringIO()) as printed:
        rows.explain(True)
    return printed.getvalue().partition("== Physical Plan ==")[2]


@pytest.mark.parametrize(("last", "output", "kept"), DISTINCT)
def test_spark_reads_the_sources_that_the_judge_says_it_reads(last, output, kept, records):
    plan = physical_plan(chain_queries.query(Chain("any", last, output), records))

    assert plan.count("EventTimeWatermark") == len(kept), plan
