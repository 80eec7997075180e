"""The tables that commands have written are about what there is today, and docs/results.md quotes them as they are."""

from __future__ import annotations

import re

from tests.evidence.__main__ import DOCUMENT as EVIDENCE
from tests.matrix.cells import BOUNDS, cells
from tests.matrix.document import PATH as JOINS
from tests.mutants.score import DOCUMENT as SCORE
from tests.repository import tree
from tidemark.campaigns.state_stores import STATES, UNSUPPORTED
from tidemark.formats.contract import JoinKind
from tidemark.oracle.spark.known_defects import DEFECTS
from tidemark.reports.markdown import read_table

RESULTS = tree.ROOT / "docs" / "results.md"


def numbers(pattern: str, text: str) -> list[int]:
    """The groups of the one place where a pattern is found, over line ends."""
    [found] = re.findall(pattern.replace(" ", r"\s+"), text)
    groups = [found] if isinstance(found, str) else found
    return [int(group.replace(",", "")) for group in groups]


def test_the_matrix_has_every_join_bound_and_state_and_only_the_known_ones_are_unsupported():
    text = JOINS.read_text(encoding="utf-8")
    [header, *rows] = read_table(text)

    assert header == ("join", "bound", *STATES), f"fix: `make matrix` writes {JOINS}"
    assert [row[:2] for row in rows] == [(str(kind), bound) for kind in JoinKind for bound in BOUNDS]
    for row in rows:
        held = dict(zip(STATES, row[2:], strict=True))
        assert {state for state, cell in held.items() if cell == "-"} == set(UNSUPPORTED), row
        assert {cell for cell in held.values() if cell != "-"} <= {"2", "2 d"}, row
    supported = sum(cell.state not in UNSUPPORTED for cell in cells())
    valid = numbers(r"(\d+) runs, of which (\d+) are `VALID` and (\d+) are", text)
    assert valid == [supported, valid[1], supported - valid[1]]


def test_the_results_have_the_numbers_of_the_matrix_and_of_the_score():
    results, score = RESULTS.read_text(encoding="utf-8"), SCORE.read_text(encoding="utf-8")

    assert numbers(r"(\d+) runs: (\d+) `VALID`, (\d+) `INVALID`", results) == numbers(
        r"(\d+) runs, of which (\d+) are `VALID` and (\d+) are", JOINS.read_text(encoding="utf-8")
    )
    mutants, checks = numbers(r"(\d+) mutants, (\d+) lines, 0 of them not run", score)
    told = numbers(
        r"(\d+) mutants, on the joins that they can harm (\d+) lines: tidemark kills (\d+) of (\d+)", results
    )
    assert told == [mutants, checks, checks, checks]
    equality = numbers(r"equality: (\d+) of \d+ killed, \d+ survived, (\d+) false positives", score)
    count = numbers(r"count: (\d+) of", score)
    assert numbers(
        r"kills (\d+) and rejects (\d+) sound inputs; a poll that counts records kills (\d+)", results
    ) == [*equality, *count]


def test_the_results_have_the_numbers_of_the_damaged_evidence():
    results, told = RESULTS.read_text(encoding="utf-8"), EVIDENCE.read_text(encoding="utf-8")
    _, *rows = read_table(told)
    (sealed, count, unchanged, refused, *_), (unsealed, most, *_, valid, crashed, hung, large) = rows[:2]

    assert (sealed, unsealed, crashed, hung, large) == ("sealed", "unsealed", "0", "0", "0")
    said = [
        *numbers(r"([\d,]+) damages to the evidence of (\d+) real runs", results),
        *numbers(r"(\d+) stayed `VALID`, each", results),
        *numbers(r"Under a seal ([\d,]+): (\d+) refused, and (\d+) changed", results),
    ]
    made = [most, *re.findall(r"evidence of (\d+) real runs", told), valid, count, refused, unchanged]
    assert said == [int(number.replace(",", "")) for number in made]


def test_each_known_defect_is_explained_as_the_judge_explains_it():
    text = (tree.ROOT / "spark_bugs" / "README.md").read_text(encoding="utf-8")

    for defect in DEFECTS:
        assert f"`{defect.name}`" in text
        assert defect.text in text, f"fix: `make versions` writes spark_bugs/README.md; {defect.name}"
