"""Contracts drafted from recorded plans: none contradicts its plan without a question."""

from __future__ import annotations

import pytest

from tests.unit.preflight.plans import RECORDED, plan
from tidemark.formats.contract import Bound, Filter, Output, Term
from tidemark.formats.record_fields import Field
from tidemark.preflight import PlanSource, UnreadablePlan, compare, draft_contract, draft_text
from tidemark.preflight.contract_draft import ContractDraft

NAMES = sorted(path.stem for path in RECORDED.glob("*.txt"))
UNDECIDED = {
    "arrival_time": "left.time",
    "by_function": "left.filters",
    "computed_key": "left.keys",
    "counted": "left.id",
    "deduplicated": "contract",
    "either": "contract",
    "ends_of_windows": "contract",
    "function": "contract",
    "months": "contract",
    "null_safe": "left.keys",
    "read_by_function": "left.keys",
    "sub_millisecond": "bound",
    "text_filter": "left.filters",
    "time_left_out_on_the_left": "contract",
    "times_left_out": "contract",
}
"""Plans that say what no contract has, or what cannot be read, and what the question is about."""
OF_CHOICE = ("left.id", "right.id", "output")
"""What a plan leaves open: which field is an id, and whether the output names the records."""


def drafted(name: str) -> ContractDraft:
    return draft_contract(plan(name), name, PlanSource(("impressions", "clicks")))


@pytest.mark.parametrize("name", sorted({*NAMES} - {*UNDECIDED, "two_joins"}))
def test_a_draft_is_what_its_plan_does(name):
    draft = drafted(name)

    compared = compare(draft.contract, plan(name))
    assert (compared.mismatches, compared.not_compared) == ((), ())
    assert [about for about in draft.questions if about not in OF_CHOICE] == []


@pytest.mark.parametrize(("name", "about"), UNDECIDED.items())
def test_what_a_plan_does_not_say_is_a_question(name, about):
    assert drafted(name).questions[about]


@pytest.mark.parametrize("name", sorted({*NAMES} - {"two_joins"}))
def test_the_text_of_a_draft_is_the_contract(name):
    draft = drafted(name)
    names: dict[str, object] = {}

    exec(draft_text(draft, name), names)

    assert names["CONTRACT"] == draft.contract


def test_a_draft_has_paths_types_and_forms_of_times():
    contract = drafted("nested").contract

    left, right = contract.left, contract.right
    assert (left.id, left.keys, left.time, left.time_format) == (
        "impression_id", ("viewer",), "shown_at", "epoch-ms",
    )  # fmt: skip
    assert (right.id, right.keys, right.time_format) == ("click_id", ("user_id",), "dd/MM/yyyy HH:mm")
    assert left.filters == (Filter("price", ">=", "0.50"),)
    assert left.fields == (
        Field("price", type="decimal(12,2)"), Field("impression_id", "meta.id"), Field("viewer", "who[0].id"),
        Field("shown_at", "meta.at"),
    )  # fmt: skip
    assert contract.condition == (Term(">", left="price", right="price.net"),)
    assert contract.output == Output("impression_id", "click_id")


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("inner", Bound(-20_000, 0)),
        ("strict", Bound(-20_000, 0, lower_strict=True, upper_strict=True)),
        ("open_end", Bound(None, 0)),
        ("equal_times", Bound(equal=True)),
        ("window", Bound(equal=True, window_ms=10_000)),
        ("no_bound", Bound()),
        ("renamed", Bound(-20_000, 0)),
    ],
)
def test_a_draft_has_the_bound_of_the_plan(name, bound):
    assert drafted(name).contract.bound == bound


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [("no_watermark", None, None), ("watermark_on_the_left", 10_000, None), ("inner", 10_000, 20_000)],
)
def test_a_draft_has_the_delays_of_the_plan_and_times_without_watermarks(name, left, right):
    contract = drafted(name).contract

    assert (contract.left.watermark_delay_ms, contract.right.watermark_delay_ms) == (left, right)
    assert (contract.left.time, contract.right.time) == ("impression_time", "click_time")


def test_rows_without_event_time_are_kept_where_no_filter_drops_them():
    assert drafted("null_event_time").contract.left.keeps_null_event_time
    assert not drafted("left_outer").contract.left.keeps_null_event_time


def test_the_sides_are_those_of_the_join():
    draft = drafted("clicks_first")

    assert (str(draft.contract.kind), draft.contract.left.id) == ("right_outer", "click_id")


def test_a_plan_with_two_joins_is_refused():
    with pytest.raises(UnreadablePlan, match="2 joins of two streams"):
        drafted("two_joins")


def test_each_line_has_where_it_was_read():
    text = draft_text(drafted("left_outer"), "adteam.join")

    assert text.startswith("# Drafted from the plan of adteam.join: 2 questions, marked QUESTION.")
    assert "    # the plan's join is LeftOuter\n    kind=JoinKind.LEFT_OUTER,\n" in text
    assert "        # withWatermark, 10 seconds\n        watermark_delay_ms=10_000,\n" in text
    assert "QUESTION: the output does not say which record of a topic" in text
