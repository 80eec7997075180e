"""Runs cells on a warm driver, and tells what became of each."""

from __future__ import annotations

import queue
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tests.matrix.cells import Cell, cells
from tidemark.cases.warm import WarmDriver
from tidemark.errors import PipelineFailed
from tidemark.stack import Stack

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
        r"\[(UNSUPPORTED_FEATURE\.\w+\] .*?)(?: SQLSTATE|\n|$)", text
    )
    return ("unsupported", found[1].strip().lstrip("[")) if found else ("FAILED", text[:600])


def run_cells(
    chosen: Sequence[Cell], stack: Stack, folder: Path, say: Callable[[Outcome], None], *, lanes: int = 2
) -> list[Outcome]:
    """Run cells in so many lanes, each with a session of its own; outcomes in the order of ``chosen``."""
    waiting: queue.SimpleQueue[Cell] = queue.SimpleQueue()
    for cell in chosen:
        waiting.put(cell)
    found: dict[Cell, Outcome] = {}
    errors: list[BaseException] = []

    def lane(number: int) -> None:
        logs = folder / f"lane-{number}"
        logs.mkdir(parents=True, exist_ok=True)
        try:
            with WarmDriver(stack, stack.driver(), logs) as warm:
                while not errors:
                    try:
                        cell = waiting.get_nowait()
                    except queue.Empty:
                        return
                    found[cell] = run_cell(cell, warm, folder)
                    say(found[cell])
        except BaseException as error:  # noqa: BLE001 (told by the caller's thread)
            errors.append(error)

    threads = [threading.Thread(target=lane, args=(number,)) for number in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [found[cell] for cell in chosen]
