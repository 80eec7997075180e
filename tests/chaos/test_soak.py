"""A soak on a stack that may be harmed: it holds, and the same soak over a broken sink does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.in_sinks import SINK
from tidemark.campaigns.soak import SoakOptions, run_options, soak
from tidemark.errors import EXIT_INVALID, EXIT_VALID

pytestmark = [pytest.mark.chaos, pytest.mark.long]

SEED = 1159
BROKEN = SINK["sink that takes its ledger for a batch older"]


def asked(folder, pipeline="left_outer"):
    return SoakOptions(
        folder, minutes=0.1, seed=SEED, impressions=4000, faults=6, pipelines=(pipeline,), sinks=("exactly-once",)
    )  # fmt: skip


def done(folder, stack, pipeline):
    """One run: it takes longer than a tenth of a minute."""
    ended = soak(asked(folder, pipeline), stack, lambda *_: None)
    assert len(ended.runs) == 1
    return ended


def test_its_schedule_has_the_fault_that_the_broken_sink_fails_under_and_pauses():
    specs = [str(replace(spec, count=1)) for spec in run_options(asked(Path("nowhere")), 0).fault_specs]

    assert BROKEN.faults in specs
    assert {spec.partition("@")[0] for spec in specs} == {
        "driver",
        "executor",
        "executor:pause",
        "executors",
        "broker:pause",
    }


def test_a_sound_sink_stands_it(own_stack, tmp_path):
    ended = done(tmp_path, own_stack, "left_outer")

    assert ended.exit_code == EXIT_VALID, ended.summary()
    assert (ended.summary()["faults"], ended.summary()["missed"]) == (6, 0)
    assert ended.summary()["findings"] == {}


def test_a_broken_sink_is_found_by_the_same_soak(own_stack, tmp_path):
    pipeline = tmp_path / "broken.py"
    pipeline.write_text(BROKEN.source("left_outer"))
    ended = done(tmp_path / "soak", own_stack, str(pipeline))

    assert ended.exit_code == EXIT_INVALID, ended.summary()
    assert ended.summary()["findings"]["duplicate_rows"] > 0
