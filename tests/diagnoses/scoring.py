"""Compares diagnoses with what is expected, and writes ``tests/results/DIAGNOSES.md``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tests.diagnoses.expected import KINDS, Expected, Kind
from tidemark.diagnosis import Diagnosis
from tidemark.reports.markdown import read_table, table

DOCUMENT = Path(__file__).parents[1] / "results" / "DIAGNOSES.md"
Grade = Literal["first", "among three", "silent", "wrong"]
GRADES: tuple[Grade, ...] = ("first", "among three", "silent", "wrong")
NAMED = 3
ALL_RUNS = "## All runs"
HEAD = """\
# Diagnoses of mutants and known defects

Written by `python -m tests.diagnoses`, from the evidence of real runs that `python -m tests.diagnoses --record` keeps.
`tests/diagnoses/expected.py` says, from what a mutant does, what can express it and which answer is the true one:
a changed *contract* (or step, or reading of columns), a *delivery* of a group of rows, *single rows* of the output, a
known *defect* of Spark, or *nothing*. *first*: the one answer, or the first of several, is the true one; *among three*:
it is the second or third of several; *silent*: nothing is named; *wrong*: what is named is something else. Silence is
right where nothing can express a mutant. An answer that is a range (`<=`) is right if the true number is in it. A run
whose evidence is not kept on the machine that wrote this keeps the line it had.

"""

OF_HELD_OUT = """\
Pipelines with other changes, and traces of other seeds (`tests/diagnoses/held_out.py`): the diagnosis was made without
them, and they are scored as it is."""


class Score(msgspec.Struct, frozen=True):
    """The diagnosis of one mutant on one join, or of one known defect, and its grade."""

    place: str
    name: str
    join: str
    kind: Kind
    grade: Grade
    said: str


def grade_of(found: Diagnosis, expected: Expected) -> Grade:
    """How good a diagnosis is."""
    right = [expected.is_right(tuple(one.changes)) for one in found.explanations]
    if not right:
        return "silent"
    if right[0]:
        return "first"
    return "among three" if any(right[:NAMED]) else "wrong"


def said_by(found: Diagnosis) -> str:
    """The names of all explanations of a diagnosis, or what came of it."""
    named = (" + ".join(one.changes) for one in found.explanations)
    return " or ".join(named) or found.outcome


def counts(scores: Iterable[Score]) -> list[list[str]]:
    """For each kind how many of each grade."""
    scores = list(scores)
    rows = []
    for kind in KINDS:
        of_kind = [one.grade for one in scores if one.kind == kind]
        if of_kind:
            rows.append([kind, str(len(of_kind)), *(str(of_kind.count(grade)) for grade in GRADES)])
    return rows


def summary(scores: Sequence[Score]) -> list[str]:
    """The figures in sentences."""
    able = [one for one in scores if one.kind in ("contract", "delivery")]
    first = sum(one.grade == "first" for one in able)
    wrong = sum(one.grade == "wrong" for one in scores)
    share = f" ({100 * first / len(able):.0f} %)" if able else ""
    text = (
        f"Of {len(able)} runs that another contract or a delivery of a group of rows can express, the first answer is"
        f" right for {first}{share}; of all {len(scores)} runs {wrong} have a wrong one."
    )
    return [text]


def document(scores: Sequence[Score], held_out: Sequence[Score]) -> str:
    """The whole of ``DIAGNOSES.md``."""
    head = ("what can express it", "runs", *GRADES)
    columns = ("place", "mutant", "join", "expressed by", "grade", "said")
    lines = [*summary(scores), "", *table(head, counts(scores)), ""]
    if held_out:
        lines += [
            "## Held out", "",
            OF_HELD_OUT, "",
            *summary(held_out), "", *table(head, counts(held_out)), "",
        ]  # fmt: skip
    lines += [ALL_RUNS, "", *table(columns, map(msgspec.structs.astuple, [*scores, *held_out]))]
    return HEAD + "\n".join(lines) + "\n"


def read_document(text: str) -> list[Score]:
    """The lines of all runs, held-out ones among them; the reverse of :func:`document`."""
    names = Score.__struct_fields__
    rows = read_table(text.partition(ALL_RUNS)[2])[1:]
    return [msgspec.convert(dict(zip(names, row, strict=True)), Score) for row in rows]
