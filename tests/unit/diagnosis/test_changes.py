"""Each kind of change is named on a small history: a query that keeps another contract than the one promised."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.diagnosis.other_deliveries import (
    HOUR_MS,
    diagnosed,
    diagnosis_of,
    events,
    promise,
    run_seen_as,
)
from tests.unit.oracle.histories import iso
from tidemark.formats.contract import Bound, Contract, Filter, WatermarkPolicy
from tidemark.formats.events import read_time_us


def names(found):
    return [" + ".join(one.changes) for one in found.explanations]


def with_delay(side: str, ms: int | None) -> Contract:
    made = promise()
    return replace(made, **{side: replace(getattr(made, side), watermark_delay_ms=ms)})


def with_keys(*keys: str) -> Contract:
    made = promise("inner")
    return replace(made, left=replace(made.left, keys=keys), right=replace(made.right, keys=keys))


def with_filters(*filters: Filter, kind: str = "inner") -> Contract:
    made = promise(kind)
    return replace(made, left=replace(made.left, filters=filters))


CHEAP = Filter("cents", "<", 50)
STRICT = Bound(-HOUR_MS, 0, lower_strict=True)
CASES = {
    "kind=left_outer": (promise(), promise("inner")),
    "kind=right_outer": (promise("right_outer"), promise("full_outer")),
    "lower_strict": (promise(bound=STRICT), promise()),
    "no lower_strict": (promise(), promise(bound=STRICT)),
    "upper_strict": (promise(bound=Bound(-HOUR_MS, 0, upper_strict=True)), promise()),
    "lower_ms=-1800000": (promise(bound=Bound(-HOUR_MS // 2, 0)), promise()),
    "lower_ms=None": (promise("inner", bound=Bound(None, 0)), promise("inner")),
    "left.watermark_delay_ms=1500000": (with_delay("left", 1_500_000), promise()),
    "right.watermark_delay_ms=10800000": (with_delay("right", 10_800_000), promise()),
    "policy=max": (promise(policy=WatermarkPolicy.MAX), promise()),
    "keys without ad": (with_keys("user"), with_keys("user", "ad")),
    "no filter impressions.cents < 50": (with_filters(), with_filters(CHEAP)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_change_of_a_contract_is_named(name):
    query, promised = CASES[name]

    assert names(diagnosed(query, promised)) == [name]


def test_two_explanations_are_both_named():
    """No NULL row came: the query joins as an inner join does, or its left rows never leave the state."""
    found = diagnosed(promise("inner"), promise())

    assert found.outcome == "several"
    assert names(found) == ["kind=inner", "right.watermark_delay_ms=None"]
    assert found.lines()[0] == "either of these explains all findings, 2 in all:"


def test_two_changes_are_named_together():
    query = replace(with_keys("user"), bound=Bound(-HOUR_MS // 2, 0))

    found = diagnosed(query, with_keys("user", "ad"))

    assert [{*one.changes} for one in found.explanations] == [{"keys without ad", "lower_ms=-1800000"}]


def test_null_keys_that_are_joined_are_named():
    given = events()
    seen = tuple([{**one, "user": one["user"] or "none"} for one in side] for side in without_users(given))

    assert names(found_in(promise(), seen, without_users(given))) == ["NULL keys joined"]


def without_users(given):
    return tuple(
        [{**one, "user": None if one["user"] == "u1" else one["user"]} for one in side] for side in given
    )


def found_in(query, seen, given):
    return diagnosis_of(run_seen_as(query, seen, given), query)


def test_a_deduplication_before_the_join_is_named():
    lefts, rights = events()
    given = [one for left in lefts for one in ([left, left] if left["cents"] % 3 == 0 else [left])]
    known = set()
    seen = []
    for left in given:
        seen.append({} if left["iid"] in known else left)
        known.add(left["iid"])

    assert names(found_in(promise(), (seen, rights), (given, rights))) == ["left deduplicated"]


def test_times_cut_to_seconds_are_named():
    lefts, rights = events()
    lefts = [{**one, "time": iso(read_time_us(one["time"]) / 1_000_000 + 0.5)} for one in lefts]
    seen = [{**one, "time": iso(read_time_us(one["time"]) // 1_000_000)} for one in lefts]

    assert names(found_in(promise(), (seen, rights), (lefts, rights))) == ["left times cut to seconds"]


def test_times_of_another_zone_are_named():
    lefts, rights = events()
    seen = [{**one, "time": iso(read_time_us(one["time"]) / 1_000_000 - 19_800)} for one in rights]

    [name] = names(found_in(promise(), (lefts, seen), (lefts, rights)))
    assert name.startswith("right times -5:30:00")
