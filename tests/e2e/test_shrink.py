"""``tidemark shrink`` on a real stack: a red run becomes small, an interrupted search goes on, what comes out runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.e2e.foreign_join import ORDERS, PAYMENTS, SOON
from tests.e2e.foreign_query import CONTRACT, ForeignQuery
from tests.e2e.own_broker import own_broker
from tests.e2e.test_command_line import tidemark
from tests.shrunk.__main__ import outcome_of_test
from tests.shrunk.red_items import promised
from tidemark import paths
from tidemark.formats.evidence import RunDirectory
from tidemark.waiting import wait_until

pytestmark = pytest.mark.e2e

START_S = 180.0
END_S = 120.0
UNDER_FAULTS_S = 1_800.0
"""Calibration: a dozen runs, each of 50 to 150 s on a busy machine."""


@pytest.fixture
def red(run_pipeline, tmp_path):
    """A backlog of the left semi join, in which Spark loses rows."""
    result = run_pipeline("left_semi", pace="backlog", seed=5, impressions=200, run_dir=tmp_path / "red")
    assert result.verdict.verdict == "INVALID"
    return result.run_dir


def told(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_few_rows_of_a_known_defect_become_two(run_pipeline, tmp_path):
    run_dir, small = tmp_path / "red", tmp_path / "small"
    bugs = paths.spark_bugs_dir()
    trace = bugs / "null_keys.jsonl"
    run_pipeline(bugs / "null_keys.py", trace=trace, sink="spark", run_dir=run_dir)

    found = told(tidemark("shrink", run_dir, "--to", small, "--json"))

    assert found["signature"]["defect"] == "full-outer-joins-null-keys"
    assert found["is_minimal"]
    assert found["after"]["rows"] == 2 < found["before"]["rows"]
    assert found["final"] == {"red": 5, "of": 5}
    verdict = json.loads((small / "smallest" / "verdict.json").read_text())
    assert {one["defect"] for one in verdict["findings"]} == {"full-outer-joins-null-keys"}


@pytest.mark.long
def test_a_red_run_becomes_four_rows_and_what_comes_out_is_red(red, tmp_path, run_pipeline):
    found = told(tidemark("shrink", red, "--to", tmp_path / "small", "--json"))

    small = tmp_path / "small"
    assert found["after"]["rows"] <= 4
    assert found["final"] == {"red": 5, "of": 5}
    assert found["is_minimal"]
    assert (small / "smallest" / "report.html").is_file()
    assert "left-semi-loses-same-batch-rows" in (small / "ticket.md").read_text()
    assert "def test_left_semi(run_pipeline)" in (small / "test_left_semi.py").read_text()
    result = run_pipeline(small / "contract.json", trace=small / "trace.jsonl", sink="spark")
    assert result.verdict.findings_total == {"lost_rows": 1}
    done = subprocess.run(
        [sys.executable, small / "repro.py"], capture_output=True, text=True, timeout=END_S, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "missing:  [['L2']]" in done.stdout


@pytest.mark.long
def test_a_red_run_of_a_chain_becomes_small_and_keeps_its_pipeline(tmp_path, run_pipeline):
    broken = tmp_path / "broken.py"
    text = (paths.root() / "pipelines" / "clicked_per_window.py").read_text(encoding="utf-8")
    broken.write_text(text.replace("INTERVAL 20 SECONDS", "INTERVAL 10 SECONDS"), encoding="utf-8")
    red = run_pipeline(
        broken, seed=11, impressions=150, generator=("--lateness", "on_time"), run_dir=tmp_path / "red"
    )
    assert red.verdict.unexplained_total["lost_rows"]

    found = told(tidemark("shrink", red.run_dir, "--to", tmp_path / "small", "--budget", "2m", "--json"))

    assert found["signature"]["kind"] == "chain of inner join, aggregate"
    assert found["after"]["rows"] <= 8
    assert "no repro.py" in found["notes"][0]
    result = run_pipeline(tmp_path / "small" / "pipeline.py", trace=tmp_path / "small" / "trace.jsonl")
    assert result.verdict.verdict == "INVALID"


@pytest.mark.long
def test_an_interrupted_search_goes_on_with_the_trials_that_it_has(red, tmp_path):
    small = tmp_path / "small"
    journal = small / "trials.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-m", "tidemark", "shrink", str(red), "--to", str(small)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def trials():
        return len(journal.read_text().splitlines()) - 1 if journal.is_file() else 0

    wait_until(lambda: trials() >= 2, START_S, lambda: f"two trials; there are {trials()}")
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=END_S)
    assert child.returncode == 130, said
    assert "--resume" in said
    before = trials()

    assert tidemark("shrink", red, "--to", small).returncode == 2  # it is there already
    found = told(tidemark("shrink", red, "--to", small, "--resume", "--json"))

    assert found["trials"] == trials() - before
    assert found["after"]["rows"] <= 4


@pytest.mark.long
def test_a_bug_of_a_program_keeps_the_program(run_pipeline, tmp_path):
    pipeline = paths.payload() / "pipelines" / "inner.py"
    broken = tmp_path / "broken.py"
    broken.write_text(pipeline.read_text().replace("20 SECONDS", "10 SECONDS"))
    run_dir = tmp_path / "red"
    verdict = run_pipeline(str(broken), seed=11, impressions=300, run_dir=run_dir).verdict
    assert "lost_rows" in verdict.unexplained_total
    number = next(at for at, one in enumerate(verdict.findings, 1) if one.property == "lost_rows")

    found = told(tidemark("shrink", run_dir, "--finding", number, "--to", tmp_path / "small", "--json"))

    assert found["after"]["rows"] == 2
    assert (tmp_path / "small" / "pipeline.py").read_text() == broken.read_text()
    assert not (tmp_path / "small" / "repro.py").exists()
    assert RunDirectory(tmp_path / "small" / "smallest").manifest.contract["name"] == "inner"


@pytest.mark.long
def test_a_run_with_faults_becomes_a_pair_and_the_fault_that_doubles_it(run_pipeline, tmp_path):
    """Spark's own sink, of which exactly-once is asked: the killed driver doubles a batch, the executor does not."""
    run_dir, small = tmp_path / "red", tmp_path / "small"
    faults, pipeline = "driver@written,executor@planned", promised(tmp_path)
    verdict = run_pipeline(
        pipeline, seed=3, impressions=400, faults=faults, sink="spark", run_dir=run_dir
    ).verdict
    assert set(verdict.unexplained_total) == {"duplicate_rows"}

    asked = ("shrink", run_dir, "--to", small, "--budget", "15m", "--json")
    found = told(tidemark(*asked, within_s=UNDER_FAULTS_S))

    assert found["faults"] == ["driver@written"]
    assert found["after"]["rows"] <= 3
    assert found["final"] == {"red": 5, "of": 5}
    assert outcome_of_test(small) == "red"
    test = small / "test_inner.py"
    test.write_text(test.read_text().replace('sink="spark"', 'sink="exactly-once"'))
    assert outcome_of_test(small) == "green"


