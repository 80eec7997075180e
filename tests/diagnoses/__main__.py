"""The diagnosis of every mutant whose evidence is kept, and of every known defect: ``python -m tests.diagnoses``.

Each is compared with ``expected``; without other words the document is written. Exit code 1: one is wrong, or there is
no evidence. Words select mutants by place, name or join. With ``--record`` the mutants' tests are run first, on a real
stack, and their evidence is kept (``recording``); other words are pytest's then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.diagnoses.expected import DEFECTS, expected
from tests.diagnoses.held_out import HELD_OUT, PLACE
from tests.diagnoses.recording import kept, record
from tests.diagnoses.scoring import DOCUMENT, Score, counts, document, grade_of, said_by, summary
from tidemark.diagnosis import diagnose
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge

DEFECT_RUNS = Path(__file__).parents[1] / "golden" / "evidence"
BUDGET_S = 10.0


def main(words: list[str]) -> int:
    """Print a line for each; 1 if one is wrong."""
    if "--record" in words:
        return record([word for word in words if word != "--record"])
    scores = []
    for place, folder in evidences():
        if words and not any(word in "/".join(place) for word in words):
            continue
        scores.append(scored(place, folder))
        one = scores[-1]
        print(one.grade, *place, one.kind, one.said, f"{one.seconds:.2f} s", sep=" · ", flush=True)
    for row in counts(scores):
        print(" · ".join(row))
    for text in summary(scores):
        print(text)
    if not words and scores:
        of_mutants = [one for one in scores if one.place != PLACE]
        DOCUMENT.write_text(document(of_mutants, [one for one in scores if one.place == PLACE]))
    return 0 if scores and all(one.grade != "wrong" for one in scores) else 1


def evidences() -> Iterator[tuple[tuple[str, str, str], Path]]:
    """Place, name and join of everything that is scored, and the folder of its evidence."""
    yield from kept()
    for name in DEFECTS:
        yield ("defect", name, "-"), DEFECT_RUNS / f"defect_{name}"


def scored(place: tuple[str, str, str], folder: Path) -> Score:
    """The diagnosis of one run, and its grade."""
    is_held_out, run = place[0] == PLACE, RunDirectory(folder)
    expects = HELD_OUT[place[1]].expected if is_held_out else expected(*place)
    verdict, begin = judge(run), time.monotonic()
    found = diagnose(run, verdict, lambda: time.monotonic() > begin + BUDGET_S)
    seconds = round(time.monotonic() - begin, 2)
    return Score(*place, expects.kind, grade_of(found, expects), said_by(found), seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
