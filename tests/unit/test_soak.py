"""A soak's schedule, what it adds up to, and when it holds."""

from __future__ import annotations

import random
from pathlib import Path

from tidemark.cases.soak import Soak, SoakOptions, SoakRun, schedule
from tidemark.chaos.strikes import POINTS, read_schedule, write_schedule
from tidemark.evidence import Fault
from tidemark.report import soak as shown


def fault(name="KillDriver", point="written", done=True, recovery_s=4.0):
    return Fault(fault=name, at_utc="-", done=done, batch=3, point=point, recovery_s=recovery_s)


def ran(number, faults, verdict="VALID", **fields):
    return SoakRun(
        number=number, pipeline="inner", sink="spark", schedule="driver@written", run_dir=f"run-{number}",
        verdict=verdict, rows=100, rows_judged=150, faults=faults, command="tidemark run inner", **fields,
    )  # fmt: skip


def soak_of(*runs):
    return Soak(SoakOptions(Path("runs")), list(runs), seconds=120.0)


def test_a_schedule_is_the_seeds_and_every_sort_comes():
    assert schedule(random.Random(1), 12) == schedule(random.Random(1), 12)
    many = schedule(random.Random(2), 2000)
    assert {(one.part, one.action, one.point) for one in many} == {
        (part, action, point) for (part, action), points in POINTS.items() for point in points
    }
    assert sorted(map(str, read_schedule(write_schedule(many)))) == sorted(map(str, many))


def test_it_adds_up():
    summary = soak_of(
        ran(0, [fault(), fault(recovery_s=8.0)]), ran(1, [fault("KillBroker", "planned")])
    ).summary()

    assert summary["faults"] == 3
    assert summary["faults_a_minute"] == 1.5
    assert summary["kinds"] == {"KillBroker at planned": 1, "KillDriver at written": 2}
    assert summary["recovery_s"] == {"median": 4.0, "worst": 8.0}
    assert summary["rows_judged"] == 300


def test_one_fault_in_ten_may_miss_and_no_more():
    hits, miss = [fault()] * 9, fault(done=False, recovery_s=None)
    assert soak_of(ran(0, [*hits, miss], "UNKNOWN")).exit_code == 0
    assert soak_of(ran(0, [*hits[1:], miss], "UNKNOWN")).exit_code == 3
    assert soak_of(ran(0, [])).exit_code == 3


def test_a_finding_or_a_run_that_failed_is_not_overlooked():
    found = ran(1, [fault()], "INVALID", findings={"duplicate_rows": 2})
    assert soak_of(ran(0, [fault()]), found).exit_code == 1
    assert soak_of(ran(0, [fault()]), ran(1, [fault()], "FAILED", problem="no disk")).exit_code == 3
    assert soak_of(ran(0, [fault()], "INVALID", known_defects=["left-semi"])).exit_code == 0
    missed, unread = (
        f"the anchor {name!r} was asked for and not reached" for name in ("every_fault_done", "flushed")
    )
    assert soak_of(ran(0, [fault()], "UNKNOWN", doubts=[missed])).exit_code == 0
    assert soak_of(ran(0, [fault()], "UNKNOWN", doubts=[missed, unread])).exit_code == 3

    text = shown.markdown(soak_of(ran(0, [fault()]), found), {"spark": "4.2.0"})
    assert "**something was found**" in text
    assert "| KillDriver | written | 2 | - |" in text
    assert "duplicate_rows 2" in text
