"""Sentinels of a chain: one record per topic, past all bounds and windows, with unique keys."""

from __future__ import annotations

import json

import pytest

from pipelines import clicks_per_window, shown_again, windows_joined
from producers.sentinels import make_sentinels
from tidemark.formats.chain import Aggregate, Chain, Source, Value, Window
from tidemark.formats.events import read_time_us
from tidemark.formats.record_fields import BIGINT, Field
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace


@pytest.mark.parametrize(
    ("described", "reach_ms", "delay_ms"),
    [
        (clicks_per_window.CONTRACT, 10_000, 20_000),
        (windows_joined.CONTRACT, 20_000, 20_000),
        (shown_again.CONTRACT, 80_000, 20_000),
    ],
)
def test_sentinels_are_past_every_row_that_a_chain_still_owes(described, reach_ms, delay_ms, make):
    made = make(impressions=300)
    _, sentinels = make_sentinels(described, made.path)
    latest_us = max(event.time_us for _, event in made.events() if event)

    assert [record.topic for record in sentinels] == list(described.topics)
    for record in sentinels:
        value = json.loads(record.value)
        time_us = read_time_us(value["impression_time" if record.topic == "impressions" else "click_time"])
        assert time_us // 1000 - delay_ms - reach_ms > latest_us // 1000


def test_a_topic_that_is_read_twice_has_one_sentinel_with_unique_values_in_all_fields(make):
    made = make(impressions=300)
    _, (impression, click) = make_sentinels(shown_again.CONTRACT, made.path)
    shown, clicked = json.loads(impression.value), json.loads(click.value)

    for name in ("impression_id", "user_id", "ad_id"):
        assert shown[name].startswith("sentinel-impressions")
    assert clicked["user_id"] != shown["user_id"]
    assert None not in shown.values()


def test_a_topic_of_numbers_alone_has_a_sentinel_with_numbers_of_its_own(tmp_path):
    source = Source("a", "t", (Field("u", None, BIGINT), Field("v", None, BIGINT)), 10_000, required=("u",))
    counted = Aggregate(Window(source, "w", 10_000), ("u",), (Value("n", "count"),))
    header = Header(tidemark_trace=2, pace="backlog", topics={"a": TopicSpec()})
    value = {"u": 7, "v": 1, "t": "2026-01-01T00:00:00Z"}
    path = tmp_path / "trace.jsonl"
    write_trace(path, header, [Record(topic="a", value=json.dumps(value), arrival_ms=1)])

    _, sentinels = make_sentinels(Chain("counted", counted, ("u", "w", "n")), path, rounds=2)

    first, second = (json.loads(record.value) for record in sentinels)
    assert type(first["u"]) is int
    assert len({7, first["u"], second["u"]}) == 3


@pytest.mark.parametrize("records", [[{"u": "x", "n": 3}, {"u": "y", "n": None}], [{"u": "x", "n": None}]])
def test_a_sentinel_has_what_the_chain_requires_whatever_the_last_record_lacks(records, tmp_path):
    source = Source("a", "t", (Field("u"), Field("n", None, BIGINT)), 10_000, required=("u", "n"))
    counted = Aggregate(Window(source, "w", 10_000), ("u",), (Value("n", "count"),))
    path = tmp_path / "trace.jsonl"
    header = Header(tidemark_trace=2, pace="backlog", topics={"a": TopicSpec()})
    lines = [json.dumps({**one, "t": "2026-01-01T00:00:00Z"}) for one in records]
    write_trace(path, header, [Record(topic="a", value=line, arrival_ms=1) for line in lines])

    _, [sentinel] = make_sentinels(Chain("counted", counted, ("u", "w", "n")), path)

    found = json.loads(sentinel.value)
    assert found["u"] == "sentinel-a-0"
    assert type(found["n"]) is int
