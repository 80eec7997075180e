"""Which copies are the producer's, made because a broker was killed: those, and no others, are permitted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.oracle.chain_runs import ChainRun
from tests.unit.oracle.histories import Run
from tests.unit.oracle.test_chains import ONCE
from tidemark.formats.contract import Delivery, Output
from tidemark.formats.faults import CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.oracle.verdict import Verdict


def death(batch: int = 0, **changes: Any) -> Fault:
    """The broker's, when one record of partition 0 was there."""
    given = {
        "component": FaultComponent.BROKER, "action": FaultAction.KILL, "point": CommitPoint.PLANNED, "at_utc": "-",
        "injected": True, "batch": batch, "proof": {"ends": {"0": 1}},
    }  # fmt: skip
    return Fault(**{**given, **changes})


def twice(fault: Fault, **copy: Any) -> Verdict:
    """A run of whose batch 0 one of two rows came again."""
    run = Run("left_outer").batch("i1 a 10, i2 b 11", "c1 a 12, c2 b 12", out="i1 c1, i2 c2").flush()
    run.records.append(msgspec.structs.replace(run.records[0], offset=len(run.records), **copy))
    run.delivery, run.journal = Delivery.AT_LEAST_ONCE, [fault]
    return run.verdict()


def test_a_record_resent_after_a_broker_restart_is_permitted_and_counted() -> None:
    verdict = twice(death())

    assert verdict.verdict == "VALID"
    assert verdict.counts["duplicates_permitted"] == 1


@pytest.mark.parametrize(
    "fault",
    [
        death(batch=1),
        death(injected=False),
        death(action=FaultAction.PAUSE),
        death(action=FaultAction.CUT),
        death(component=FaultComponent.EXECUTOR),
        death(proof={}),
        death(proof={"ends": {"0": 3}}),
        death(proof={"ends": {"1": 1}}),
    ],
)
def test_without_the_death_of_a_broker_just_before_it_is_a_finding(fault: Fault) -> None:
    assert twice(fault).findings_total["duplicate_rows"] == 1


@pytest.mark.parametrize(
    "copy",
    [
        {"timestamp_ms": 1},
        {"key": "k"},
        {"partition": 1},
        {"headers": [("query", "the-query"), ("batch", "0"), ("partition", "0"), ("attempt", "1")]},
    ],
)
def test_a_record_that_is_not_the_same_one_is_a_finding(copy: dict[str, Any]) -> None:
    assert twice(death(proof={"ends": {"0": 1, "1": 0}}), **copy).findings_total["duplicate_rows"] == 1


@pytest.mark.parametrize("proof", [{"ends": [1]}, {"ends": {"zero": 1}}])
def test_a_proof_that_cannot_be_read_is_inconclusive_and_permits_nothing(proof: dict[str, Any]) -> None:
    verdict = twice(death(proof=proof))

    assert verdict.findings_total["duplicate_rows"] == 1
    assert any(reason.startswith("copies could not be judged") for reason in verdict.inconclusive)


def test_an_exactly_once_sink_has_no_permitted_duplicates() -> None:
    run = Run().batch("i1 a 10", "c1 a 12", out="i1 c1").flush().out(0, "i1 c1")
    run.delivery, run.journal = Delivery.EXACTLY_ONCE, [death()]

    assert run.findings() == {"duplicate_rows": 1}


def test_two_rows_that_are_owed_are_no_copies_however_alike_their_records() -> None:
    """An event that was published twice, and an output that has only its id."""
    by_ids = Output("iid", "cid", None, None)
    run = Run("left_outer", output=by_ids).batch("i1 a 10, i1 a 10", "c1 a 12", out="i1 c1, i1 c1").flush()
    run.journal = [death()]

    assert run.findings() == {}
    assert run.out(0, "i1 c1").verdict().counts["duplicates_permitted"] == 1


@pytest.mark.parametrize(("journal", "found"), [([death()], {}), ([], {"duplicate_rows": 1})])
def test_they_are_permitted_in_a_chain_as_well(journal: list[Fault], found: dict[str, int]) -> None:
    run = ChainRun(ONCE).batch("i1 x 10", out="i1 10")
    run.records.append(msgspec.structs.replace(run.records[0], offset=1))
    run.delivery, run.journal = Delivery.AT_LEAST_ONCE, journal

    assert run.judge().findings_total == found


