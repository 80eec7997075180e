"""What no contract and no delivery changes is left over: a change that explains the rows alone is no answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.unit.diagnosis.other_deliveries import HOUR_MS, batch_of, delivered, diagnosis_of, events, promise
from tests.unit.diagnosis.test_deliveries import without_task
from tests.unit.oracle.other_query import run_of
from tidemark.diagnosis import diagnose
from tidemark.formats.contract import Bound
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

RECORDED = Path(__file__).parents[2] / "golden" / "evidence"
BEYOND = ["misordered_rows", "slow_recoveries", "standstills", "stalled_watermarks", "oversized_states"]
OF_SPARK = "what Spark says of its state and itself"


def diagnosed(name, *also):
    """The diagnosis of a recorded run whose verdict has findings of other properties, too."""
    run = RunDirectory(RECORDED / name)
    verdict = judge(run)
    verdict.unexplained_total |= dict.fromkeys(also, 1)
    return diagnose(run, verdict)


def with_a_row_out_of_order(records):
    """The first row of its batch behind all others."""
    first, *others = sorted(records, key=batch_of)
    return [msgspec.structs.replace(first, offset=10_000), *others]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mutant_left_outer_row_after_a_later_batch", "the order of rows, some of which came after rows"),
        ("typed_demands_broken", "how long it took to recover, that too little was done during a fault"),
        ("mutant_left_outer_state_row_lost", OF_SPARK),
        ("mutant_inner_metric_removed", OF_SPARK),
    ],
)  # fmt: skip
def test_where_all_rows_are_right_it_is_said_what_is_wrong(name, says):
    found = diagnosed(name)

    [note] = found.notes
    assert found.outcome == "unexplained"
    assert note.startswith(
        f"the rows are exactly those that the contract gives, each in its batch; wrong is {says}"
    )
    assert (OF_SPARK in note) == (says == OF_SPARK)


def test_where_the_plan_alone_differs_it_is_not_said_that_no_contract_explains_it():
    found = diagnosed("typed_plan_differs")

    assert found.outcome == "not asked"
    assert "wrong is the plan of the query" in found.lines()[0]
    assert not any(OF_SPARK in line or "no other contract, rule" in line for line in found.lines())


def test_a_finding_about_rows_that_nothing_shows_is_not_passed_over():
    found = diagnosed("mutant_left_outer_row_after_a_later_batch", "lost_rows")

    assert found.notes == ["nothing that was asked about shows lost_rows"]


@pytest.mark.parametrize("name", [*BEYOND, "decoded_differently"])
def test_a_change_of_the_contract_is_no_answer_where_something_is_left_over(name):
    found = diagnosed("mutant_half_bound", name)

    assert (found.outcome, found.explanations) == ("unexplained", [])
    assert "`lower_ms=-10000` explains output and watermarks" in found.nearest
    assert found.nearest.endswith(f"but not {name}")


@pytest.mark.parametrize("name", [*BEYOND, "plan_differs"])
def test_a_delivery_is_no_answer_where_something_is_left_over(name):
    found = diagnosed("mutant_left_outer_transaction_lost", name)

    assert (found.outcome, found.explanations) == ("unexplained", [])
    assert found.nearest.startswith("nearest: all ")
    assert found.nearest.endswith(f"are missing; that explains output and watermarks, but not {name}")


def test_a_change_of_the_contract_explains_a_plan_that_differs():
    [found] = diagnosed("mutant_half_bound", "plan_differs").explanations

    assert found.changes == ["lower_ms=-10000"]


def test_another_reading_of_the_output_explains_a_record_that_seemed_read_and_no_plan():
    assert diagnosed("mutant_refs_missing", "decoded_differently").explanations
    assert diagnosed("mutant_refs_missing", "plan_differs").nearest.endswith("but not plan_differs")


def test_rows_out_of_order_are_left_over_by_the_bound_that_gives_all_rows():
    run = run_of(promise(bound=Bound(-HOUR_MS // 2, 0)), *events())
    run.records = with_a_row_out_of_order(run.records)
    promised = promise()
    assert judge(replace(run, contract=promised)).unexplained_total["misordered_rows"] == 1

    found = diagnosis_of(run, promised)

    assert found.explanations == []
    assert "`lower_ms=-1800000` explains" in found.nearest
    assert found.nearest.endswith("but not misordered_rows")


def test_rows_out_of_order_are_left_over_by_the_task_whose_rows_are_missing():
    found = delivered(lambda records: with_a_row_out_of_order(without_task(records)))

    assert found.explanations == []
    assert found.nearest.endswith("but not misordered_rows")
