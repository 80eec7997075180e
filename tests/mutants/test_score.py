"""The score is about the mutants that there are, and a session's reports become that document and back."""

from __future__ import annotations

from collections import Counter

from tests.mutants.demand_evidence import DEMAND_EVIDENCE, JOIN
from tests.mutants.evidence import EVIDENCE
from tests.mutants.score import DOCUMENT, NOT_RUN, Line, document, read_document, summary
from tests.mutants.score import PLACES as SCORED
from tests.mutants.state_evidence import STATE_EVIDENCE
from tests.mutants.test_mutants import PLACES
from tests.regressions.historic import HISTORIC
from tidemark.oracle import PROPERTIES

MADE_BY = "fix: make mutants"
LEAST = 25


def wanted():
    """Place, name, join and property of every line that the document must have."""
    found = {
        (place, name, join, killed_by)
        for place, mutants in PLACES.items()
        for name, mutant in mutants.items()
        for join, killed_by in mutant.killed.items()
    }
    found |= {
        (place, name, join, damaged.expected(join))
        for place, damages in (("evidence", EVIDENCE), ("state", STATE_EVIDENCE))
        for name, damaged in damages.items()
        for join in damaged.joins
    }
    found |= {("evidence", name, JOIN, one.killed_by) for name, one in DEMAND_EVIDENCE.items()}
    return found | {("engine", name, case.join, case.killed_by) for name, case in HISTORIC.items()}


def test_the_document_has_every_mutant_and_none_was_missed():
    lines = read_document(DOCUMENT.read_text())

    assert {line[:4] for line in lines} == wanted(), MADE_BY
    assert {line.tidemark for line in lines} <= {"killed", NOT_RUN}, MADE_BY
    killed = {line[:2] for line in lines if line.tidemark == "killed"}
    assert len(killed) >= LEAST, MADE_BY
    assert {place for place, _ in killed} == set(SCORED), MADE_BY
    assert DOCUMENT.read_text() == document(lines), MADE_BY


def test_there_are_enough_mutants_in_every_place():
    names = Counter(place for place, _ in {line[:2] for line in wanted()})

    assert sum(names.values()) >= LEAST
    assert set(names) == set(SCORED)


def test_every_property_has_a_mutant():
    # The last of the rows needs an engine that is wrong in a way that nobody knows.
    assert {line[3] for line in wanted()} == set(PROPERTIES) - {"oracles_disagree", "plan_differs"}


def test_a_summary_counts_for_each_judge():
    lines = [
        Line("sink", "drops", "inner", "lost_rows", "killed", "killed", "survived"),
        Line("sink", "drops", "left_outer", "missing_nulls", "survived", "false positive", "survived"),
    ]
    assert summary(lines) == [
        "tidemark: 1 of 2 killed, 1 survived, 0 false positives",
        "equality: 1 of 2 killed, 0 survived, 1 false positives",
        "count: 0 of 2 killed, 2 survived, 0 false positives",
    ]
    assert read_document(document(lines)) == lines
