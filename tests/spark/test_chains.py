"""The judge's model of a chain against the engine: random chains, random records, restarts; see ``chain_fuzz``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.house import tree
from tests.spark.chain_traces import SHAPES

FIRST = {shape: 1000 * number for number, shape in enumerate(SHAPES, 1)}
LONG_S = 1500


def fuzz(*arguments: str) -> list[dict]:
    """What a run of the fuzz says, a classic session in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(tree.ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.chain_fuzz", *arguments],
        cwd=tree.ROOT, env=environment, capture_output=True, text=True, timeout=LONG_S, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_kind_of_chain_gives_what_the_model_says():
    told = fuzz("--each", "1")

    assert {one["chain"] for one in told} == set(SHAPES)
    assert [one for one in told if one["differences"]] == []
    assert sum(one["rows"] for one in told) > 0
    assert sum(one["late"] for one in told) > 0


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_many_chains_of_a_kind_give_what_the_model_says(shape):
    told = fuzz("--kind", shape, "--seeds", "20", "--first", str(FIRST[shape]))

    assert len(told) == 20
    assert [one for one in told if one["differences"]] == []
