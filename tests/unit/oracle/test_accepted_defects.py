"""Known defects of Spark that a user accepts: they are reported and counted, and do not make a run ``INVALID``."""

from __future__ import annotations

import json
import shutil

import msgspec
import pytest

import tidemark
from tests.golden.judging import EVIDENCE, run_command
from tests.unit.oracle.histories import Run
from tidemark.errors import UsageError
from tidemark.formats.chain import Chain, Deduplicate, Field, Source, read_contract
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.oracle import judge
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.spark.known_defects import DEFECTS
from tidemark.oracle.verdict import accepted, conclude

OF_DEFECTS = {
    "defect_condition_bound": "condition-bounds-the-state",
    "defect_left_semi_same_batch": "left-semi-loses-same-batch-rows",
    "defect_left_semi_same_window": "left-semi-loses-same-batch-rows",
    "defect_null_event_time": "null-event-time-never-evicted",
    "defect_null_keys": "full-outer-joins-null-keys",
    "defect_one_sided_equal": "one-sided-watermark",
    "defect_one_sided_range": "one-sided-watermark",
    "defect_state_format_4_eviction": "format-4-misses-rows",
    "defect_state_format_4_range": "format-4-misses-rows",
    "defect_unused_side": "unused-side-holds-the-watermark",
}
EVERY = sorted(OF_DEFECTS.items())
NO_ROW_CAME = {"defect_left_semi_same_window", "defect_unused_side"}
"""The defect takes every row, so that the run shows nothing: it is no failure, and no proof."""


@pytest.fixture
def copy(tmp_path):
    """A copy of a golden directory."""

    def copied(name):
        return shutil.copytree(EVIDENCE / name, tmp_path / name)

    return copied


def add_a_broken_row(folder):
    """Another finding: an output record that is no JSON."""
    run = RunDirectory(folder)
    records = list(run.output())
    offset = max((record.offset for record in records if record.partition == 0), default=-1) + 1
    run.file("output").unlink()
    run.write_lines("output", [*records, OutputRecord(partition=0, offset=offset, value="{")])


def test_there_is_a_golden_directory_of_each_defect():
    assert set(OF_DEFECTS) == {path.name for path in EVIDENCE.glob("defect_*")}
    assert set(OF_DEFECTS.values()) == {defect.name for defect in DEFECTS}


@pytest.mark.parametrize(("name", "defect"), EVERY)
def test_an_accepted_defect_does_not_make_a_run_invalid(name, defect):
    before, after = tidemark.check(EVIDENCE / name), tidemark.check(EVIDENCE / name, accept=[defect])
    expected = ("UNKNOWN", 3) if name in NO_ROW_CAME else ("VALID", 0)
    assert (before.verdict, (after.verdict, after.exit_code)) == ("INVALID", expected)
    assert after.goals["rows_came"] is False if name in NO_ROW_CAME else not after.inconclusive
    assert (before.accept, before.accepted_total) == ([], {})
    assert (after.accept, after.accepted_total) == ([defect], before.defects_total)
    assert after.findings == before.findings
    assert after.new_findings == []


@pytest.mark.parametrize(("name", "defect"), EVERY)
def test_another_finding_beside_it_does(name, defect, copy):
    folder = copy(name)
    add_a_broken_row(folder)
    verdict = tidemark.check(folder, accept=[defect])
    assert verdict.verdict == "INVALID"
    assert [finding.property for finding in verdict.new_findings] == ["corrupt_rows"]
    assert verdict.accepted_total[defect] == verdict.defects_total[defect]


def test_a_known_defect_that_is_not_the_accepted_one_makes_a_run_invalid():
    verdict = tidemark.check(EVIDENCE / "defect_null_keys", accept=["one-sided-watermark"])
    assert (verdict.verdict, verdict.accepted_total) == ("INVALID", {})


