"""Faults that overlap: each in effect while the next is injected, as seen on a real stack, and every row right."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest

from tests.chaos.copies import copies
from tests.chaos.test_points import EXACTLY_ONCE, SPARK, must_be_right
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import FaultComponent, overlaps
from tidemark.stack import ComponentState
from tidemark.stack.install.network_proxy_program import can_be_built

pytestmark = [pytest.mark.chaos]

PAUSED, STOPPED = str(ComponentState.PAUSED), str(ComponentState.STOPPED)
SEEN = {"pause": PAUSED, "kill broker": STOPPED, "delay": "disturbed"}
"""How a victim looks while its fault is in effect, by the beginning of the fault's label; of another kill ``gone``."""

EVERY_DAY = "broker:pause@written~2+driver@written"
LONG = {
    ("left_outer", EXACTLY_ONCE): "executors:pause@planned~2+executor@planned",
    ("inner", EXACTLY_ONCE): "driver@written+driver@planned",
    ("left_outer", SPARK): "driver@planned+driver@written,broker@no-data+driver@no-data",
    (
        "right_outer",
        EXACTLY_ONCE,
    ): "executor:pause@half-written+driver@half-written,driver:pause@planned+broker@planned",
    ("full_outer", SPARK): "driver@half-written+executor@planned",
    ("left_semi", EXACTLY_ONCE): "driver@written+executor@planned",
}
NETWORK = "broker:delay=300ms@planned~2+driver@written"


def state_of(fault):
    return next((state for label, state in SEEN.items() if fault.label.startswith(label)), "gone")


def must_have_overlapped(evidence, faults):
    """All that was asked for, each in its own batch, with the proof that its parts were in effect at once."""
    groups = overlaps(evidence.faults())
    assert Counter(group[0].together for group in groups) == Counter(
        str(spec) for spec in read_schedule(faults)
    )
    for group in groups:
        [asked] = read_schedule(group[0].together)
        assert [(one.component, one.action, one.point) for one in group] == [
            (part.component, part.action, part.point) for part in asked.parts
        ]
        assert {one.batch for one in group} == {group[0].batch}
        overlap = group[0].proof["overlap"]
        assert overlap["seen"]["states"] == [state_of(one) for one in group]
        seen_at = datetime.fromisoformat(overlap["seen"]["at_utc"])
        for one in group:
            assert (one.proof["planned"], one.proof["committed"]) == (True, False)
            began, ended = (
                datetime.fromisoformat(one.proof["in_effect"][end]) for end in ("from_utc", "to_utc")
            )
            assert began <= seen_at <= ended
        assert group[0].overlap_s > 0
    return groups


def must_have_run_as_often(evidence, groups):
    """Each batch once more than drivers were killed in it, each of them another one."""
    runs = {batch.batch: batch.runs for batch in evidence.batches()}
    for group in groups:
        kills = [one for one in group if one.killed(FaultComponent.DRIVER)]
        assert runs[group[0].batch] == 1 + len(kills)
        assert len({one.proof["app_id"] for one in kills}) == len(kills)
    return {group[0].batch for group in groups if runs[group[0].batch] > 1}


def must_show(result, join, sink, faults):
    must_be_right(join, result.verdict)
    evidence = RunDirectory(result.run_dir)
    groups = must_have_overlapped(evidence, faults)
    again = must_have_run_as_often(evidence, groups)
    doubled = copies(evidence)
    assert set(doubled) <= (again if sink == SPARK else set())
    assert doubled.total() == result.verdict.counts["duplicates_permitted"]


def run_of(join, sink, faults):
    more = {"generator": ("--null-keys", "0")} if join == "full_outer" else {}
    return {
        "sink": sink,
        "seed": 3,
        "impressions": 500 * (1 + faults.count(",")) + 500,
        "faults": faults,
        **more,
    }


@pytest.mark.long_on("compose")
def test_overlapping_faults_are_in_effect_at_once_and_every_row_is_right(run_on_own):
    result = run_on_own("left_outer", **run_of("left_outer", EXACTLY_ONCE, EVERY_DAY))

    must_show(result, "left_outer", EXACTLY_ONCE, EVERY_DAY)


@pytest.mark.long
@pytest.mark.parametrize(("join", "sink"), LONG)
def test_faults_overlap_with_outages_and_with_recoveries(join, sink, run_on_own):
    result = run_on_own(join, **run_of(join, sink, LONG[join, sink]))

    must_show(result, join, sink, LONG[join, sink])


@pytest.mark.long
def test_a_driver_is_killed_while_the_network_is_slow(run_on_own):
    if not can_be_built():
        pytest.skip("the network proxy takes Go")

    result = run_on_own("left_outer", **run_of("left_outer", EXACTLY_ONCE, NETWORK))

    must_show(result, "left_outer", EXACTLY_ONCE, NETWORK)
    [[delay, _]] = overlaps(RunDirectory(result.run_dir).faults())
    assert delay.proof["traffic"]["during"]["requests"]["held_ms"] > 0
