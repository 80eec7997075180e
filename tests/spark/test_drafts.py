"""Contracts drafted from the plans of many queries, on Spark: read right or asked about, never wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from pipelines.query import build_for_draft, explain, print_plan
from tests.spark.draft_queries import QUERIES, build, expected
from tidemark.preflight import PlanSource, compare, draft_contract, read_plan
from tidemark.preflight.contract_draft import UNKNOWN, ContractDraft

OF_CHOICE = ("left.id", "right.id", "output")
"""What a plan leaves open: which field is an id, and whether the output names the records."""
RIGHT, ASKED = 84, 28
"""So many queries are read right, and so many are asked about."""


def plan_of(session, name):
    """The text of a query's plan, the topics and the columns of its output, as for ``tidemark contract --draft``."""

    def joined(orders, payments):
        return build(name, orders, payments)

    rows, names = build_for_draft(session, joined)
    return explain(session, lambda: print_plan(session, rows))["plan"], names["topics"], names["columns"]


def wrong(draft: ContractDraft, name: str) -> list[str]:
    """The parts of a draft that are not as they are expected, and not asked about."""
    contract, wanted = draft.contract, expected(name)
    asked = {about for about in draft.questions if about not in OF_CHOICE}
    found = [part for part in ("kind", "bound") if getattr(contract, part) != wanted[part]]
    for side in ("left", "right"):
        mine = getattr(contract, side)
        if mine.id == UNKNOWN and f"{side}.id" in draft.questions:
            wanted[side].pop("id")  # of a semi join Spark does not read the right one
        paths = {one.name: one.column or one.name for one in mine.fields}
        has = {
            **vars(mine),
            "id": paths.get(mine.id, mine.id),
            "time": paths.get(mine.time, mine.time),
            "keys": tuple(paths.get(key, key) for key in mine.keys),
            "time_type": next((one.type for one in mine.fields if one.name == mine.time), None) or "",
        }
        found += [f"{side}.{one}" for one, value in wanted[side].items() if has[one] != value]
    return [part for part in found if part not in asked and "contract" not in asked]


def undecided_in(name: str) -> set[str]:
    """What the plan of a query leaves open, besides what is a choice."""
    return {one.undecided for one in QUERIES[name] if one.undecided}


@pytest.mark.parametrize("name", QUERIES)
def test_a_draft_is_right_or_asks(name, session):
    text, topics, columns = plan_of(session, name)
    draft = draft_contract(read_plan(text), "query", PlanSource(topics, columns))
    compared = compare(draft.contract, read_plan(text))

    assert wrong(draft, name) == []
    about = {one.rpartition(".")[2] for one in draft.questions if one not in OF_CHOICE}
    undecided = undecided_in(name)
    assert undecided <= about
    assert undecided or (about, compared.mismatches, compared.not_compared) == (set(), (), ())


def test_most_queries_are_read_without_a_question():
    """Of a query whose plan decides all of it nothing is asked, as the test of each shows."""
    counted = Counter(not undecided_in(name) for name in QUERIES)
    assert (counted[True], counted[False]) == (RIGHT, ASKED)
