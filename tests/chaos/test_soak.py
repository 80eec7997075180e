"""A soak on a real stack: it holds."""

from __future__ import annotations

import random

import pytest

from tidemark.cases.soak import SoakOptions, schedule, soak
from tidemark.errors import EXIT_VALID

pytestmark = [pytest.mark.chaos, pytest.mark.long]

SEED = 3


def soaked(stack, tmp_path, pipeline):
    options = SoakOptions(
        tmp_path, minutes=0.1, seed=SEED, impressions=4000, faults=6, pipelines=(pipeline,),
        sinks=("exactly-once",),
    )  # fmt: skip
    return soak(options, stack, lambda *_: None)


def test_its_schedule_has_dying_drivers():
    assert sum(sort.part == "driver" for sort in schedule(random.Random(f"soak-{SEED}-0"), 6)) >= 2


def test_a_sound_sink_stands_it(stack, tmp_path):
    done = soaked(stack, tmp_path, "inner")

    assert done.exit_code == EXIT_VALID, done.summary()
    assert done.summary()["faults"] >= 5
    assert done.summary()["findings"] == {}
