"""Recorded runs are judged as they always were; ``python -m tests.golden`` says what changed, and accepts it."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.golden.changes import changed, renamed, with_new_names
from tests.golden.judging import EVIDENCE, FACTS, PLACE, TEXTS, judge_again, names, read, run_command
from tests.support.either_oracle import sql_alone
from tidemark.oracle import PROPERTIES

OLD_FACTS, OLD_TEXTS = read(FACTS), read(TEXTS)
FIX = "fix: `python -m tests.golden` says what changed, and writes what is meant"
NOT_SHOWN = {"oracles_disagree"}
"""What only a fault of the judge itself can bring about."""


@pytest.mark.parametrize("name", names())
def test_the_judgement_is_what_it_was(name, tmp_path):
    judged = judge_again(name, tmp_path)

    assert list(changed(OLD_FACTS[name], judged.facts)) == [], FIX
    assert judged.texts == OLD_TEXTS[name], FIX


@pytest.mark.parametrize("name", names())
@pytest.mark.not_smoke
def test_sql_alone_judges_as_both_oracles_do(name, tmp_path):
    with sql_alone():
        judged = judge_again(name, tmp_path)

    assert in_any_order(judged.facts) == in_any_order(OLD_FACTS[name])


def in_any_order(facts):
    """Facts with the findings in an order of their own; without them, if not all were kept."""
    findings = facts.get("findings", [])
    kept_all = len(findings) == sum(facts.get("totals", {}).values())
    return {**facts, "findings": sorted(findings, key=json.dumps) if kept_all else []}


@pytest.mark.parametrize(
    "name", ["typed_valid", "typed_missing_null", "typed_not_flushed", "unreadable_no_batches"]
)
def test_as_json_the_same_is_printed(name, tmp_path):
    directory = shutil.copytree(EVIDENCE / name, tmp_path / name)

    code, out, err = run_command("check", str(directory), "--json", "--no-diagnosis")

    assert code == OLD_FACTS[name]["exit_code"]
    assert (json.loads(out) if out else None) == OLD_TEXTS[name].get("json")
    assert err.replace(str(directory), PLACE).splitlines() == OLD_TEXTS[name]["error"]


def test_every_expectation_is_of_a_directory():
    assert sorted(OLD_FACTS) == sorted(OLD_TEXTS) == names(), FIX


def test_every_property_exit_code_and_verdict_is_among_them():
    shown = {name for facts in OLD_FACTS.values() for name in facts.get("totals", ())}
    assert shown == set(PROPERTIES) - NOT_SHOWN
    assert {facts["exit_code"] for facts in OLD_FACTS.values()} == {0, 1, 2, 3}
    assert {facts.get("verdict") for facts in OLD_FACTS.values()} == {"VALID", "INVALID", "UNKNOWN", None}


def facts(counts, *findings):
    """The facts of one directory; findings are ``(property, defect)``."""
    totals = {name: sum(one == name for one, _ in findings) for name, _ in findings}
    named = [{"property": name, "row": {"id": str(n)}, "defect": of} for n, (name, of) in enumerate(findings)]
    defects = sorted({of for _, of in findings if of})
    return {"a": {
        "verdict": "INVALID", "counts": counts, "goals": {}, "goals_asked": [], "totals": totals,
        "findings": named, "known_defects": defects,
    }}  # fmt: skip


def differing(old, new):
    """What is said to have changed, once names are those of ``new``."""
    return list(changed(with_new_names(old, renamed(old, new))["a"], new["a"]))


def test_a_name_that_stands_for_the_same_is_renamed():
    old = facts({"late": 3, "swept": 4}, ("lost_rows", "timeless"), ("lost_rows", None))
    new = facts({"late": 3, "evicted": 4}, ("rows_lost", "null-time"), ("rows_lost", None))

    assert renamed(old, new) == {
        "counts": {"swept": "evicted"}, "goals": {}, "totals": {"lost_rows": "rows_lost"},
        "known_defects": {"timeless": "null-time"},
    }  # fmt: skip
    assert differing(old, new) == []


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (facts({"late": 4}, ("lost_rows", None)), ["counts.late: 3 became 4"]),
        (facts({"early": 4}, ("lost_rows", None)), ["counts.late: 3 became None", "counts.early: None became 4"]),
        (
            facts({"late": 3}),
            ["totals.lost_rows: 1 became None",
             "findings: gone {'property': 'lost_rows', 'row': {'id': '0'}, 'defect': None}"],
        ),
    ],
)  # fmt: skip
def test_another_value_is_a_change_under_any_name(new, said):
    assert differing(facts({"late": 3}, ("lost_rows", None)), new) == said
