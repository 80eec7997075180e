"""A join that is made from its contract has the plan that the contract says: nothing is run, nothing is judged."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO

import pytest

from tidemark.campaigns.random_cases import BOUNDS, make_contract
from tidemark.formats.contract import Bound, Contract, Filter, JoinKind, Term
from tidemark.formats.record_fields import Field
from tidemark.oracle.spark.pushdown import as_planned, place
from tidemark.preflight import PlanComparison, compare, read_plan

OPEN = (Bound(), Bound(window_ms=2_000))
CONTRACTS = {
    kind: [make_contract("described", kind, bound) for bound in dict.fromkeys(bounds)]
    for kind, bounds in BOUNDS.items()
}
CONTRACTS[JoinKind.INNER] += [make_contract("described", JoinKind.INNER, bound) for bound in OPEN[1:]]


def compared(session, contract: Contract) -> PlanComparison:
    return compare(contract, read_plan(planned(session, contract)))


def planned(session, contract: Contract) -> str:
    from pipelines.described import pipeline_of

    records = session.readStream.format("rate").load()
    records = records.selectExpr("CAST(value AS STRING) AS value", "0 AS partition", "value AS offset")
    with redirect_stdout(StringIO()) as printed:
        pipeline_of(contract).build(records, records.alias("again")).explain()
    return printed.getvalue()


@pytest.mark.parametrize("kind", JoinKind)
def test_a_described_join_is_planned_as_its_contract_says(kind, session):
    assert {one.bound: compared(session, one) for one in CONTRACTS[kind]} == {
        one.bound: PlanComparison() for one in CONTRACTS[kind]
    }


FORMS = ("iso", "epoch-s", "epoch-ms", "epoch-us")


@pytest.mark.parametrize("kind", JoinKind)
def test_nested_fields_of_other_types_are_planned_as_their_contract_says(kind, session):
    plain = make_contract("described", kind, Bound(-5_000, 0))
    fields = (Field("n", "totals[0].n", "decimal(12,2)"), Field("k", "`a.b`.k", "string", "bigint"))
    found = {}
    for form in FORMS:
        left, right = (
            replace(side, id="meta.id", keys=("k",), time="meta.t", fields=fields, time_format=form)
            for side in (plain.left, plain.right)
        )
        left = replace(left, filters=(Filter("n", ">=", "0.50"),))
        condition = (Term("<", "n", "n"),)
        found[form] = compared(session, replace(plain, left=left, right=right, condition=condition))

    assert found == dict.fromkeys(FORMS, PlanComparison())


@pytest.mark.parametrize("kind", JoinKind)
def test_a_key_that_is_compared_is_planned_as_its_contract_says(kind, session):
    plain = make_contract("described", kind, Bound(-5_000, 0))
    left, right = (replace(side, keys=("k0", "n")) for side in (plain.left, plain.right))
    filtered = replace(plain, left=replace(left, filters=(Filter("n", ">=", 2),)), right=right)
    conditioned = replace(plain, left=left, right=right, condition=(Term("<", right="n", value=8),))

    assert compared(session, filtered) == PlanComparison()
    assert compared(session, conditioned) == PlanComparison()


@pytest.mark.parametrize("op", [">", ">=", "<", "="])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", -5), ("decimal(12,2)", "-5.25"), ("decimal(12,4)", "-5.2505"), ("double", -5.25), ("string", "x"),
        ("boolean", True), ("date", "2026-01-01"),
    ],
)  # fmt: skip
def test_spark_takes_the_same_conditions_for_times_as_the_judge(kind, value, op, session):
    """A lower bound of a number on a preserved side: how long its rows are kept then."""
    plain = make_contract("described", JoinKind.LEFT_OUTER, Bound(-5_000, 0))
    left, right = (replace(side, fields=(Field("n", type=kind),)) for side in (plain.left, plain.right))
    contract = replace(plain, left=left, right=right, condition=(Term(op, left="n", value=value),))

    plan = planned(session, contract)

    (limits_ms, _) = place(as_planned(contract)).limits_ms
    [cleanup] = re.findall(r"left value predicate: \(l_time#\d+-T\d+ms <= (-?\d+)\)", plan)
    assert [int(cleanup) // 1000] == list(limits_ms or [-1])
