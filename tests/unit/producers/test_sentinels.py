"""Sentinels reach the watermark node, match no row, and are far enough in the future."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from producers.sentinels import make_sentinels
from tidemark.errors import UsageError
from tidemark.formats.contract import COMPARISONS, Bound, Contract, Filter, JoinKind, Output, Side, Term
from tidemark.formats.events import read_event
from tidemark.formats.record_fields import BIGINT, Field
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace

CONTRACT = Contract(
    name="left_outer",
    kind=JoinKind.LEFT_OUTER,
    left=Side("impressions", "impression_id", ("user_id", "ad_id"), "impression_time", 10_000),
    right=Side("clicks", "click_id", ("user_id", "ad_id"), "click_time", 20_000),
    bound=Bound(-20_000, 0),
    output=Output("impression_id", "click_id"),
)


def events(records: list[Record]):
    return [read_event(record.value, CONTRACT.side(record.topic)) for record in records]


def test_sentinels_move_the_watermark_past_every_row_that_is_still_owed(make):
    made = make(impressions=300)
    _, sentinels = make_sentinels(CONTRACT, made.path)
    latest_us = max(event.time_us for _, event in made.events() if event)
    watermark_ms = min(event.time_us for event in events(sentinels)) // 1000 - 20_000
    assert watermark_ms - 20_001 > latest_us // 1000
    assert [record.topic for record in sentinels] == ["impressions", "clicks"]


@pytest.mark.parametrize("window_ms", [5_000, 3_600_000, 86_400_000, 7 * 86_400_000])
def test_sentinels_are_past_the_end_of_the_window_of_every_row(window_ms, make):
    made = make(impressions=300)
    _, sentinels = make_sentinels(replace(CONTRACT, bound=Bound(equal=True, window_ms=window_ms)), made.path)
    latest_ms = max(event.time_us for _, event in made.events() if event) // 1000
    watermark_ms = min(event.time_us for event in events(sentinels)) // 1000 - 20_000
    assert watermark_ms > (latest_ms // window_ms + 1) * window_ms


def test_sentinels_match_no_row_and_not_each_other(make):
    made = make(impressions=300)
    _, sentinels = make_sentinels(CONTRACT, made.path)
    keys = {event.key for event in events(sentinels)}
    assert len(keys) == 2
    assert not keys & {event.key for _, event in made.events() if event}


def test_sentinels_have_every_field_of_an_event(make):
    made = make(impressions=300)
    _, sentinels = make_sentinels(CONTRACT, made.path)
    whole = {
        record.topic: set(json.loads(record.value))
        for record, event in made.events()
        if event and None not in event.key
    }
    assert {record.topic: set(json.loads(record.value)) for record in sentinels} == whole


def test_each_round_is_a_slice_later_than_the_one_before(make):
    header, sentinels = make_sentinels(CONTRACT, make(impressions=100).path, rounds=3)
    assert header.slices == 3
    assert [record.slice for record in sentinels] == [0, 0, 1, 1, 2, 2]
    times = [event.time_us for event in events(sentinels)][::2]
    assert all(later > earlier for earlier, later in pairwise(times))
    assert len({event.id for event in events(sentinels)}) == 6


def test_a_numeric_key_stays_a_number_that_fits_an_int(tmp_path):
    path = tmp_path / "numbers.jsonl"
    value = {"user_id": 7, "ad_id": 1.5, "impression_time": "2026-01-01T00:00:00Z"}
    header = Header(
        tidemark_trace=2, pace="backlog", topics={"impressions": TopicSpec(), "clicks": TopicSpec()}
    )
    write_trace(path, header, [Record(topic="impressions", value=json.dumps(value), arrival_ms=1)])
    _, (left, _right) = make_sentinels(CONTRACT, path)
    fields = json.loads(left.value)
    assert type(fields["user_id"]) is int
    assert type(fields["ad_id"]) is float
    assert fields["user_id"] < 2**31


def test_a_sentinel_keeps_all_digits_of_the_numbers_of_its_record(tmp_path):
    path = tmp_path / "digits.jsonl"
    topics = {"impressions": TopicSpec(), "clicks": TopicSpec()}
    value = (
        '{"user_id":"u","ad_id":"a","impression_time":"2026-01-01T00:00:00Z",'
        '"paid":{"amount":12345678901234567890.123456789,"factors":[1E+3,NaN]}}'
    )
    header = Header(tidemark_trace=2, pace="backlog", topics=topics)
    write_trace(path, header, [Record(topic="impressions", value=value, arrival_ms=1)])
    _, (left, _right) = make_sentinels(CONTRACT, path)
    assert '"paid":{"amount":12345678901234567890.123456789,"factors":[1E+3,NaN]}' in left.value


def test_a_trace_of_another_pipeline_is_refused(tmp_path):
    path = tmp_path / "other.jsonl"
    write_trace(path, Header(tidemark_trace=2, pace="backlog", topics={"flights": TopicSpec()}), [])
    with pytest.raises(UsageError, match="has no topic 'impressions'"):
        make_sentinels(CONTRACT, path)


NESTED = replace(
    CONTRACT,
    left=Side(
        "impressions", "meta.id", ("who[0].id", "day"), "meta.at", 10_000, time_format="epoch-ms",
        fields=(
            Field("amount", "totals.amount", "decimal(12,2)"), Field("state", "status", "string"),
            Field("day", type="date"),
        ),
        filters=(Filter("amount", ">=", "0.50"), Filter("state", "!=", "void")),
    ),
    right=Side(
        "clicks", "id", ("user", "day"), "at", 20_000, fields=(Field("day", type="date"), Field("at", "`t.x`")),
        time_format="dd/MM/yyyy HH:mm", time_zone="Europe/Berlin",
    ),
)  # fmt: skip


def test_sentinels_are_changed_wherever_the_contract_says_however_deep(tmp_path):
    path = tmp_path / "nested.jsonl"
    topics = {"impressions": TopicSpec(), "clicks": TopicSpec()}
    shown = {
        "meta": {"id": 5, "at": 1_767_225_600_000}, "who": [{"id": "u1"}, {"id": "u2"}], "day": "2026-01-01",
        "totals": {"amount": "0.25", "tax": 1.10}, "status": "void",
    }  # fmt: skip
    clicked = {"id": "c", "user": "u1", "day": "2026-01-01", "t.x": "01/01/2026 01:00", "more": [1]}
    write_trace(
        path,
        Header(tidemark_trace=2, pace="backlog", topics=topics),
        [
            Record(topic="impressions", value=json.dumps(shown), arrival_ms=1),
            Record(topic="clicks", value=json.dumps(clicked), arrival_ms=1),
        ],
    )

    _, (left, right) = make_sentinels(NESTED, path)

    made, other = json.loads(left.value), json.loads(right.value)
    assert made["meta"]["id"] == "sentinel-impressions-0"
    assert made["meta"]["at"] > shown["meta"]["at"] + 30_000
    assert made["who"] == [{"id": "sentinel-impressions"}, {"id": "u2"}]
    assert made["totals"] == {"amount": "0.50", "tax": 1.1}
    assert made["status"] != "void"
    assert made["day"] > "2099"
    assert other.keys() == clicked.keys()
    events = [read_event(one.value, side) for one, side in ((left, NESTED.left), (right, NESTED.right))]
    assert min(event.time_us for event in events) > 1_767_225_600_000_000 + 30_000_000
    assert events[0].key != events[1].key


NUMBERED = replace(
    CONTRACT,
    left=replace(CONTRACT.left, keys=("n",), filters=(Filter("price", ">=", 5),)),
    right=replace(CONTRACT.right, keys=("n",), filters=(Filter("n", "<", 1000),)),
    condition=(Term("<", right="price", value=8), Term("!=", left="n", value=998)),
)


def test_sentinels_pass_what_the_contract_asks_of_their_side_and_of_the_equal_key(tmp_path):
    """The last records do not: a sentinel that is a copy of them would be dropped, and the query never flushed."""
    path = tmp_path / "numbers.jsonl"
    header = Header(
        tidemark_trace=2,
        pace="stepped",
        topics=dict.fromkeys(("impressions", "clicks"), TopicSpec(1)),
        slices=1,
    )
    values = {"impressions": "impression_time", "clicks": "click_time"}
    records = [
        Record(
            topic=topic, arrival_ms=1, value=json.dumps({"n": 7, "price": 1, time: "2026-01-01T00:00:00Z"})
        )
        for topic, time in values.items()
    ]
    write_trace(path, header, records)

    _, (left, right) = make_sentinels(NUMBERED, path)

    left_value, right_value = json.loads(left.value), json.loads(right.value)
    assert left_value["price"] >= 5
    assert right_value["price"] > 8
    for value in (left_value, right_value):
        assert value["n"] < 1000
        assert value["n"] != 998
    assert left_value["n"] != right_value["n"]


@pytest.mark.parametrize("op", COMPARISONS)
def test_a_sentinel_passes_each_operator(op, tmp_path):
    path = tmp_path / "numbers.jsonl"
    header = Header(
        tidemark_trace=2,
        pace="stepped",
        topics=dict.fromkeys(("impressions", "clicks"), TopicSpec(1)),
        slices=1,
    )
    value = {"user_id": "u", "ad_id": "a", "price": 3, "impression_time": "2026-01-01T00:00:00Z"}
    write_trace(path, header, [Record(topic="impressions", arrival_ms=1, value=json.dumps(value))])
    asked = replace(CONTRACT, left=replace(CONTRACT.left, filters=(Filter("price", op, 5),)))

    _, (left, _) = make_sentinels(asked, path)

    assert COMPARISONS[op](json.loads(left.value)["price"], 5)


@pytest.mark.parametrize("comparison", ["<", "<=", "=", "!=", ">", ">="])
@pytest.mark.parametrize("is_key", [False, True])
def test_a_sentinel_passes_what_the_contract_asks_of_its_id(comparison, is_key, tmp_path):
    id_field = Field("click_id", None, BIGINT)
    right = replace(CONTRACT.right, fields=(id_field,), filters=(Filter("click_id", comparison, 1000),))
    if is_key:
        right = replace(right, keys=("click_id", "ad_id"))
    contract = replace(CONTRACT, right=right)
    path = tmp_path / "trace.jsonl"
    header = Header(
        tidemark_trace=2, pace="backlog", topics={"impressions": TopicSpec(), "clicks": TopicSpec()}
    )
    value = {"click_id": 5, "user_id": "u", "ad_id": "a", "click_time": "2026-01-01T00:00:00Z"}
    write_trace(path, header, [Record(topic="clicks", value=json.dumps(value), arrival_ms=1)])

    _, (_, click) = make_sentinels(contract, path)

    assert COMPARISONS[comparison](json.loads(click.value)["click_id"], 1000)


@pytest.mark.parametrize("time_format", ["iso", "yyyy-MM-dd HH:mm:ss"])
def test_an_event_at_the_end_of_time_is_an_error_that_says_which_and_when(time_format, tmp_path):
    right = replace(CONTRACT.right, time_format=time_format)
    path = tmp_path / "trace.jsonl"
    header = Header(
        tidemark_trace=2, pace="backlog", topics={"impressions": TopicSpec(), "clicks": TopicSpec()}
    )
    time = "9999-12-31T23:30:00Z" if time_format == "iso" else "9999-12-31 23:30:00"
    value = {"click_id": "c", "user_id": "u", "ad_id": "a", "click_time": time}
    write_trace(path, header, [Record(topic="clicks", value=json.dumps(value), arrival_ms=1)])

    with pytest.raises(UsageError, match="no record of impressions can be so late") as error:
        make_sentinels(replace(CONTRACT, right=right), path)

    assert "9999-12-31T23:30:00" in error.value.detail
