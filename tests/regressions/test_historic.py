"""Bugs that Spark once had in its stream-stream joins: it must not have them again, and would not get away with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mutants import naive
from tests.mutants.evidence import Copy
from tests.mutants.mutants import PIPELINES
from tests.mutants.score import EVIDENCE, PROPERTY, Line
from tests.regressions.historic import HISTORIC
from tests.support.bundled import case_of
from tests.support.tiers import every_day
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge
from tidemark.oracle.input.history import read_history

HERE = Path(__file__).parent
pytestmark = [pytest.mark.regressions]


def pipeline_of(name, folder):
    """The pipeline's name, or a file with the old bug's circumstances in it."""
    case = HISTORIC[name]
    text = (PIPELINES / f"{case.join}.py").read_text()
    for old, new in case.changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    if case.before:
        text += f"\n\nplain = build\n\n\ndef build(left, right):\n    return plain({case.before})\n"
    (folder / "pipeline.py").write_text(text)
    return folder / "pipeline.py" if case.changes or case.before else case.join


def rows_of(run):
    """Ids -> batch of every output row."""
    output = list(run.output())
    shown = [(left or "-", right or "-") for left, right in naive.ids(output, contract_of(run))]
    assert len(set(shown)) == len(shown)
    return dict(zip(shown, (int(dict(record.headers)["batch"]) for record in output), strict=True))


def contract_of(run):
    return Contract.from_json(run.manifest.contract)


def broken(run, name, folder):
    """The evidence that the old engine would have left."""
    copy, history, case = Copy(run, folder), read_history(run), HISTORIC[name]
    row_of = {of: row for row, of in enumerate(history.rows.id)}
    ids = [tuple(text or "-" for text in one) for one in naive.ids(copy.output, copy.contract)]
    for row, batch in case.come.items():
        rows = {side: row_of[of] for side, of in enumerate(row) if of != "-"}
        copy.add(0, batch, copy.made_of(history, rows))
    for row in case.gone:
        copy.output[ids.index(row)] = None
    copy.output = [record for record in copy.output if record is not None]
    return copy.write()


EVERY_DAY = {"SPARK-26154", "SPARK-38684", "SPARK-49829"}


@pytest.mark.parametrize("name", every_day(HISTORIC, EVERY_DAY))
def test_the_bug_is_gone_and_would_be_caught_by_name(name, warm, tmp_path, request):
    case, run = HISTORIC[name], RunDirectory(tmp_path / "run")
    verdict = warm.run(case_of(pipeline_of(name, tmp_path), HERE / f"{name}.jsonl"), run.path)

    assert verdict.verdict == "VALID", (verdict.findings, verdict.inconclusive)
    assert rows_of(run) == case.right

    damaged = broken(run, name, tmp_path / "broken")
    verdict = judge(damaged)
    killed = "killed" if case.killed_by in verdict.findings_total else "survived"
    said = naive.outcomes(damaged, naive.ids(run.output(), contract_of(run)))
    line = Line("engine", name, case.join, case.killed_by, killed, **said)
    kept = "engine", name, case.join, str(damaged.path)
    request.node.user_properties.extend([(PROPERTY, tuple(line)), (EVIDENCE, kept)])
    assert verdict.verdict == "INVALID"
    assert case.killed_by in verdict.findings_total, verdict.findings_total


@pytest.mark.parametrize("name", [name for name, case in HISTORIC.items() if case.conf])
def test_the_bug_can_be_had_again_by_a_setting_and_is_killed(name, warm, tmp_path):
    case, run = HISTORIC[name], RunDirectory(tmp_path / "run")

    trace = HERE / f"{name}.jsonl"
    verdict = warm.run(case_of(pipeline_of(name, tmp_path), trace, conf=case.conf), run.path)

    assert rows_of(run).keys() == case.right.keys() - set(case.gone)
    assert verdict.verdict == "INVALID"
    assert case.killed_by in verdict.findings_total


def test_every_trace_belongs_to_a_bug():
    assert {path.stem for path in HERE.glob("SPARK-*.jsonl")} == set(HISTORIC)
    for path in HERE.glob("SPARK-*.jsonl"):
        assert all(json.loads(line) for line in path.read_text().splitlines())


GLOBAL_WATERMARK = (
    "spark.sql.streaming.statefulOperator.allowMultiple=false",
    "spark.sql.streaming.unsupportedOperationCheck=false",
)
"""The rules from before SPARK-40925, which this Spark refuses, since SPARK-28074, where operators follow each other."""


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        pytest.param((), set(), id="now"),
        pytest.param(GLOBAL_WATERMARK, {"lost_rows", "wrong_metrics"}, id="then", marks=pytest.mark.long),
    ],
)
def test_28074_rows_that_a_join_gives_late_are_lost_to_the_count_behind_it(conf, found, run_pipeline):
    """i3 and c3 meet below the watermark of their batch: with one watermark for both, the count never sees them.

    Nor does any operator remove or drop what it does with a watermark of its own.
    """
    verdict = run_pipeline("clicked_per_window", trace=HERE / "SPARK-28074.jsonl", conf=conf).verdict

    assert set(verdict.findings_total) == found, verdict.findings
    assert verdict.findings_total.get("lost_rows", 0) == int("lost_rows" in found)
    assert verdict.verdict == ("INVALID" if found else "VALID"), verdict.inconclusive
