"""What a verdict becomes in a seed's outcome."""

from __future__ import annotations

from types import SimpleNamespace

from tests.unit.test_soak import judged
from tidemark.cases.fuzz import run_seed


def outcome(verdict, folder):
    return run_seed(1, SimpleNamespace(run=lambda _case, _folder: verdict), folder)


def test_findings_are_counted_in_all_not_those_kept_as_examples(tmp_path):
    one = outcome(judged(), tmp_path)

    assert one.defects == {"left-semi": 70}
    assert one.problem == "lost_rows 430; row None"


def test_a_seed_with_nothing_but_known_defects_holds(tmp_path):
    one = outcome(judged(findings_total={"lost_rows": 70}, unexplained_total={}), tmp_path)

    assert one.holds
    assert one.defects == {"left-semi": 70}
