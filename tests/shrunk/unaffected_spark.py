"""The ``repro.py`` of a known defect under a Spark that does not have it: there it is green.

Each Spark has an environment of its own (``tidemark versions`` makes the same), which is installed where it is missing.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.plain_programs import GREEN, answer_of
from tests.shrunk.shrunk_table import NONE
from tidemark.oracle.spark.known_defects import DEFECTS
from tidemark.runner.pyspark_environments import RELEASES, folder, provide

EVERY_SPARK = f"{NONE} (every Spark has it)"


def unaffected_release(name: str) -> str | None:
    """The newest release that does not have a known defect, and knows what it is about; ``None``: each has it."""
    [defect] = [one for one in DEFECTS if one.name == name]
    known = [one for one in RELEASES if any(case.is_for(one) for case in defect.cases if not case.control)]
    return next((one for one in reversed(known) if not defect.affects(one)), None)


def outcome_elsewhere(defect: str | None, program: Path, timeout_s: float) -> str:
    """What the program does there: ``green on 4.1.4``; a dash if there is no program, no defect or no such Spark."""
    if defect is None or not program.is_file():
        return NONE
    release = unaffected_release(defect)
    if release is None:
        return EVERY_SPARK
    found = answer_of(program, provide(release, folder(), partial(print, flush=True)), timeout_s)
    return f"{found.answer} on {release}" + (f": {found.end.splitlines()[-1:]}" if found.end else "")


def is_as_known(outcome: str) -> bool:
    """Whether an outcome is green, or there is none."""
    return outcome.startswith((NONE, f"{GREEN} on "))
