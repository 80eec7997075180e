"""A trace made of one sample of each input has every case of the contract, in the form that the samples have."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from producers.samples import GROUPS, SLICES, sample_trace
from tidemark.errors import UsageError
from tidemark.formats.contract import Bound, Contract, Filter, JoinKind, Output, Side
from tidemark.formats.events import Event, decode_object, read_event
from tidemark.formats.record_fields import Field
from tidemark.formats.trace import Record

LEFT = {"id": "o-1", "who": "ann", "at": "2026-03-01T12:00:00Z", "more": {"x": [1, 2.5]}}
RIGHT = {"id": "p-1", "who": "ann", "at": "2026-03-01T12:00:00Z", "cents": 5}
FORMS: dict[str, tuple[str, Any, int]] = {
    "iso": ("iso", "2026-03-01T12:00:00Z", 1),
    "epoch seconds": ("epoch-s", 1_772_366_400, 1_000),
    "epoch milliseconds": ("epoch-ms", 1_772_366_400_000, 1),
    "minutes": ("dd/MM/yyyy HH:mm", "01/03/2026 12:00", 60_000),
    "milliseconds in text": ("yyyy-MM-dd HH:mm:ss.SSS", "2026-03-01 12:00:00.125", 1),
    "hundredths in text": ("yyyy-MM-dd HH:mm:ss.SS", "2026-03-01 12:00:00.12", 10),
    "tenths in text": ("yyyy-MM-dd HH:mm:ss[.S]", "2026-03-01 12:00:00", 100),
}
"""Form, a time in it, and the smallest difference in milliseconds."""


def contract(**changes: Any) -> Contract:
    given = Contract(
        "paid", JoinKind.LEFT_OUTER, Side("orders", "id", ("who",), "at", 10_000),
        Side("payments", "id", ("who",), "at", 10_000), Bound(-600_000, 0), Output("order", "payment"),
    )  # fmt: skip
    return replace(given, **changes)


def events(described: Contract, left: Any = LEFT, right: Any = RIGHT) -> list[tuple[Record, Event]]:
    _, records = sample_trace(described, {"orders": left, "payments": right})
    found = [(record, read_event(record.value, described.side(record.topic))) for record in records]
    assert None not in [event for _, event in found]
    return [(record, event) for record, event in found if event is not None]


def distances(found: list[tuple[Record, Event]]) -> Counter[int]:
    """How long after a left record each right one of its key comes, in milliseconds; of the first slice."""
    lefts = {event.key: event.time_us for record, event in found if record.topic == "orders"}
    return Counter(
        (event.time_us - lefts[event.key]) // 1000
        for record, event in found
        if record.topic == "payments" and record.slice == 0 and event.key in lefts
    )


@pytest.mark.parametrize("form", FORMS)
def test_pairs_are_within_at_and_just_beyond_the_ends_of_the_bound(form):
    name, time, step_ms = FORMS[form]
    described = contract()
    sides = {
        side: replace(getattr(described, side), time_format=name, watermark_delay_ms=60_000)
        for side in ("left", "right")
    }

    found = distances(events(replace(described, **sides), {**LEFT, "at": time}, {**RIGHT, "at": time}))

    assert set(found) == {-step_ms, 0, 300_000, 600_000, 600_000 + step_ms}
    assert found[-step_ms] == found[600_000 + step_ms] == GROUPS


@pytest.mark.parametrize(
    ("bound", "first", "last"),
    [
        (Bound(-600_000, 0, lower_strict=True, upper_strict=True), 1, 599_999),
        (Bound(-600_000, 300_000), -300_000, 600_000),
        (Bound(None, 0), 0, 60_000),
        (Bound(-5_000, None), -55_000, 5_000),
        (Bound(), 0, 60_000),
        (Bound(equal=True), 0, 0),
    ],
)
def test_the_ends_are_those_of_the_bound(bound, first, last):
    found = distances(events(contract(bound=bound)))

    assert {first, last} <= set(found)
    assert {first - 1, last + 1} <= set(found)


def test_rows_without_a_partner_doubled_ones_and_other_keys_are_there():
    found = events(contract(left=Side("orders", "id", ("who", "more.x[0]"), "at", 0),
                            right=Side("payments", "id", ("who", "cents"), "at", 0)))  # fmt: skip

    first = [(record.topic, event) for record, event in found if record.slice == 0]
    keys = {topic: {event.key for of, event in first if of == topic} for topic in ("orders", "payments")}
    assert len(keys["orders"] - keys["payments"]) == GROUPS * 3  # alone, and those of another key
    assert len(keys["payments"] - keys["orders"]) == GROUPS * 3
    firsts = {key[0] for key in keys["orders"] - keys["payments"]}
    assert (
        len(firsts & {key[0] for key in keys["payments"]}) == GROUPS
    )  # of those only the second field differs
    ids = Counter(event.id for topic, event in first if topic == "orders")
    assert Counter(ids.values())[2] == GROUPS


def test_late_records_come_last_and_are_older_than_the_watermark():
    found = events(contract())

    for number in range(2, SLICES):
        *_, one, two = [event for record, event in found if record.slice == number]
        before = max(event.time_us for record, event in found if record.slice < number - 1)
        assert max(one.time_us, two.time_us) < before - 10_000_000


def test_what_the_contract_does_not_name_is_as_in_the_sample_and_a_filter_is_passed_and_not():
    described = contract(left=replace(contract().left, filters=(Filter("more.n", ">=", 7),)))

    values = [json.loads(record.value) for record, _ in events(described) if record.topic == "orders"]

    found = Counter(json.dumps(value["more"]) for value in values)
    assert set(found) == {'{"x": [1, 2.5], "n": 7}', '{"x": [1, 2.5], "n": 6}'}
    assert found['{"x": [1, 2.5], "n": 6}'] == GROUPS * SLICES


def test_numbers_stay_numbers_and_text_stays_text():
    fields = (Field("who", type="bigint"),)
    described = contract(
        left=replace(contract().left, fields=fields), right=replace(contract().right, fields=fields)
    )

    found = events(described, {**LEFT, "who": 7, "id": 3}, {**RIGHT, "who": "7"})

    values = {record.topic: json.loads(record.value) for record, _ in found}
    assert [type(values["orders"][name]) for name in ("who", "id")] == [int, int]
    assert type(values["payments"]["who"]) is str


@pytest.mark.parametrize(
    ("left", "says"),
    [({"id": "o-1", "who": "ann"}, "is no event"), ({**LEFT, "at": "noon"}, "is no event")],
)
def test_a_sample_that_is_no_event_is_refused(left, says):
    with pytest.raises(UsageError, match=says) as refused:
        sample_trace(contract(), {"orders": left, "payments": RIGHT})
    assert "at" in refused.value.detail


def test_numbers_with_a_fraction_are_written_as_the_sample_has_them_whatever_fails_or_is_refused():
    """A sample is read from a file with its numbers as decimals."""
    amount = Field("amount", type="decimal(12,2)")
    described = contract(
        right=replace(contract().right, fields=(amount,), filters=(Filter("amount", ">=", "0.50"),))
    )
    right = {**RIGHT, "amount": Decimal("249.90"), "rate": Decimal("0.19")}

    found = [
        json.loads(record.value) for record, _ in events(described, right=right) if record.topic == "payments"
    ]

    assert Counter((one["amount"], one["rate"]) for one in found).keys() == {(249.9, 0.19), (0.49, 0.19)}
    with pytest.raises(UsageError, match="is no event") as refused:
        sample_trace(described, {"orders": LEFT, "payments": {**right, "at": None}})
    assert '"rate":0.19' in refused.value.detail


@pytest.mark.parametrize(
    ("form", "kind", "time", "step_ms", "digits"),
    [
        ("epoch-s", "decimal(20,3)", Decimal("1767268800.125"), 1, 3),
        ("epoch-s", "decimal(20,6)", Decimal("1767268800.125000"), 1, 6),
        ("epoch-s", "decimal(20,2)", Decimal("1767268800.12"), 10, 2),
        ("epoch-s", "decimal(20,1)", Decimal("1767268800.5"), 100, 1),
        ("epoch-s", "decimal(20,3)", "1767268800.125", 1, 3),
        ("epoch-ms", "decimal(20,3)", Decimal("1767268800125.25"), 1, 2),
    ],
)
def test_times_with_fractions_differ_by_as_little_as_their_field_can_say(form, kind, time, step_ms, digits):
    changed = {"time_format": form, "fields": (Field("at", type=kind),)}
    described = contract(left=replace(contract().left, **changed), right=replace(contract().right, **changed))

    found = events(described, {**LEFT, "at": time}, {**RIGHT, "at": time})

    apart = distances(found)
    assert set(apart) == {-step_ms, 0, 300_000, 600_000, 600_000 + step_ms}
    times = [decode_object(record.value)["at"] for record, _ in found]
    assert {type(one) for one in times} == {type(time)}
    assert {-Decimal(one).as_tuple().exponent for one in times} == {digits}
    assert len({Decimal(one) % 1 for one in times}) > (1 if form == "epoch-s" else 0)


def test_a_fraction_has_the_digits_that_its_time_needs_though_the_sample_has_fewer():
    changed = {"time_format": "epoch-s", "fields": (Field("at", type="decimal(20,3)"),)}
    described = contract(left=replace(contract().left, **changed))

    found = events(described, {**LEFT, "at": Decimal("1767268800.5")})

    times = [decode_object(record.value)["at"] for record, _ in found if record.topic == "orders"]
    assert {-one.as_tuple().exponent for one in times} == {1, 2, 3}
    assert -1 in distances(found)


def test_numbers_of_seconds_without_a_fraction_stay_whole_though_their_field_is_a_decimal():
    changed = {"time_format": "epoch-s", "fields": (Field("at", type="decimal(20,3)"),)}
    described = contract(left=replace(contract().left, **changed))

    found = events(described, {**LEFT, "at": 1767268800})

    assert {type(json.loads(record.value)["at"]) for record, _ in found if record.topic == "orders"} == {int}
    assert -1000 in distances(found)