PAID = f'''"""Orders with their payments of 20 seconds, as the query that is audited joins them."""

from pyspark.sql.functions import expr

from tidemark import Contract, read_json

CONTRACT = Contract.from_json({CONTRACT!r})


def build(orders, payments):
    ordered = read_json(orders, "order", "{ORDERS}", "ordered_at").withWatermark("ordered_at", "10 seconds")
    paid = read_json(payments, "payment", "{PAYMENTS}", "paid_at").withWatermark("paid_at", "20 seconds")
    return ordered.alias("o").join(paid.alias("p"), expr("""{SOON}"""), "leftOuter").select("order_id", "payment_id")
'''


@pytest.mark.long
def test_the_input_of_an_audit_becomes_small_with_a_pipeline(tmp_path):
    """The contract that is audited promises payments of five seconds; the query joins those of twenty."""
    pipeline, small = tmp_path / "paid.py", tmp_path / "small"
    pipeline.write_text(PAID)
    with own_broker(tmp_path / "broker") as broker:
        query = ForeignQuery(broker.bootstrap, tmp_path, seed=7)
        with query.running() as program:
            query.read_slices(program, 3)
        query.contract.write_text(json.dumps({**CONTRACT, "bound": {"lower_ms": -5_000, "upper_ms": 0}}))
        verdict = query.audit(tmp_path / "audit").verdict
    assert verdict.unexplained_total

    found = told(tidemark("shrink", tmp_path / "audit", "--pipeline", pipeline, "--to", small, "--json"))

    assert found["final"] == {"red": 5, "of": 5}
    assert found["after"]["rows"] == 2 < found["before"]["rows"]
    result = json.loads((small / "smallest" / "verdict.json").read_text())
    assert {one["property"] for one in result["findings"]} <= set(verdict.unexplained_total)
