"""Runs cells on a warm driver, and tells what became of each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tests.matrix.cells import Cell, cells
from tidemark.cases.lanes import Lanes
from tidemark.cases.warm import WarmDriver
from tidemark.errors import PipelineFailed

NUMBER = {cell: number for number, cell in enumerate(cells())}


class Outcome(msgspec.Struct, kw_only=True):
    """``said`` is ``VALID``, ``known defect``, ``unsupported`` or ``FAILED``; ``why`` the defects, or the reason."""

    cell: tuple[str, str, str, bool]
    said: str
    why: str = ""
    batches: int = 0
    rows: int = 0


def run_cell(cell: Cell, warm: WarmDriver, folder: Path) -> Outcome:
    """Run and judge one cell; the evidence stays if it failed."""
    outcome = Outcome(cell=(str(cell.kind), cell.bound, cell.state, cell.no_data), said="FAILED")
    run_dir = folder.resolve() / f"cell-{NUMBER[cell]}"
    shutil.rmtree(run_dir, ignore_errors=True)
    try:
        verdict = warm.run(cell.case(NUMBER[cell]), run_dir)
    except PipelineFailed as error:
        outcome.said, outcome.why = refusal(str(error))
    else:
        outcome.batches, outcome.rows = verdict.counts["batches"], verdict.counts["rows_in"]
        unknown = [one for one in verdict.findings if one.defect is None]
        other_format = [doubt for doubt in verdict.doubts if "state format" in doubt]
        if verdict.verdict == "VALID":
            outcome.said = "VALID"
        elif verdict.verdict == "INVALID" and not unknown:
            outcome.said, outcome.why = "known defect", ", ".join(verdict.known_defects)
        elif other_format and not unknown:
            outcome.said, outcome.why = "unsupported", other_format[0]
        else:
            outcome.why = "; ".join([*(one.message for one in unknown[:2]), *verdict.doubts[:2]])
    if outcome.said != "FAILED":
        shutil.rmtree(run_dir, ignore_errors=True)
    return outcome


def refusal(text: str) -> tuple[str, str]:
    """What a query's failure means: Spark refuses it, by its analysis or for its state store, or it failed."""
    found = re.search(r"AnalysisException: (.*?)(?: SQLSTATE|\n|;|$)", text) or re.search(
        r"(\[UNSUPPORTED_FEATURE\.\w+\] .*?)(?: SQLSTATE|\n|$)", text
    )
    return ("unsupported", found[1].strip()) if found else ("FAILED", text[:600])


def run_cells(chosen: Sequence[Cell], lanes: Lanes, say: Callable[[Outcome], None]) -> list[Outcome]:
    """Run cells; outcomes in the order of ``chosen``."""
    found: dict[Cell, Outcome] = {}

    def work(cell: Cell, warm: WarmDriver) -> bool:
        found[cell] = run_cell(cell, warm, lanes.folder)
        say(found[cell])
        return True

    lanes.run(chosen, work)
    return [found[cell] for cell in chosen]
