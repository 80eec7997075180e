"""The table of defects by version: cells, surprises, exit codes, and the document that is made of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.oracle.histories import Run
from tidemark.campaigns.versions import batches_as_planned, cases, disagreement, sparks
from tidemark.errors import UsageError
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.oracle.spark.known_defects import DEFECTS, Defect, DefectCase
from tidemark.reports.versions_report import (
    Cell,
    Results,
    affected,
    cell_text,
    facts,
    markdown,
    notes,
    of_versions,
    terminal_table,
)

SEMI, NULL_KEYS = DEFECTS[0], DEFECTS[1]
SEMI_CASE, CONTROL = SEMI.cases[2], SEMI.cases[0]


def cell(case: DefectCase, spark: str, came: bool, defect: Defect = SEMI, **changes: object) -> Cell:
    answer = "right" if came == case.is_right else "wrong"
    given = {
        "defect": defect.name,
        "case": case.name,
        "spark": spark,
        "answer": answer,
        "came": came,
        **changes,
    }
    return Cell(**given)  # type: ignore[arg-type]


def results(*cells: Cell) -> Results:
    return of_versions({one.spark: {"spark": one.spark, "kafka": "4.3.1"} for one in cells}, cells)


def as_known() -> Results:
    return results(
        cell(SEMI_CASE, "4.2.0", False, said="the semi row of L50 never came"),
        cell(SEMI_CASE, "4.1.4", True),
        cell(CONTROL, "4.1.4", True),
        cell(CONTROL, "4.2.0", True),
        cell(NULL_KEYS.cases[0], "4.1.4", True, NULL_KEYS),
    )


def test_a_cell_answers_the_heading_of_its_row_and_says_what_is_wrong() -> None:
    assert cell_text(cell(SEMI_CASE, "4.1.4", True)) == "yes"
    assert cell_text(cell(SEMI_CASE, "4.2.0", False)) == "no, wrong"
    assert cell_text(cell(NULL_KEYS.cases[0], "4.2.0", True, NULL_KEYS)) == "yes, wrong"
    assert cell_text(cell(SEMI_CASE, "4.2.0", False, answer="unclear")) == "?"
    assert cell_text(None) == ""


def test_columns_are_in_the_order_of_the_versions() -> None:
    known = {name: {} for name in ("4.10.0", "4.2.0", "4.1.4")}
    assert list(of_versions(known, []).versions) == ["4.1.4", "4.2.0", "4.10.0"]


def test_what_is_as_known_is_no_surprise() -> None:
    assert as_known().surprises == []
    assert as_known().exit_code == 0


@pytest.mark.parametrize(
    "surprising",
    [cell(SEMI_CASE, "4.2.0", True), cell(SEMI_CASE, "4.1.4", False), cell(CONTROL, "4.2.0", False)],
    ids=["a defect that is gone", "an old version that has it", "a join that had no defect"],
)
def test_a_cell_that_is_not_as_known_is_a_surprise(surprising: Cell) -> None:
    found = results(surprising, cell(SEMI_CASE, "4.3.0", False, answer="unclear"))
    assert found.surprises == [surprising]
    assert found.exit_code == 1
    assert any(surprising.case in line and "not as known" in line for line in notes(found))


def test_an_unclear_cell_makes_the_whole_unknown() -> None:
    found = results(cell(SEMI_CASE, "4.2.0", False, answer="unclear", inconclusive=["no stack"]))
    assert (found.surprises, found.exit_code) == ([], 3)
    assert list(notes(found)) == [f"unclear: {SEMI_CASE.name} on Spark 4.2.0: no stack"]


def test_the_document_has_the_table_and_a_section_for_each_defect() -> None:
    text = markdown(as_known())
    assert "| case | 4.1.4 | 4.2.0 |" in text
    assert "| left semi gives L50 | yes | **no, wrong** |" in text
    assert "> the semi row of L50 never came" in text
    assert "Versions: since 4.2. In Spark's JIRA: SPARK-55973." in text
    for defect in DEFECTS:
        assert f"## `{defect.name}`" in text
        assert defect.text in text
        assert all(case.pipeline in text and case.trace in text for case in defect.cases)


def test_the_page_names_what_is_not_as_known_and_what_is_unclear(tmp_path: Path) -> None:
    (tmp_path / "4.1.4" / SEMI_CASE.name).mkdir(parents=True)
    surprising = cell(SEMI_CASE, "4.1.4", False, run_dir=str(tmp_path / "4.1.4" / SEMI_CASE.name))
    unclear = cell(CONTROL, "4.2.0", True, answer="unclear", inconclusive=["no broker"])
    shown = facts(results(surprising, unclear, cell(CONTROL, "4.1.4", True)), tmp_path, "tidemark versions")

    assert shown.said == "1 of 3 cells are as they are known; 1 are not, and 1 are unclear."
    assert [(one.name, one.why, one.run_dir) for one in shown.failed] == [
        (f"{SEMI_CASE.name} on Spark 4.1.4: wrong", f"not as known: it has the defect {SEMI.name}",
         f"4.1.4/{SEMI_CASE.name}"),
        (f"{CONTROL.name} on Spark 4.2.0: unclear", "no broker", ""),
    ]  # fmt: skip
    assert shown.failed[0].command == f"tidemark versions --release 4.1.4 --case {SEMI_CASE.name}"
    assert facts(as_known(), tmp_path, "").said == "5 of 5 cells are as they are known."


def test_a_defect_without_ends_affects_all_that_were_tried() -> None:
    assert affected(NULL_KEYS) == "all that were tried"
    assert affected(replace(NULL_KEYS, first=(4, 1), last=(4, 2))) == "since 4.1 until 4.2"


def test_the_table_on_a_terminal_has_every_case() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(terminal_table(as_known()))
    assert all(case.says in shown.get() for defect in DEFECTS for case in defect.cases)


def test_the_json_says_what_is_surprising() -> None:
    told = json.loads(json.dumps(results(cell(SEMI_CASE, "4.2.0", True)).to_json()))
    assert told["surprises"] == [{"case": "same_batch_left_semi", "spark": "4.2.0"}]
    assert told["exit_code"] == 1
    assert told["cells"][0]["came"] is True


def test_an_interpreter_by_a_relative_path_is_found_from_every_folder() -> None:
    [spark] = sparks([Path(os.path.relpath(sys.executable))])

    assert spark.python.is_absolute()
    assert spark.python.samefile(sys.executable)


def test_one_version_twice_is_refused() -> None:
    own = Path(sys.executable)
    with pytest.raises(UsageError, match="twice"):
        sparks([own, own])
    assert [spark.python for spark in sparks([own])] == [own]


def test_cases_are_chosen_by_name() -> None:
    assert cases(["null_keys"]) == [(NULL_KEYS, NULL_KEYS.cases[0])]
    assert cases() == [(defect, case) for defect in DEFECTS for case in defect.cases]
    with pytest.raises(UsageError, match="no case 'coffee'") as error:
        cases(["coffee"])
    assert "null_keys" in error.value.hint


def semi_run(*emitted: str) -> Run:
    run = Run("left_semi").batch("i1 a 10", "c1 a 11").batch().flush()
    return run.out(0, ", ".join(emitted))


def test_a_case_that_needs_a_newer_spark_is_left_out_on_an_older_one() -> None:
    newer = replace(SEMI_CASE, since=(4, 2))
    assert [newer.is_for(spark) for spark in ("4.1.4", "4.2.0", "4.10.1", "master")] == [
        False,
        True,
        True,
        True,
    ]
    assert SEMI_CASE.is_for("4.0.5")


def test_the_judge_has_to_say_the_same_as_the_telling_row() -> None:
    case = replace(SEMI_CASE, row=("i1", None))
    right, lost = semi_run("i1").verdict(), semi_run().verdict()
    assert disagreement(SEMI, case, True, right) == []
    assert "did not come, but the judge says VALID" in disagreement(SEMI, case, False, right)[0]
    assert "came, but the judge says INVALID: 1 lost_rows" in disagreement(SEMI, case, True, lost)[0]
    assert disagreement(SEMI, case, False, lost), "the loss is not the known defect"
    right.verdict, right.inconclusive = "UNKNOWN", ["a goal was not met"]
    assert disagreement(SEMI, case, True, right)


@pytest.fixture
def evidence(tmp_path: Path) -> Callable[..., RunDirectory]:
    """A function that makes a run directory of two slices with a record of each input."""

    def make(pace: str, *ends: int) -> RunDirectory:
        header = {"tidemark_trace": 2, "pace": pace, "topics": {"lefts": {}, "rights": {}}, "slices": 2}
        rows = [
            {"topic": topic, "arrival_ms": 0, "slice": n} for n in (0, 1) for topic in ("lefts", "rights")
        ]
        (tmp_path / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (header, *rows)))
        directory = RunDirectory(tmp_path)
        plans = [
            Batch(batch=n, watermark_ms=0, end_offsets={"lefts": {"0": end}, "rights": {"0": end}})
            for n, end in enumerate(ends)
        ]
        directory.write_lines("batches", plans)
        return directory

    return make


@pytest.mark.parametrize(("pace", "ends"), [("stepped", (1, 1, 2, 2, 3)), ("backlog", (1, 2, 3, 3))])
def test_batches_that_read_the_trace_slice_by_slice_are_as_planned(evidence, pace, ends) -> None:
    assert batches_as_planned(evidence(pace, *ends)) == []


@pytest.mark.parametrize(
    ("pace", "ends"), [("stepped", (2, 2, 3)), ("backlog", (1, 1, 2, 3)), ("backlog", (2, 3))]
)
def test_other_batches_are_inconclusive(evidence, pace, ends) -> None:
    [reason] = batches_as_planned(evidence(pace, *ends))
    assert "slice by slice" in reason
