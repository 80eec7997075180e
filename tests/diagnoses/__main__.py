"""The diagnosis of every mutant whose evidence is kept, and of every known defect: ``python -m tests.diagnoses``.

Each is compared with ``expected``, and its line of the document renewed; a run whose evidence is not kept keeps its
line. Exit code 1: one is wrong, or there is no evidence. With ``--record`` the mutants' tests are run, on a real stack,
and their evidence is kept (``recording``).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.diagnoses.expected import DEFECTS, expected
from tests.diagnoses.held_out import HELD_OUT, PLACE
from tests.diagnoses.recording import kept, record
from tests.diagnoses.scoring import (
    DOCUMENT,
    Score,
    counts,
    document,
    grade_of,
    read_document,
    said_by,
    summary,
)
from tests.mutants import score as mutants_score
from tidemark.diagnosis import diagnose
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

DEFECT_RUNS = Path(__file__).parents[1] / "golden" / "evidence"
BUDGET_S = 10.0


def main() -> int:
    """Print a line for each; 1 if one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.diagnoses", description=__doc__)
    parser.add_argument(
        "--record", nargs=argparse.REMAINDER, metavar="OPTION",
        help="run the tests, and keep their evidence; all behind it goes to pytest",
    )  # fmt: skip
    parser.add_argument(
        "words", nargs="*", help="runs whose place, name or join has one of these; default: all"
    )
    args = parser.parse_args()
    if args.record is not None:
        return record(args.record)
    scores = []
    for place, folder in evidences():
        if args.words and not any(word in "/".join(place) for word in args.words):
            continue
        one, seconds = scored(place, folder)
        scores.append(one)
        print(one.grade, *place, one.kind, one.said, f"{seconds:.2f} s", sep=" · ", flush=True)
    for row in counts(scores):
        print(" · ".join(row))
    for text in summary(scores):
        print(text)
    if scores:
        every = with_earlier(scores, read_document(DOCUMENT.read_text()))
        of_mutants = [one for one in every if one.place != PLACE]
        DOCUMENT.write_text(document(of_mutants, [one for one in every if one.place == PLACE]))
    return 0 if scores and all(one.grade != "wrong" for one in scores) else 1


def place_of(one: Score) -> tuple[str, str, str]:
    """Place, name and join."""
    return one.place, one.name, one.join


def with_earlier(scores: Iterable[Score], earlier: Iterable[Score]) -> list[Score]:
    """Scores, and earlier ones of other runs; without those of mutants that are no more."""
    are = {line[:3] for line in mutants_score.read_document(mutants_score.DOCUMENT.read_text())}
    are |= {("defect", name, "-") for name in DEFECTS}
    found = {
        place_of(one): one
        for one in earlier
        if place_of(one) in are or (one.place == PLACE and one.name in HELD_OUT)
    }
    found |= {place_of(one): one for one in scores}
    return [found[place] for place in sorted(found)]


def evidences() -> Iterator[tuple[tuple[str, str, str], Path]]:
    """Place, name and join of everything that is scored, and the folder of its evidence."""
    yield from kept()
    for name in DEFECTS:
        yield ("defect", name, "-"), DEFECT_RUNS / f"defect_{name}"


def scored(place: tuple[str, str, str], folder: Path) -> tuple[Score, float]:
    """The diagnosis of one run with its grade, and how many seconds it took."""
    is_held_out, run = place[0] == PLACE, RunDirectory(folder)
    expects = HELD_OUT[place[1]].expected if is_held_out else expected(*place)
    verdict, begin = judge(run), time.monotonic()
    found = diagnose(run, verdict, lambda: time.monotonic() > begin + BUDGET_S)
    seconds = time.monotonic() - begin
    return Score(*place, expects.kind, grade_of(found, expects), said_by(found)), seconds


if __name__ == "__main__":
    sys.exit(main())
