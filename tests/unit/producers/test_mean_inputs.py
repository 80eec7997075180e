"""Inputs that are meaner: other payloads, moved duplicates, skewed keys, silence, rates, bursts, a wrong clock."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest

from producers import spool
from producers.generate import write
from producers.key_skew import parse_key_skew
from producers.settings import BASE_MS, Settings
from tidemark.errors import UsageError

CLEAN = {"edges": 0, "null_keys": 0, "unreadable": 0, "duplicates": 0}


def repeated(made):
    """The first record of each id that comes again, and each of the others."""
    first, pairs = {}, []
    for record, event in made.events():
        if event is not None:
            before = first.setdefault(event.id, record)
            if before is not record:
                pairs.append((before, record))
    return pairs


def test_an_id_comes_again_with_another_payload_in_its_partition(make):
    made = make(seed=5, impressions=2_000, **CLEAN, changed_duplicates=0.02)
    pairs = repeated(made)
    assert len(pairs) == made.header.counts["duplicates"] > 30
    assert all(one.value != other.value and one.partition == other.partition for one, other in pairs)
    changed = Counter(
        name
        for one, other in pairs
        for name, value in json.loads(one.value).items()
        if json.loads(other.value)[name] != value
    )
    assert {"ad_id", "click_time", "impression_time", "page"} <= set(changed)
    assert not {"impression_id", "click_id", "user_id"} & set(changed)


def test_a_moved_duplicate_is_the_same_record_in_another_partition(make):
    pairs = repeated(make(seed=5, impressions=2_000, **CLEAN, moved_duplicates=0.02, partitions=3))
    assert len(pairs) > 30
    assert all((one.value, one.key) == (other.value, other.key) for one, other in pairs)
    assert all(one.partition != other.partition for one, other in pairs)


def test_one_key_has_its_share_of_the_impressions(make):
    made = make(seed=2, impressions=4_000, **CLEAN, key_skew="one:0.1")
    keys = Counter(event.key for record, event in made.events() if record.topic == "impressions")
    (_, most), (_, second) = keys.most_common(2)
    assert 0.08 < most / 4_000 < 0.13
    assert second < most / 10


def test_the_exponent_of_zipfs_law_decides_how_frequent_the_first_key_is(make):
    def first(skew):
        made = make(seed=2, impressions=2_000, **CLEAN, key_skew=skew)
        keys = Counter(event.key[0] for record, event in made.events() if record.topic == "impressions")
        return keys.most_common(1)[0][1] / 2_000

    mild, one, two = first("mild"), first("zipf:1"), first("zipf:2")
    assert mild < 0.03 < 0.1 < one < 0.25 < 0.5 < two < 0.75


@pytest.mark.parametrize(
    "text", ["", "zipf:", "zipf:0", "zipf:x", "one:2", "mild:1", "flat", "zipf:inf", "one:nan"]
)
def test_a_skew_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="cannot read the skew"):
        parse_key_skew(text)


def test_nothing_arrives_on_a_silent_topic_until_the_silence_is_over(make):
    made = make(seed=4, impressions=2_000, silent="clicks:0.4", lateness="on_time", duplicates=0)
    arrivals = sorted(record.arrival_ms for record in made.records if record.topic == "clicks")
    longest_ms, after = max((later - one, at) for at, (one, later) in enumerate(pairwise(arrivals)))
    assert longest_ms >= 0.39 * made.settings.duration_ms
    assert arrivals.count(arrivals[after + 1]) > 200, "what happened meanwhile comes together"
    assert made.header.slices == len({record.slice for record in made.records})


@pytest.mark.parametrize("text", ["clicks", "clicks:1", "clicks:-0.1", "views:0.2", "clicks:x", "clicks:nan"])
def test_a_silence_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="cannot read the silence"):
        Settings(silent=text)


def test_the_rate_of_events_decides_how_long_a_trace_is(make):
    made = make(seed=4, impressions=1_000, ctr=0.5, **CLEAN, events_per_second=5, lateness="on_time")
    times_s = [record.event_ms / 1000 for record in made.records if record.topic == "impressions"]
    assert max(times_s) - min(times_s) == pytest.approx(300, rel=0.02)
    assert made.settings.wanted_slices == 10
    assert made.header.slices == 10


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"events_per_second": -1}, "events_per_second is -1"),
        ({"events_per_second": 0.0001}, "events_per_second is 0.0001"),
        ({"events_per_second": 10, "slices": 4}, "and slices is 4"),
        ({"moved_duplicates": 0.1, "partitions": 1}, "a topic has one partition"),
        ({"compacted": 0.1}, "the pace is stepped"),
        ({"aborted": 1.5}, "aborted is 1.5"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_with_a_hint(wrong, said):
    with pytest.raises(UsageError, match=said) as refused:
        Settings(**wrong)
    assert refused.value.hint


def test_a_share_of_the_impressions_comes_in_bursts(make):
    made = make(seed=4, impressions=4_000, **CLEAN, bursts=0.5, slices=5)
    times_ms = [record.event_ms - BASE_MS for record in made.records if record.topic == "impressions"]
    short_ms = made.settings.span_ms // 50
    busiest = Counter(time_ms // short_ms for time_ms in times_ms).most_common(10)
    assert sum(many for _, many in busiest) > 0.45 * 4_000
    assert max(times_ms) < made.settings.duration_ms


def test_the_clock_of_a_producer_shifts_event_time_and_kafkas_timestamp_and_not_the_arrival(make):
    calm = make(seed=4, impressions=1_000, **CLEAN, lateness="on_time")
    made = make(seed=4, impressions=1_000, **CLEAN, lateness="on_time+skewed_producer:0.2*0.5")
    true_ms = {event.id: (record.event_ms, record.arrival_ms) for record, event in calm.events()}
    skews = Counter()
    for record, event in made.events():
        event_ms, arrival_ms = true_ms[event.id]
        assert record.arrival_ms == arrival_ms
        skew_ms = record.event_ms - event_ms
        assert (record.timestamp_ms or record.arrival_ms) - record.arrival_ms == skew_ms
        skews[skew_ms] += 1
    assert set(skews) <= {0, 10_000, -10_000}
    assert 0.05 < 1 - skews[0] / skews.total() < 0.4


MEAN = {
    "changed_duplicates": 0.02, "moved_duplicates": 0.02, "key_skew": "one:0.2", "silent": "impressions:0.3",
    "bursts": 0.2, "transactions": 0.2, "aborted": 0.1, "compacted": 0.1, "pace": "backlog",
    "lateness": "on_time+skewed_producer:0.1*0.5+burst:0.2*1",
}  # fmt: skip


@pytest.mark.parametrize("impressions", [1, 20, 900])
def test_the_same_settings_give_the_same_bytes_also_where_rows_are_kept_on_disk(
    impressions, tmp_path, monkeypatch
):
    settings = Settings(seed=3, impressions=impressions, **MEAN)
    here, _ = write(settings, tmp_path / "here.jsonl")
    monkeypatch.setattr(spool, "RUN_ITEMS", 97)
    monkeypatch.setattr(spool, "BLOCK_ITEMS", 13)
    assert write(settings, tmp_path / "there.jsonl")[0] == here


def test_the_header_names_the_dials_that_were_turned(make):
    made = make(seed=3, impressions=50, **MEAN)
    for dial in ("key_skew=one:0.2", "silent=impressions:0.3", "aborted=0.1", "compacted=0.1"):
        assert dial in made.header.generator
    assert "aborted" not in make(impressions=50).header.generator
