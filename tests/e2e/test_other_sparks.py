"""Random joins, and the exactly-once sink, on the other releases of Spark that a stack runs with."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import shown
from tidemark.campaigns.fuzz import run_seed
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.formats.evidence import RunDirectory
from tidemark.runner import RunOptions, run_pipeline
from tidemark.runner.one_run import EXACTLY_ONCE_SINCE
from tidemark.runner.pyspark_environments import RELEASES, folder, provide
from tidemark.stack import StackSpec, lease
from tidemark.stack.install.toolchain import find_spark

SEEDS = 12
OTHERS = [release for release in RELEASES if release != find_spark(StackSpec.python).version]
WITH_THE_SINK = [one for one in OTHERS if tuple(map(int, one.split(".")))[:2] >= EXACTLY_ONCE_SINCE]


@pytest.mark.long
@pytest.mark.parametrize("release", OTHERS)
def test_a_random_join_is_judged_as_this_spark_does_it(release, tmp_path):
    python = provide(release, folder(), print)
    with (
        lease(StackSpec(python=python), home=tmp_path / "home") as stack,
        WarmDriver(stack, stack.driver(), tmp_path) as warm,
    ):
        outcomes = [run_seed(seed, warm, tmp_path) for seed in range(SEEDS)]

    assert stack.versions["spark"] == release
    assert [f"seed {one.seed}: {one.problem}" for one in outcomes if not one.holds] == []
    assert sum(one.rows for one in outcomes) > SEEDS


@pytest.mark.long
@pytest.mark.parametrize("release", WITH_THE_SINK)
def test_the_sink_writes_each_row_once_on_this_spark_whatever_is_killed(release, tmp_path):
    python = provide(release, folder(), print)
    faults = "driver@written,driver@half-written,executor@half-written,broker@planned"
    options = RunOptions(
        "left_outer",
        seed=3,
        impressions=2000,
        faults=faults,
        python=python,
        driver="driver",
        run_dir=tmp_path / "run",
    )
    with lease(StackSpec(python=python), home=tmp_path / "home") as stack:
        verdict = run_pipeline(options, stack=stack).verdict

    evidence = RunDirectory(tmp_path / "run")
    assert evidence.manifest.versions["spark"] == release
    assert (verdict.verdict, verdict.delivery) == ("VALID", "exactly-once"), shown(verdict)
    assert verdict.counts["duplicates_permitted"] == 0
    assert len([fault for fault in evidence.faults() if fault.injected]) == faults.count(",") + 1
