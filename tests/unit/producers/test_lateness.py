"""Each lateness model delays its share of the events by its amount, and the delays of several models add up."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from producers.draft import Draft
from producers.entities import partition_of
from producers.lateness import LONGEST_TAIL, MODELS, MakeLate, Stretch, parse_lateness
from producers.random_draws import at_least, some
from tidemark.errors import UsageError

UNIT_MS = 10_000
STRETCH = Stretch(start_ms=0, duration_ms=100_000, partitions=2)


def delayed(text: str, n: int = 4_000, seed: int = 1) -> list[Draft]:
    drafts = []
    for number in range(n):
        user, event_ms = f"u{number % 500}", number * STRETCH.duration_ms // n
        drafts.append(Draft(number % 2, number, event_ms, user, 0, 0, partition_of(user, 2), event_ms))
    make_late = MakeLate(Random(seed), n, parse_lateness(text), UNIT_MS, STRETCH)
    for first in range(0, n, 77):
        make_late(drafts[first : first + 77])
    return drafts


def waits_ms(drafts: list[Draft]) -> list[int]:
    return [draft.arrival_ms - draft.event_ms for draft in drafts]


def test_on_time_adds_at_most_a_hundredth_of_the_unit():
    assert 0 <= min(waits_ms(delayed("on_time"))) <= max(waits_ms(delayed("on_time"))) <= UNIT_MS // 100


def test_uniform_delays_its_share_evenly_up_to_the_amount():
    waits = [wait for wait in waits_ms(delayed("uniform:0.5*2")) if wait]
    assert 0.45 < len(waits) / 4_000 < 0.55
    assert max(waits) < 2 * UNIT_MS
    assert 0.9 * UNIT_MS < sum(waits) / len(waits) < 1.1 * UNIT_MS


def test_the_long_tail_is_long_and_cut_off():
    waits = sorted(waits_ms(delayed("long_tail")))
    assert waits[len(waits) // 2] < 0.7 * UNIT_MS
    assert 10 * UNIT_MS < waits[-1] <= LONGEST_TAIL * UNIT_MS


def test_the_events_of_an_outage_arrive_together_at_its_end():
    drafts = delayed("burst:0.1*1")
    arrivals = Counter(draft.arrival_ms for draft in drafts if draft.arrival_ms > draft.event_ms)
    [(release_ms, held)] = arrivals.items()
    assert held > 50
    assert all(release_ms - UNIT_MS <= draft.event_ms for draft in drafts if draft.arrival_ms == release_ms)


def test_one_partition_of_one_topic_is_delayed_for_its_share_of_the_time():
    touched = [draft for draft in delayed("straggling_partition:0.3*2") if draft.arrival_ms > draft.event_ms]
    assert {draft.arrival_ms - draft.event_ms for draft in touched} == {2 * UNIT_MS}
    assert len({(draft.topic, draft.partition) for draft in touched}) == 1
    assert max(d.event_ms for d in touched) - min(d.event_ms for d in touched) <= 0.3 * STRETCH.duration_ms


def test_a_skewed_clock_shifts_all_events_of_a_user_by_the_same_amount():
    drafts = delayed("skewed_clock:0.2*0.5")
    by_user: dict[str, set[int]] = {}
    for draft in drafts:
        by_user.setdefault(draft.user, set()).add(draft.arrival_ms - draft.event_ms)
    assert all(len(skews) == 1 for skews in by_user.values())
    skews = Counter(skew for skews in by_user.values() for skew in skews)
    assert set(skews) == {0, UNIT_MS // 2, -UNIT_MS // 2}
    assert 60 < skews[UNIT_MS // 2] + skews[-UNIT_MS // 2] < 140


def test_the_delays_of_models_add_up():
    rng = Random(1)
    drafts = [Draft(0, 0, 0, "u", 0, 0, 0, 0)]
    both = parse_lateness("straggling_partition*1+straggling_partition*3")
    always = Stretch(start_ms=0, duration_ms=1, partitions=1)
    for _ in range(50):
        drafts[0].arrival_ms = 0
        MakeLate(rng, 1, both, UNIT_MS, always)(drafts)
        if drafts[0].arrival_ms == 4 * UNIT_MS:
            return
    pytest.fail("never both")


@pytest.mark.parametrize("model", MODELS)
def test_a_share_of_0_delays_no_event(model):
    if model != "on_time":
        assert not any(waits_ms(delayed(f"{model}:0*5")))


@pytest.mark.parametrize(
    "text", ["", "late", "uniform:", "uniform:x", "uniform**2", "uniform:0.1+", "uniform:1.01"]
)
def test_an_invalid_mix_is_refused(text):
    with pytest.raises(UsageError):
        parse_lateness(text)


def test_some_picks_about_its_share_at_a_cost_of_its_picks():
    picked = list(some(Random(1), 100_000, 0.03))
    assert picked == sorted(set(picked))
    assert 2_700 < len(picked) < 3_300
    assert list(some(Random(1), 5, 1)) == [0, 1, 2, 3, 4]
    assert list(some(Random(1), 5, 0)) == []


@pytest.mark.parametrize(("n", "share", "least"), [(2, 0.5, 2), (1_000, 0.0001, 3), (10, 0, 0)])
def test_at_least_so_many_are_picked(n, share, least):
    for seed in range(20):
        picked = list(at_least(Random(seed), n, share, 3))
        assert picked == sorted(set(picked))
        assert len(picked) >= least
        assert all(0 <= index < n for index in picked)
