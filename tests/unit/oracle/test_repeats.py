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
