"""Unsafe chains that Spark accepts."""

from __future__ import annotations

import pytest

from pipelines.pipeline_loader import load
from tidemark import paths
from tidemark.preflight import advise_chain


@pytest.mark.parametrize(
    ("pipeline", "version", "names"),
    [
        ("unused_side", "4.3.0", ["side_not_read"]),
        ("unused_side", "", ["side_not_read"]),
        ("unused_side", "3.5.7", []),
        ("same_window_left_semi", "4.3.0", ["semi_rows_lost"]),
        ("same_window_left_semi", "", ["semi_rows_lost"]),
        ("same_window_left_semi", "4.1.4", []),
        ("same_window_inner", "4.3.0", []),
    ],
)
def test_what_is_badly_placed_in_a_chain_is_said_with_what_mends_it(pipeline, version, names):
    described = load(str(paths.spark_bugs_dir() / f"{pipeline}.py")).CONTRACT

    told = list(advise_chain(described, version))

    assert [advice.name for advice in told] == names
    assert all(advice.reason and advice.remedy for advice in told)


@pytest.mark.parametrize("name", ["windows_joined", "clicked_per_window", "once_then_joined", "shown_again"])
def test_the_bundled_chains_are_well_placed(name):
    assert list(advise_chain(load(name).CONTRACT, "4.3.0")) == []
