"""Preflight: a run reports where the contract differs from the query plan, and unsafe joins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.pipeline_loader import load
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace
from tidemark.preflight import read_plan
from tidemark.runner import check_pipeline_plan, describe

pytestmark = [pytest.mark.e2e]

ROOT = Path(__file__).parents[2]
CHAINS = (
    "clicked_per_window", "clicks_per_window", "first_impressions", "impressions_once", "once_then_joined",
    "shown_again", "windows_joined",
)  # fmt: skip
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
    plan_check = check_pipeline_plan(name, load(name).CONTRACT, stack)

    assert plan_check.comparison.mismatches == ()
    assert plan_check.comparison.not_compared == ()
    warned = {"full_outer": ["null_keys_match"], "left_semi": ["semi_rows_lost"]}
    assert [advice.name for advice in plan_check.advice] == warned.get(name, [])


@pytest.mark.parametrize("name", CHAINS)
def test_the_steps_of_a_bundled_chain_are_those_of_its_plan(name, stack):
    comparison = check_pipeline_plan(name, load(name).CONTRACT, stack).comparison

    assert comparison.mismatches == ()
    assert len(comparison.not_compared) == 1


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


@pytest.mark.long
def test_a_query_without_half_of_the_key_is_invalid_on_a_trace_that_does_not_tell(run_pipeline, tmp_path):
    """Every row is right: the trace has one ad, and waives what it does not exercise."""
    half = changed(
        {"i.user_id = c.user_id AND i.ad_id = c.ad_id AND": "i.user_id = c.user_id AND"}, tmp_path / "half.py"
    )

    verdict = run_pipeline(half, trace=ROOT / "tests" / "regressions" / "SPARK-26154.jsonl").verdict

    assert verdict.verdict == "INVALID"
    assert verdict.findings_total == {"plan_differs": 1}
    assert "keys: the contract says ad_id = ad_id and user_id = user_id" in verdict.findings[0].message


FILTERED_KEY = """
from pyspark.sql.functions import expr

from tidemark import Bound, Contract, Filter, JoinKind, Output, Side, read_json

CONTRACT = Contract(
    name="filtered_key", kind=JoinKind("KIND"),
    left=Side("lefts", "lid", ("k",), "lt", 0, filters=(Filter("k", ">=", 5),)),
    right=Side("rights", "rid", ("k",), "rt", 0),
    bound=Bound(-10_000, 10_000),
    output=Output("lid", "rid", ("left_partition", "left_offset"), ("right_partition", "right_offset")),
)


def build(lefts, rights):
    left = read_json(lefts, "left", "lid STRING, k BIGINT, lt TIMESTAMP", "lt").where("k >= 5")
    right = read_json(rights, "right", "rid STRING, k BIGINT, rt TIMESTAMP", "rt")
    condition = "l.k = r.k AND l.lt BETWEEN r.rt - INTERVAL 10 SECONDS AND r.rt + INTERVAL 10 SECONDS"
    return (
        left.withWatermark("lt", "0 seconds").alias("l")
        .join(right.withWatermark("rt", "0 seconds").alias("r"), expr(condition), "SPARKS")
        .select("lid", "left_partition", "left_offset", "lt", "rid", "right_partition", "right_offset", "rt")
    )
"""
"""Spark asks the right side, too, for ``k >= 5``: of an inner and a left outer join."""


@pytest.mark.parametrize(
    ("kind", "sparks", "null_rows"),
    [
        ("inner", "inner", set()),
        ("left_outer", "leftOuter", set()),
        ("right_outer", "rightOuter", {(None, "far")}),
    ],
)
@pytest.mark.long
def test_a_filter_on_a_key_is_asked_of_the_other_side_below_its_watermark(
    kind, sparks, null_rows, run_pipeline, tmp_path
):
    """Rows with k = 1 are far ahead: a watermark that sees those of both sides makes l2 and r2 late."""
    write_key_trace(tmp_path / "trace.jsonl")
    (tmp_path / "filtered.py").write_text(FILTERED_KEY.replace("KIND", kind).replace("SPARKS", sparks))

    result = run_pipeline(tmp_path / "filtered.py", trace=tmp_path / "trace.jsonl", run_dir=tmp_path / "run")

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)
    came = [json.loads(record.value) for record in RunDirectory(tmp_path / "run").output()]
    pairs = {("l1", "r1"), ("l2", "r1"), ("l2", "r2")}
    assert {
        (row.get("lid"), row.get("rid")) for row in came if "sentinel" not in str(row)
    } == pairs | null_rows


@pytest.mark.long
def test_a_filter_on_a_key_that_spark_does_not_infer_moves_the_watermark(run_pipeline, tmp_path):
    """A contract alone is read with ``from_json``: of its fields Spark infers nothing, and l2 and r2 are late."""
    write_key_trace(tmp_path / "trace.jsonl")
    (tmp_path / "filtered.py").write_text(FILTERED_KEY.replace("KIND", "inner").replace("SPARKS", "inner"))
    contract = describe(str(tmp_path / "filtered.py"))
    (tmp_path / "filtered.json").write_text(json.dumps(contract.to_json() | {"policy": "max"}))

    result = run_pipeline(
        tmp_path / "filtered.json", trace=tmp_path / "trace.jsonl", run_dir=tmp_path / "run"
    )

    assert result.verdict.verdict == "VALID", (result.verdict.findings, result.verdict.inconclusive)
    assert result.verdict.counts["late"] == 2


def write_key_trace(path: Path) -> None:
    rows = [
        ("lefts", 0, {"lid": "l1", "k": 7, "lt": 1010}), ("rights", 0, {"rid": "r1", "k": 7, "rt": 1012}),
        ("lefts", 0, {"lid": "lost", "k": 1, "lt": 5000}), ("rights", 0, {"rid": "far", "k": 1, "rt": 5000}),
        ("lefts", 1, {"lid": "l2", "k": 7, "lt": 1020}), ("rights", 1, {"rid": "r2", "k": 7, "rt": 1021}),
    ]  # fmt: skip
    records = [
        Record(topic=topic, slice=at, arrival_ms=1 + at, value=json.dumps(value)) for topic, at, value in rows
    ]
    waived = ["null_row_after_eviction", "each_key_field_decides", "each_bound_end_decides"]
    topics = {"lefts": TopicSpec(1), "rights": TopicSpec(1)}
    header = Header(tidemark_trace=2, pace="stepped", topics=topics, slices=2, waived=waived)
    write_trace(path, header, records)


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
