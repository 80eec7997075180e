"""The predicted watermark is exact, and the edge rows lie exactly around it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from producers.generate import generated
from producers.settings import Settings
from tidemark.errors import UsageError

KINDS = {
    "nothing is filtered": (),
    "left_outer": ("clicks",),
    "inner and left_semi": ("impressions", "clicks"),
}
BOUND_MS = 20_000


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("kind", KINDS)
def test_the_predicted_watermark_is_right_for_every_join_kind(make, seed, kind):
    made = make(seed=seed, impressions=600)
    with generated(made.settings) as trace:
        predicted = trace.arrivals.watermarks_ms
    assert made.watermarks_ms(KINDS[kind])[:-1] == predicted
    assert predicted == sorted(set(predicted))


@given(
    seed=st.integers(0, 3),
    impressions=st.integers(1, 150),
    slices=st.integers(1, 8),
    delays_ms=st.tuples(st.integers(0, 30_000), st.integers(0, 30_000)),
    bound_ms=st.integers(0, 30_000),
    null_keys=st.sampled_from([0, 0.1, 1]),
    lateness=st.sampled_from(["on_time", "uniform*3", "long_tail:0.5*2+skewed_clock:0.5*2", "burst:0.5*2"]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_predicted_watermark_and_the_number_of_late_rows_are_exact_for_any_settings(make, **dials):
    made = make(**dials)
    with generated(made.settings) as trace:
        predicted = trace.arrivals.watermarks_ms
    for filtered in KINDS.values():
        marks = made.watermarks_ms(filtered)
        assert marks[:-1] == predicted
    late = sum(
        event.time_us <= marks[index] * 1000 and None not in event.key
        for index, rows in enumerate(made.slices())
        for _, event in rows
    )
    assert late == made.header.counts["late"]


def test_each_slice_after_the_first_has_rows_at_and_next_to_its_watermark(make):
    made = make(impressions=600)
    marks, slices = made.watermarks_ms(), made.slices()
    for index in range(1, len(slices)):
        for topic in made.header.topics:
            offsets_us = {e.time_us - marks[index] * 1000 for r, e in slices[index] if r.topic == topic}
            assert {-1000, 0, 1, 1000} <= offsets_us


def test_unmatched_impressions_are_evicted_exactly_at_and_next_to_a_watermark(make):
    made = make(impressions=600)
    marks, slices = made.watermarks_ms(), made.slices()
    edges = 0
    for index, rows in enumerate(slices):
        expiry_us = (marks[index + 1] - BOUND_MS - 1) * 1000
        if expiry_us - 1000 <= marks[index] * 1000:
            continue
        edges += 1
        offsets_us = {
            e.time_us - expiry_us
            for r, e in rows
            if r.topic == "impressions" and (e.key[0] or "")[:5] == "edge-"
        }
        assert {-1000, 0, 1, 1000} <= offsets_us
    assert edges >= 4


def test_clicks_lie_on_both_ends_of_the_time_bound(make):
    made = make(impressions=600, lateness="on_time")
    shown, clicked = {}, {}
    for record, event in made.events():
        if event is not None and event.key[0] and event.key[0].startswith("edge-"):
            (shown if record.topic == "impressions" else clicked)[event.key] = event.time_us
    after_us = {clicked[key] - shown[key] for key in clicked if key in shown}
    bound_us = BOUND_MS * 1000
    assert {-1000, 0, 1, bound_us, bound_us + 1, bound_us + 1000} <= after_us


def test_an_edge_row_shares_its_user_with_its_partner_only(make):
    users = {}
    for _, event in make(impressions=600).events():
        if event is not None and event.key[0] and event.key[0].startswith("edge-"):
            users.setdefault(event.key[0], []).append(event)
    assert max(map(len, users.values())) == 2


def test_a_trace_without_edges_has_no_edge_rows(make):
    made = make(impressions=200, edges=0)
    assert made.header.counts["edge_rows"] == 0
    assert "edge_row_seen" not in made.header.goals


def test_a_microsecond_after_the_watermark_is_not_late(make):
    made = make(impressions=600)
    marks = made.watermarks_ms()
    just_after = [
        event
        for index, rows in enumerate(made.slices())
        for _, event in rows
        if event.time_us == marks[index] * 1000 + 1
    ]
    assert just_after


def test_invalid_settings_are_refused():
    with pytest.raises(UsageError, match="slices is -1"):
        Settings(slices=-1)
