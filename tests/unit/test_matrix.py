"""What a run of the matrix must show before its cell counts."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests import other_sparks
from tests.matrix import document
from tests.matrix.cells import Cell, cells, choice
from tests.matrix.running import Outcome, become_of, refused
from tidemark.campaigns import fuzz
from tidemark.campaigns.state_stores import UNSUPPORTED, states_of
from tidemark.formats.contract import JoinKind
from tidemark.oracle import Verdict
from tidemark.oracle.compare.spark_account import SparkAccount
from tidemark.oracle.findings import Finding

ROCKS = "RocksDBStateStoreProvider"
KNOWN = Finding(property="lost_rows", message="a row", defect="left-semi-loses-same-batch-rows")
UNKNOWN = Finding(property="lost_rows", message="another row")
OTHER_FORMAT = "the run asked for state format 3 and had 2"


def said(state, *, findings=(), inconclusive=(), **engine):
    given = {
        "format": 4,
        "provider": ROCKS,
        "changelog": False,
        "state_batches": [0, 3],
        "metric_batches": 4,
        **engine,
    }
    verdict = Verdict(
        verdict="INVALID" if findings else "UNKNOWN" if inconclusive else "VALID",
        findings=list(findings),
        inconclusive=list(inconclusive),
        delivery="at-least-once", pipeline="matrix", kind="inner", findings_total={}, unexplained_total={},
        defects_total={}, counts={}, goals={}, asked=[],
        known_defects={one.defect: "text" for one in findings if one.defect},
        spark_account=SparkAccount(**given),
    )  # fmt: skip
    return become_of(cell(state), verdict)


def cell(state):
    return Cell(JoinKind.INNER, "equal time", state, True)


def test_a_run_that_was_as_its_cell_says_and_was_compared_counts():
    assert said("RocksDB, 4") == ("VALID", "")
    assert said("RocksDB, 4, changelog", changelog=True) == ("VALID", "")
    assert said("HDFS, 2", format=2, provider="HDFSBackedStateStoreProvider", changelog=None) == ("VALID", "")
    assert said("RocksDB, 4", findings=[KNOWN]) == ("known defect", "left-semi-loses-same-batch-rows")


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ({"format": 2}, "it ran with (2,"),
        ({"provider": "HDFSBackedStateStoreProvider"}, "it ran with (4, 'HDFS"),
        ({"changelog": True}, "it ran with (4,"),
        ({"state_batches": [3]}, "the state was compared after batches [3] only"),
        ({"metric_batches": 0}, "the metrics of no batch were compared"),
        ({"findings": [UNKNOWN]}, "another row"),
        ({"findings": [KNOWN, UNKNOWN]}, "another row"),
        ({"inconclusive": ["a coverage goal was not met"]}, "a coverage goal was not met"),
        ({"findings": [KNOWN], "inconclusive": ["a check raised"]}, "a check raised"),
    ],
)
def test_anything_else_has_failed(engine, why):
    become, reason = said("RocksDB, 4", **engine)

    assert become == "FAILED"
    assert why in reason


def test_only_what_is_known_to_be_unsupported_may_be():
    as_format_2 = {"format": 2, "provider": "HDFSBackedStateStoreProvider", "changelog": None}

    assert said("HDFS, 3", inconclusive=[OTHER_FORMAT], **as_format_2) == ("unsupported", OTHER_FORMAT)
    assert said("HDFS, 3", **as_format_2)[0] == "FAILED"
    assert said("HDFS, 3", inconclusive=[OTHER_FORMAT, "a check raised"], **as_format_2)[0] == "FAILED"
    assert said("HDFS, 3", inconclusive=[OTHER_FORMAT], findings=[UNKNOWN], **as_format_2)[0] == "FAILED"
    assert said("RocksDB, 3", inconclusive=[OTHER_FORMAT], format=2)[0] == "FAILED"

    reason = f"{UNSUPPORTED['HDFS, 3']} The feature is not supported: column families"
    text = f"the query under test failed: {reason} SQLSTATE: 0A000\nand more"
    assert refused(cell("HDFS, 3"), text) == ("unsupported", reason)
    assert refused(cell("RocksDB, 3"), text)[0] == "FAILED"
    assert refused(cell("HDFS, 3"), "AnalysisException: there is no column k9")[0] == "FAILED"


@pytest.mark.parametrize("spark", other_sparks.OTHERS)
def test_in_a_choice_each_two_values_meet_and_it_has_as_many_cells_as_asked(spark):
    def pairs(some):
        found = set()
        for one in some:
            store, form, *changelog = one.state.split(", ")
            values = (one.kind, one.bound, store, form, bool(changelog), one.no_data)
            found.update(combinations(enumerate(values), 2))
        return found

    states = [state for state in states_of(spark) if state not in UNSUPPORTED]
    chosen = choice(120, states_of(spark))

    assert len(chosen) == len(set(chosen)) == 120
    assert pairs(chosen) == pairs(cell for cell in cells() if cell.state in states)
    assert choice(30, states_of(spark)) == chosen[:30]
    assert len(choice(10_000, states_of(spark))) == 80 * len(states)


def test_the_document_of_other_sparks_counts_cells_seeds_and_defects():
    found = [
        Outcome(cell=("inner", "equal time", "HDFS, 2", True), said="VALID", rows=20),
        Outcome(
            cell=("left_semi", "equal time", "HDFS, 2", True), said="known defect", why="one, two", rows=4
        ),
    ]
    seed = fuzz.Outcome(
        seed=3, kind="inner", bound="none", mode="backlog", sink="spark", state="HDFS, 2", verdict="INVALID",
        rows=7, restarts=2, defects={"two": 9},
    )  # fmt: skip
    tried = other_sparks.Tried(release="4.0.5", cells=found, seeds=[seed], seconds=90, exit_codes=[0, 0])

    text = other_sparks.document([tried], 2, 1)

    assert "| 4.0.5 | 2 | 1 | 1 | 0 | 1 | 1 | 31 | 2 | 1.5 |" in text
    assert "| `one` | 1 |" in text
    assert "| `two` | 2 |" in text


def test_the_page_of_the_matrix_names_each_cell_that_failed_with_its_command(tmp_path):
    (tmp_path / "cell-7").mkdir()
    first, seventh = [cells()[number] for number in (0, 7)]
    outcomes = [
        Outcome(cell=(str(one.kind), one.bound, one.state, one.no_data), said=word, run_dir=run_dir)
        for one, word, run_dir in ((first, "VALID", ""), (seventh, "FAILED", str(tmp_path / "cell-7")))
    ]

    facts = document.facts(outcomes, tmp_path, "python -m tests.matrix")

    assert facts.said == "1 of 2 cells hold or are unsupported."
    assert [(one.run_dir, one.command) for one in facts.failed] == [
        ("cell-7", "python -m tests.matrix --cell 7")
    ]
    assert facts.runs == ["cell-7"]
