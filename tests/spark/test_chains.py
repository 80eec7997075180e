"""The judge's model of a chain against Spark: random chains, random records, restarts; see ``chain_fuzz``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.repository import tree
from tests.spark.chain_traces import SHAPES
from tests.support.environment import classic_environment

LONG_S = 1500
SEEDS = 4
"""Of each kind, in each part; a part is one process of Spark, which takes longer to start than three chains."""


def fuzz(*arguments: str) -> list[dict]:
    """What a run of the fuzz says, a classic session in a process of its own."""
    environment = classic_environment()
    environment["PYTHONPATH"] = str(tree.ROOT)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.chain_fuzz", *arguments],
        cwd=tree.ROOT, env=environment, capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_each_kind_of_chain_gives_what_the_model_says():
    told = fuzz("--each", "1")

    assert {one["chain"] for one in told} == set(SHAPES)
    assert [one for one in told if one["differences"]] == []
    assert sum(one["rows"] for one in told) > 0
    assert sum(one["late"] for one in told) > 0


@pytest.mark.long
@pytest.mark.parametrize("part", range(1, 4))
def test_many_chains_of_each_kind_give_what_the_model_says(part):
    told = fuzz("--each", str(SEEDS), "--first", str(1000 * part))

    assert len(told) == SEEDS * len(SHAPES)
    assert [one for one in told if one["differences"]] == []
