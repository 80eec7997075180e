"""A red verdict has its diagnosis by itself, which changes nothing else and is in no way of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

import tidemark
from tests.golden.judging import run_command
from tidemark.diagnosis import end_of_run
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.run_diagnosis import Diagnosis
from tidemark.oracle import Verdict, judge
from tidemark.reports import failure_lines
from tidemark.runner.one_run import seal_and_judge

RECORDED = Path(__file__).parents[2] / "golden" / "evidence"
SAID = "this contract with `lower_ms=-10000` gives"


@pytest.fixture
def red(tmp_path: Path) -> Path:
    """A run whose query has half the time bound of its contract."""
    return Path(shutil.copytree(RECORDED / "mutant_half_bound", tmp_path / "red"))


def written(run: Path) -> Verdict:
    return msgspec.json.decode((run / "verdict.json").read_bytes(), type=Verdict)


def test_check_says_it_and_keeps_it_in_the_verdict(red):
    code, out, _ = run_command("check", str(red))

    assert code == 1
    assert [SAID in line for line in out.splitlines() if line.startswith("diagnosis")] == [True]
    verdict = written(red)
    assert isinstance(verdict.diagnosis, Diagnosis)
    assert verdict.diagnosis.outcome == "explained"
    assert any(SAID in line for line in failure_lines(verdict, red))


def test_it_is_in_markdown_and_on_the_page(red):
    run_command("check", str(red), "--report", "--markdown", str(red / "verdict.md"))

    assert f"**Diagnosis**: ``the output is exactly what {SAID}" in (red / "verdict.md").read_text()
    assert f"Diagnosis: the output is exactly what {SAID}" in (red / "report.html").read_text()


def test_without_it_the_verdict_is_the_same(red):
    code, out, _ = run_command("check", str(red), "--no-diagnosis")
    without = written(red)
    run_command("check", str(red))
    verdict = written(red)

    assert code == 1
    assert "diagnosis" not in out
    assert without.diagnosis is msgspec.UNSET
    assert msgspec.structs.replace(verdict, diagnosis=msgspec.UNSET) == without


def test_a_sealed_run_is_not_judged_again_to_be_diagnosed(red, monkeypatch):
    seal_and_judge(RunDirectory(red), is_diagnosed=True)
    monkeypatch.setattr("tidemark.reports.kept_verdict.judge", lambda *_, **__: pytest.fail("judged again"))

    assert tidemark.diagnose(red).explanations[0].changes == ["lower_ms=-10000"]


def test_a_sound_run_is_not_asked_about():
    run = RunDirectory(RECORDED / "left_outer")
    verdict = judge(run)

    end_of_run.add_diagnosis(run, verdict)

    assert verdict.diagnosis is msgspec.UNSET


def test_a_diagnosis_that_fails_is_a_warning(red, monkeypatch, capsys):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of a part")

    monkeypatch.setattr(end_of_run, "diagnose", broken)
    verdict = judge(RunDirectory(red))
    before = msgspec.json.encode(verdict)

    end_of_run.add_diagnosis(RunDirectory(red), verdict)

    assert msgspec.json.encode(verdict) == before
    assert "ZeroDivisionError: of a part; the verdict stands" in capsys.readouterr().err


def test_a_large_run_is_left_to_the_command(red, monkeypatch):
    monkeypatch.setattr(end_of_run, "LARGEST_AT_END", 100)
    verdict = judge(RunDirectory(red))

    end_of_run.add_diagnosis(RunDirectory(red), verdict)

    [line] = verdict.diagnosed
    assert "is not diagnosed by itself: `tidemark diagnose" in line


@pytest.mark.parametrize(
    ("name", "says"),
    [("mutant_chain_windows_joined_lost", "a chain is not diagnosed"), ("defect_left_semi_same_window", "")],
)
def test_a_chain_is_diagnosed_where_a_known_defect_explains_it(name, says):
    run = RunDirectory(RECORDED / name)
    verdict = judge(run)

    end_of_run.add_diagnosis(run, verdict)

    assert isinstance(verdict.diagnosis, Diagnosis)
    assert verdict.diagnosis.outcome == ("not asked" if says else "defects")
    assert " ".join(verdict.diagnosed).startswith(says)


def test_an_audit_is_not_asked_about():
    run = RunDirectory(RECORDED / "audit_spark_3_5")
    verdict = judge(run)

    end_of_run.add_diagnosis(run, verdict)

    assert verdict.verdict == "INVALID"
    assert verdict.diagnosis is msgspec.UNSET


def test_a_run_that_is_only_too_slow_has_no_diagnosis_since_no_contract_makes_it_faster(tmp_path):
    slow = Path(shutil.copytree(RECORDED / "typed_demands_broken", tmp_path / "slow"))

    code, out, _ = run_command("check", str(slow))

    assert code == 1
    assert not any(line.startswith("diagnosis") for line in out.splitlines())
    assert written(slow).diagnosis is msgspec.UNSET
