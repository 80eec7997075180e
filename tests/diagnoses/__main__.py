"""The diagnosis of every mutant whose evidence is kept: ``python -m tests.diagnoses``.

With ``--record`` the mutants' tests are run first, on a real stack, and their evidence is kept (``recording``); other
words are pytest's then. Else words select mutants by place, name or join.
"""

from __future__ import annotations

import sys

from tests.diagnoses.recording import kept, record
from tidemark.diagnosis import diagnose
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import judge


def main(words: list[str]) -> int:
    """Print a line for each; 1 if nothing is kept."""
    if "--record" in words:
        return record([word for word in words if word != "--record"])
    many = 0
    for place, folder in kept():
        if words and not any(word in "/".join(place) for word in words):
            continue
        run = RunDirectory(folder)
        found = diagnose(run, judge(run))
        named = " | ".join(" + ".join(one.changes) for one in found.explanations)
        print("/".join(place), found.outcome, named, sep=" · ", flush=True)
        many += 1
    return 0 if many else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
