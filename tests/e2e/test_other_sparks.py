"""Random joins on the other releases of Spark that a stack runs with, each on a stack of its own."""

from __future__ import annotations

import pytest

from tidemark.campaigns.fuzz import run_seed
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.runner.pyspark_environments import RELEASES, folder, provide
from tidemark.stack import StackSpec, lease
from tidemark.stack.install.toolchain import find_spark

SEEDS = 12
OTHERS = [release for release in RELEASES if release != find_spark(StackSpec.python).version]


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
