"""How a diagnosis is graded."""

from __future__ import annotations

import pytest

from tests.diagnoses.expected import Expected
from tests.diagnoses.scoring import Score, counts, document, grade_of, read_document, summary
from tidemark.diagnosis import Diagnosis, Explanation

TRUE = Expected("contract", ("left.watermark_delay_ms=1000", "kind=inner + policy=max"))
NONE = Expected("nothing", why="nothing can")


def said(*answers: str) -> Diagnosis:
    found = [Explanation(changes=answer.split(" + "), message=answer) for answer in answers]
    return Diagnosis(outcome="explained" if found else "unexplained", explanations=found)


@pytest.mark.parametrize(
    ("answers", "grade"),
    [
        ((), "silent"),
        (("left.watermark_delay_ms=1000",), "first"),
        (("policy=max + kind=inner",), "first"),
        (("left.watermark_delay_ms<=9409",), "first"),
        (("left.watermark_delay_ms<=999",), "wrong"),
        (("right.watermark_delay_ms<=9409",), "wrong"),
        (("left.watermark_delay_ms=1001",), "wrong"),
        (("a", "b", "left.watermark_delay_ms=1000"), "among three"),
        (("a", "b", "c", "left.watermark_delay_ms=1000"), "wrong"),
    ],
)
def test_a_diagnosis_is_graded_by_where_the_true_answer_is(answers, grade):
    assert grade_of(said(*answers), TRUE) == grade


def test_any_answer_is_wrong_where_nothing_can_express_a_mutant():
    assert grade_of(said("kind=inner"), NONE) == "wrong"
    assert grade_of(said(), NONE) == "silent"


def test_the_document_counts_grades_by_kind_and_held_out_ones_apart():
    scores = [
        Score("pipeline", "a", "inner", "contract", "first", "x"),
        Score("pipeline", "b", "inner", "nothing", "wrong", "y"),
    ]

    assert counts(scores) == [["contract", "1", "1", "0", "0", "0"], ["nothing", "1", "0", "0", "0", "1"]]
    assert "right for 1 (100 %); of all 2 runs 1 have a wrong one" in summary(scores)[0]
    assert "## Held out" in document(scores, scores)
    assert "## Held out" not in document(scores, [])


def test_a_document_is_read_as_it_was_written():
    scores = [
        Score("pipeline", "a", "inner", "contract", "first", "x | y"),
        Score("sink", "b", "inner", "nothing", "silent", "nothing"),
    ]
    held_out = [Score("held out", "c", "inner", "contract", "first", "z")]

    assert read_document(document(scores, held_out)) == [*scores, *held_out]
    assert document(scores, held_out) == document(*_apart(read_document(document(scores, held_out))))


def _apart(scores):
    return [one for one in scores if one.place != "held out"], [
        one for one in scores if one.place == "held out"
    ]
