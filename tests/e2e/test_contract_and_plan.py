"""Preflight: a run reports where the contract differs from the query plan, and unsafe joins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.formats.evidence import RunDirectory
from tidemark.preflight import read_plan
from tidemark.runner import check_pipeline_plan, describe

pytestmark = [pytest.mark.e2e]

ROOT = Path(__file__).parents[2]
BUNDLED = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "flights_weather")
COMMAND_S = 300.0

LIES = {
    "kind=JoinKind.LEFT_OUTER": "kind=JoinKind.INNER",
    '"impression_id", ("user_id", "ad_id")': '"impression_id", ("user_id",)',
    '"click_id", ("user_id", "ad_id")': '"click_id", ("user_id",)',
    "lower_ms=-20_000": "lower_ms=-30_000",
    '"click_time", 20_000': '"click_time", 21_000',
}
SAID = {
    "kind": ("inner (Inner)", "LeftOuter"),
    "keys": ("user_id = user_id", "ad_id = ad_id and user_id = user_id"),
    "watermark of clicks": ("21000 ms on click_time", "20000 ms (20 seconds)"),
    "bound": (
        "-30000 ms <= impression_time - click_time <= 0 ms",
        "-20000 ms <= impression_time - click_time <= 0 ms",
    ),
}


def changed(changes, path):
    source = (ROOT / "pipelines" / "left_outer.py").read_text()
    for old, new in changes.items():
        assert source.count(old) == 1, f"left_outer.py no longer has {old!r} once"
        source = source.replace(old, new)
    path.write_text(source)
    return path


def tidemark(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tidemark", *map(str, arguments)],
        capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("name", BUNDLED)
def test_the_contract_of_a_bundled_pipeline_is_that_of_its_plan(name, stack):
    plan_check = check_pipeline_plan(name, describe(name), stack)

    assert plan_check.comparison.mismatches == ()
    assert plan_check.comparison.not_compared == ()
    warned = {"full_outer": ["null_keys_match"], "left_semi": ["semi_rows_lost"]}
    assert [advice.name for advice in plan_check.advice] == warned.get(name, [])


def test_a_contract_that_lies_is_contradicted_by_name_before_the_run(stack, tmp_path):
    liar = changed(LIES, tmp_path / "liar.py")

    checked = tidemark("contract", liar, "--json")

    assert checked.returncode == 1, checked.stderr
    shown = json.loads(checked.stdout)
    assert {one["part"]: (one["contract"], one["plan"]) for one in shown["mismatches"]} == SAID

    run = tidemark("run", liar, "--impressions", 300, "--run-dir", tmp_path / "run")

    assert run.returncode == 1, run.stderr  # judged by the contract, which the query does not keep
    for part, (says, has) in SAID.items():
        assert (
            f"the plan does not fit the contract: {part}\n  contract: {says}\n  plan:     {has}\n"
            in run.stderr
        )
    differences = RunDirectory(tmp_path / "run").manifest.plan_differs
    assert [difference.split(":")[0] for difference in differences] == list(SAID)
    assert read_plan((tmp_path / "run" / "logs" / "plan.txt").read_text()).joins[0].kind == "LeftOuter"


def test_a_query_without_half_of_the_key_is_invalid_on_a_trace_that_does_not_tell(run_pipeline, tmp_path):
    """Every row is right: the trace has one ad, and waives what it does not exercise."""
    half = changed(
        {"i.user_id = c.user_id AND i.ad_id = c.ad_id AND": "i.user_id = c.user_id AND"}, tmp_path / "half.py"
    )

    verdict = run_pipeline(half, trace=ROOT / "tests" / "regressions" / "SPARK-26154.jsonl").verdict

    assert verdict.verdict == "INVALID"
    assert verdict.findings_total == {"plan_differs": 1}
    assert "keys: the contract says ad_id = ad_id and user_id = user_id" in verdict.findings[0].message


def test_a_badly_placed_join_is_warned_of_and_fits_its_contract(stack, tmp_path):
    one_sided = changed(
        {
            '("user_id", "ad_id"), "impression_time", 10_000': '("user_id", "ad_id"), "impression_time", None',
            'shown.withWatermark("impression_time", "10 seconds")': "shown",
        },
        tmp_path / "one_sided.py",
    )

    checked = tidemark("contract", one_sided)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "warning: null_rows_never_come" in checked.stdout
    assert "hint:     call withWatermark on impression_time too" in checked.stdout
    assert "left_outer: 0 mismatches between contract and plan, 2 warnings" in checked.stdout
