"""The table of expected diagnoses has an entry for every mutant and every known defect, and none for anything else."""

from __future__ import annotations

import pytest

from tests.diagnoses.expected import DEFECTS, EXPECTED, expected
from tests.mutants.demand_evidence import DEMAND_EVIDENCE
from tests.mutants.evidence import EVIDENCE
from tests.mutants.in_pipelines import PIPELINE
from tests.mutants.in_recovery import RECOVERY
from tests.mutants.in_sinks import SINK
from tests.mutants.in_state import STATE
from tests.mutants.state_evidence import STATE_EVIDENCE
from tests.regressions.historic import HISTORIC
from tidemark.oracle.spark.known_defects import KNOWN_DEFECTS

MUTANTS = {
    "pipeline": {*PIPELINE},
    "sink": {*SINK},
    "state": {*STATE, *STATE_EVIDENCE},
    "recovery": {*RECOVERY},
    "evidence": {*EVIDENCE, *DEMAND_EVIDENCE},
    "engine": {*HISTORIC},
}


@pytest.mark.parametrize("place", MUTANTS)
def test_every_mutant_has_an_expected_diagnosis(place):
    assert {*EXPECTED[place]} == MUTANTS[place]


def test_every_known_defect_has_one():
    assert {*DEFECTS.values()} == {*KNOWN_DEFECTS}


def test_what_nothing_can_express_has_a_reason_and_no_answer():
    for mutants in EXPECTED.values():
        for name, one in mutants.items():
            assert bool(one.answers) == (one.kind != "nothing"), name
            assert one.answers or one.why, name


def test_in_a_right_outer_join_the_sides_are_the_other_way_round():
    assert expected("evidence", "bound promised shorter", "right_outer").answers == ("upper_ms=20000",)
    assert expected("evidence", "bound promised shorter", "inner").answers == ("lower_ms=-20000",)
