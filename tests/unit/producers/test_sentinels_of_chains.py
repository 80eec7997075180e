"""Sentinels of a chain: one record per topic, past all bounds and windows, with unique keys."""

from __future__ import annotations

import json

import pytest

from pipelines import clicks_per_window, shown_again, windows_joined
from producers.sentinels import make_sentinels
from tidemark.formats.events import read_time_us


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