def test_a_name_that_is_not_known_is_refused():
    with pytest.raises(UsageError, match="no known defect 'nonsense'") as error:
        tidemark.check(EVIDENCE / "typed_valid", accept=["nonsense"])
    assert all(defect.name in error.value.hint for defect in DEFECTS)


def test_the_contract_accepts_as_the_caller_does(copy):
    folder = copy("defect_null_keys")
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["contract"]["accept"] = ["full-outer-joins-null-keys"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert tidemark.check(folder).verdict == "VALID"
    assert tidemark.check(folder, accept=["one-sided-watermark"]).accept == [
        "full-outer-joins-null-keys",
        "one-sided-watermark",
    ]


def test_the_command_line_accepts_and_says_so(copy):
    folder = copy("defect_null_keys")
    code, out, _ = run_command("check", str(folder), "--accept", "full-outer-joins-null-keys")
    assert code == 0
    assert "known defect full-outer-joins-null-keys, accepted (" in out
    assert "; accepted: full-outer-joins-null-keys" in out
    written = msgspec.json.decode((folder / "verdict.json").read_bytes(), type=tidemark.Verdict)
    assert (written.verdict, list(written.accepted_total)) == ("VALID", ["full-outer-joins-null-keys"])
    assert run_command("check", str(folder))[0] == 1


def null_keys_joined(out="i1 c1, i2 c2"):
    """Spark joins two NULL keys in a full outer join, which match nothing; typed by hand."""
    run = Run("full_outer").batch("i1 - 10, i2 a 10", "c1 - 10, c2 a 10", out=out)
    return run.flush()


def test_a_typed_history_is_valid_with_its_defect_accepted():
    refused, verdict = judge(null_keys_joined()), judge(null_keys_joined(), ["full-outer-joins-null-keys"])
    assert (refused.verdict, verdict.verdict) == ("INVALID", "VALID")
    assert verdict.accepted_total == refused.defects_total == {"full-outer-joins-null-keys": 3}
    assert verdict.new_findings == []


def test_a_typed_history_with_a_lost_row_beside_its_defect_is_invalid():
    verdict = judge(null_keys_joined(out="i1 c1"), ["full-outer-joins-null-keys"])
    assert verdict.verdict == "INVALID"
    assert [(one.property, one.row) for one in verdict.new_findings] == [
        ("lost_rows", {"iid": "i2", "cid": "c2"})
    ]


def test_a_disagreement_of_the_oracles_is_never_accepted():
    found = FindingLog()
    every = tuple(defect.name for defect in DEFECTS)
    found.add(Finding(property="lost_rows", message="known", defect=every[0]))
    assert conclude(found, [], every) == "VALID"
    assert accepted(found, every) == {every[0]: 1}
    found.count("oracles_disagree")
    assert conclude(found, [], every) == "INVALID"


def test_what_is_inconclusive_stays_so_beside_an_accepted_defect():
    found = FindingLog()
    found.count("lost_rows", "one-sided-watermark")
    assert conclude(found, ["a reason"], ["one-sided-watermark"]) == "UNKNOWN"
    assert conclude(found, ["a reason"], []) == "INVALID"


def test_a_sound_run_is_valid_whatever_is_accepted():
    verdict = tidemark.check(EVIDENCE / "typed_valid", accept=[defect.name for defect in DEFECTS])
    assert (verdict.verdict, verdict.accepted_total) == ("VALID", {})


def test_accepted_names_survive_json():
    chain = Chain(
        "c", Deduplicate(Source("a", "t", (Field("k"),), 0, ("k",)), ("k",)), ("k",), accept=("one",)
    )
    assert read_contract(chain.to_json()) == chain
    written = json.loads((EVIDENCE / "typed_valid" / "manifest.json").read_bytes())["contract"]
    contract = Contract.from_json({**written, "accept": ["one", "two"]})
    assert contract.accept == ("one", "two")
    assert read_contract(contract.to_json()) == contract
    with pytest.raises(UsageError, match="cannot be read"):
        Contract.from_json({**written, "accept": "one"})