def came(copies: int, *faults: Fault, **plan: Any) -> Run:
    """A run in whose batch 0 a row came once, and so many times more; it was run as the plan says."""
    run = Run().batch("i1 a 10", "c1 a 12", out="i1 c1", **plan).flush()
    run.delivery, run.journal = Delivery.AT_LEAST_ONCE, list(faults)
    return run.out(0, ", ".join(["i1 c1"] * copies))


def hit(component: str, batch: int = 0, action: FaultAction = FaultAction.KILL) -> Fault:
    return death(batch, component=FaultComponent(component), action=action, proof={})


TWICE = {"runs": 2, "restarted": True}
THRICE = {"runs": 3, "restarted": True}


@pytest.mark.parametrize(
    ("plan", "faults", "permitted"),
    [
        (TWICE, [hit("driver")], 1),
        (THRICE, [hit("driver"), hit("driver")], 2),
        (THRICE, [hit("driver", action=FaultAction.KILL_TWICE)], 2),
        (TWICE, [hit("driver"), hit("executor", 1)], 1),
        ({"failed_tasks": 1}, [hit("executor")], 1),
        ({**TWICE, "failed_tasks": 2}, [hit("driver")], 3),
        ({}, [], 0),
    ],
)
def test_a_row_may_come_once_for_each_run_and_each_failed_task(
    plan: dict[str, Any], faults: list[Fault], permitted: int
) -> None:
    verdict = came(permitted, *faults, **plan).verdict()
    assert (verdict.findings_total, verdict.counts["duplicates_permitted"]) == ({}, permitted)

    verdict = came(permitted + 2, *faults, **plan).verdict()
    assert (verdict.findings_total, verdict.counts["duplicates_permitted"]) == (
        {"duplicate_rows": 2}, permitted,
    )  # fmt: skip


def test_the_finding_says_how_often_the_batch_was_run() -> None:
    [finding] = came(2, hit("driver"), **TWICE).verdict().findings
    assert "was run 2 times, and 0 of its tasks failed: each row may come 2 times" in finding.message


@pytest.mark.parametrize(
    ("plan", "faults"),
    [
        (TWICE, []),
        (TWICE, [hit("driver", 1)]),
        (THRICE, [hit("driver")]),
        (TWICE, [hit("driver"), hit("executor")]),
        (TWICE, [hit("driver", 0), hit("worker", -1)]),
        (TWICE, [hit("driver"), hit("driver", action=FaultAction.PAUSE)]),
    ],
)
def test_where_tasks_may_have_failed_under_a_driver_that_died_any_number_is_permitted(
    plan: dict[str, Any], faults: list[Fault]
) -> None:
    assert came(5, *faults, **plan).findings() == {}


BY_IDS = Output("iid", "cid", None, None)


@pytest.mark.parametrize(("times", "found"), [(4, {}), (5, {"duplicate_rows": 1})])
def test_of_rows_with_the_same_ids_each_may_come_as_often(times: int, found: dict[str, int]) -> None:
    run = Run("left_outer", output=BY_IDS)
    run.batch("i1 a 10, i1 a 10", "c1 a 12", out=", ".join(["i1 c1"] * times), **TWICE).flush()
    run.delivery, run.journal = Delivery.AT_LEAST_ONCE, [hit("driver")]

    assert run.findings() == found


@pytest.mark.parametrize(("times", "found"), [(2, {}), (3, {"duplicate_rows": 1})])
def test_a_copy_is_not_taken_for_a_row_with_the_same_ids_that_is_due_later(
    times: int, found: dict[str, int]
) -> None:
    run = Run("left_outer", output=BY_IDS).batch(
        "i1 a 10", "c1 a 12", out=", ".join(["i1 c1"] * times), **TWICE
    )
    run.batch("i1 a 11", out="i1 c1").flush()
    run.delivery, run.journal = Delivery.AT_LEAST_ONCE, [hit("driver")]

    assert run.findings() == found


def test_a_chain_permits_as_often() -> None:
    def found(times: int, **plan: Any) -> dict[str, int]:
        run = ChainRun(ONCE).batch("i1 x 10", out=", ".join(["i1 10"] * times), **plan)
        run.delivery, run.journal = Delivery.AT_LEAST_ONCE, [hit("driver")]
        return dict(run.judge().findings_total)

    assert found(3, **TWICE, failed_tasks=1) == {}
    assert found(4, **TWICE, failed_tasks=1) == {"duplicate_rows": 1}
