"""The content of generated traces, read back from their files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter

import pytest

from producers.draft import arrival_order
from producers.generate import generated
from producers.settings import BASE_MS, Settings
from tidemark import paths
from tidemark.errors import UsageError
from tidemark.formats.trace import trace_sha256, write_trace


def test_the_same_settings_give_the_same_bytes_in_another_process(make, tmp_path):
    here = make(seed=7, impressions=300)
    there = tmp_path / "there.jsonl"
    command = [
        sys.executable,
        "-P",
        "-m",
        "producers",
        "generate",
        "--seed=7",
        "--impressions=300",
        f"--out={there}",
    ]
    for hash_seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONPATH": str(paths.payload()),
            "PYTHONHASHSEED": hash_seed,
            "TZ": "Asia/Tokyo",
        }
        subprocess.run(command, env=environment, check=True, capture_output=True)
        assert there.read_bytes() == here.path.read_bytes()


def test_the_digest_is_the_sha256_of_the_file(make):
    made = make(seed=1, impressions=50)
    assert made.sha256 == trace_sha256(made.path) == hashlib.sha256(made.path.read_bytes()).hexdigest()


def test_the_generated_lines_equal_those_of_the_trace_format(make, tmp_path):
    made = make(seed=3, impressions=2_000, partitions=3)
    assert write_trace(tmp_path / "again.jsonl", made.header, made.records) == made.sha256


def test_a_different_seed_gives_a_different_trace(make):
    assert make(seed=1, impressions=100).sha256 != make(seed=2, impressions=100).sha256


def test_a_different_pace_changes_only_the_header(make):
    stepped, backlog = make(impressions=200, pace="stepped"), make(impressions=200, pace="backlog")
    assert stepped.records == backlog.records
    assert (stepped.header.pace, backlog.header.pace) == ("stepped", "backlog")


def test_changing_one_setting_leaves_the_other_stages_unchanged(make):
    def events(made):
        return {record.value for record in made.records if '"edge-' not in (record.value or "")}

    calm = make(impressions=400, lateness="on_time", duplicates=0)
    late = make(impressions=400, lateness="long_tail:0.3*3", duplicates=0)
    changed = events(calm) ^ events(late)
    # A row without a key may get it back where it would lead its slice, which depends on the lateness.
    assert len(changed) < 10


def test_twenty_thousand_impressions_have_eight_thousand_clicks_and_two_percent_late_rows(make):
    made = make(seed=3)
    counts = made.header.counts
    assert counts["impressions"] >= 20_000
    assert counts["clicks"] >= 8_000
    assert counts["late"] >= 0.02 * (counts["impressions"] + counts["clicks"])
    assert made.header.slices == 12


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_small_trace_has_every_kind_of_record(make, seed):
    made = make(seed=seed, impressions=500)
    assert made.header.slices == 4
    assert set(made.header.goals) == {
        "rows_joined", "semi_row_emitted", "null_row_after_eviction", "late_row_dropped", "unreadable_filtered",
        "null_key_seen", "duplicate_event_seen", "edge_row_seen",
    }  # fmt: skip


@pytest.mark.parametrize("impressions", [1, 2, 10])
def test_a_tiny_trace_is_valid(make, impressions):
    made = make(impressions=impressions, slices=3)
    assert len(made.records) >= impressions


def test_the_counts_in_the_header_match_the_records(make):
    made = make(seed=5, impressions=3_000)
    counts, events = made.header.counts, made.events()
    topics = Counter(record.topic for record in made.records)
    assert (counts["impressions"], counts["clicks"]) == (topics["impressions"], topics["clicks"])
    assert counts["unreadable"] == sum(event is None for _, event in events) > 0
    assert counts["null_keys"] == sum(event is not None and None in event.key for _, event in events) > 0
    ids = Counter(event.id for _, event in events if event is not None)
    assert counts["duplicates"] == sum(n - 1 for n in ids.values()) > 0
    assert counts["edge_rows"] == sum('"edge-' in (record.value or "") for record in made.records)


def test_a_trace_has_each_kind_of_unreadable_record(make):
    made = make(seed=5, impressions=3_000)
    spoilt = [record.value for record, event in made.events() if event is None]
    assert any(value.endswith("}") and "_time" not in value for value in spoilt)
    assert any('_time":null}' in value for value in spoilt)
    assert any(not value.endswith("}") and value.startswith("{") for value in spoilt)
    assert any(not value.startswith("{") for value in spoilt)


def test_a_missing_key_is_null_or_absent(make):
    made = make(seed=5, impressions=3_000)
    keyless = [record for record, event in made.events() if event is not None and None in event.key]
    assert any('"user_id":null' in record.value for record in keyless)
    assert any("user_id" not in record.value for record in keyless)
    assert all(record.key is None for record in keyless)


def test_a_duplicate_is_the_same_record_later_in_the_same_partition(make):
    seen = {}
    again = 0
    for record, event in make(seed=5, impressions=3_000).events():
        if event is None:
            continue
        first = seen.setdefault(event.id, record)
        if first is not record:
            again += 1
            assert (first.value, first.key, first.partition) == (record.value, record.key, record.partition)
            assert first.arrival_ms < record.arrival_ms
    assert again


def test_records_are_ordered_by_arrival_and_no_slice_is_empty(make):
    made = make(seed=2, impressions=1_000)
    order = [(r.arrival_ms, list(made.header.topics).index(r.topic), r.partition) for r in made.records]
    assert order == sorted(order)
    assert [rows != [] for rows in made.slices()] == [True] * made.header.slices
    slices = [(r.arrival_ms - BASE_MS) // made.settings.span_ms for r in made.records]
    assert [r.slice for r in made.records] == [min(max(s, 0), made.header.slices - 1) for s in slices]


def test_the_event_time_of_a_record_equals_the_time_in_its_value(make):
    for record, event in make(impressions=500).events():
        assert record.event_ms == (event.time_us // 1000 if event else None)


def test_a_key_is_always_in_the_same_partition(make):
    place = {}
    for record in make(impressions=2_000, partitions=3).records:
        if record.key is not None:
            assert place.setdefault(record.key, record.partition) == record.partition
    assert set(place.values()) == {0, 1, 2}


def test_popularity_is_skewed_and_no_key_dominates_the_join(make):
    made = make(impressions=20_000)
    users = Counter(e.key[0] for r, e in made.events() if e and r.topic == "impressions")
    pairs = Counter(e.key for r, e in made.events() if e and r.topic == "impressions" and None not in e.key)
    busiest = [n for _, n in users.most_common(len(users) // 10)]
    assert sum(busiest) > 0.3 * sum(users.values())
    assert max(pairs.values()) < 0.005 * sum(pairs.values())


def test_most_clicks_follow_within_the_time_bound_and_some_after_it(make):
    made = make(impressions=5_000, edges=0, duplicates=0, null_keys=0, unreadable=0)
    shown = {}
    delays_ms = []
    by_key = {}
    for record, event in made.events():
        if record.topic == "impressions":
            shown.setdefault(event.key, []).append(event.time_us)
        else:
            by_key.setdefault(event.key, []).append(event.time_us)
    for key, clicks in by_key.items():
        for click in clicks:
            before = [moment for moment in shown.get(key, []) if moment <= click]
            if before:
                delays_ms.append((click - max(before)) // 1000)
    within = sum(delay <= 20_000 for delay in delays_ms) / len(delays_ms)
    assert 0.93 < within < 0.995
    assert max(delays_ms) > 40_000
    assert any(len(clicks) > len(shown.get(key, [])) > 0 for key, clicks in by_key.items())


def test_merging_the_partitions_gives_the_order_of_the_trace():
    with generated(Settings(impressions=500)) as trace:
        order = [arrival_order(row) for _, rows in trace.arrivals.slices() for row in rows]
    assert order == sorted(order)


@pytest.mark.parametrize(
    "wrong",
    [
        {"impressions": 0}, {"ctr": 1.5}, {"unreadable": -0.1}, {"lateness": "sometimes"}, {"partitions": 0},
        {"lateness": "uniform:2"}, {"lateness": "uniform:0.1.1"}, {"delays_ms": (-1, 0)},
    ],
)  # fmt: skip
def test_invalid_settings_are_refused_with_a_hint(wrong):
    with pytest.raises(UsageError) as refused:
        Settings(**wrong)
    assert refused.value.hint
