"""A soak on a stack that may be harmed: it holds, and the same soak over a broken sink does not."""

from __future__ import annotations

import pytest

from tests.mutants.in_sinks import SINK
from tidemark.campaigns.soak import SoakOptions, soak
from tidemark.campaigns.soak_faults import chosen_faults
from tidemark.errors import EXIT_INVALID, EXIT_VALID
from tidemark.faults.overlaps import every_fault

pytestmark = [pytest.mark.chaos, pytest.mark.long]

BROKEN = SINK["sink that takes its ledger for a batch older"]


def asked(folder, pipeline="left_outer"):
    return SoakOptions(
        folder, minutes=0.1, impressions=4000, faults=7, pipelines=(pipeline,), sinks=("exactly-once",),
        only=(BROKEN.faults, "executor:pause@planned", "executors@planned", "broker:pause@written", "executor@no-data"),
    )  # fmt: skip


def done(folder, stack, pipeline):
    """One run: it takes longer than a tenth of a minute."""
    ended = soak(asked(folder, pipeline), stack, lambda *_: None)
    assert len(ended.runs) == 1
    return ended


def test_a_sound_sink_stands_it(own_stack, tmp_path):
    ended = done(tmp_path, own_stack, "left_outer")

    assert ended.exit_code == EXIT_VALID, ended.summary()
    assert (ended.summary()["faults"], ended.summary()["missed"]) == (7, 0)
    assert ended.summary()["findings"] == {}
    assert ended.unmet() == {
        part for part in every_fault() if part not in chosen_faults(asked(tmp_path).only)
    }


def test_a_broken_sink_is_found_by_the_same_soak(own_stack, tmp_path):
    pipeline = tmp_path / "broken.py"
    pipeline.write_text(BROKEN.source("left_outer"))
    ended = done(tmp_path / "soak", own_stack, str(pipeline))

    assert ended.exit_code == EXIT_INVALID, ended.summary()
    assert ended.summary()["findings"]["duplicate_rows"] > 0
