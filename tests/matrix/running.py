"""Runs cells on a warm driver, and tells what became of each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tests.matrix.cells import STATE_BATCHES, Cell, cells
from tidemark.campaigns.campaign import Campaign
from tidemark.campaigns.shrink.red_run import RedRun, red_run_of_case
from tidemark.campaigns.state_stores import UNSUPPORTED, other_than
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.cli.shrunk_failures import RedItem
from tidemark.errors import PipelineFailed
from tidemark.formats.evidence import RunDirectory
from tidemark.oracle import Verdict
from tidemark.oracle.compare.spark_account import SparkAccount
from tidemark.reports.kept_verdict import kept_verdict

NUMBER = {cell: number for number, cell in enumerate(cells())}
CELLS = {(str(one.kind), one.bound, one.state, one.no_data): one for one in NUMBER}
"""The cells by what an outcome says of one."""


class Outcome(msgspec.Struct, kw_only=True):
    """``said`` is ``VALID``, ``known defect``, ``unsupported`` or ``FAILED``; ``why`` the defects, or the reason."""

    cell: tuple[str, str, str, bool]
    said: str
    why: str = ""
    batches: int = 0
    rows: int = 0
    run_dir: str = ""


def run_cell(cell: Cell, warm: WarmDriver, folder: Path) -> Outcome:
    """Run and judge one cell; the evidence stays if it failed."""
    outcome = Outcome(cell=(str(cell.kind), cell.bound, cell.state, cell.no_data), said="FAILED")
    run_dir = folder.resolve() / f"cell-{NUMBER[cell]}"
    shutil.rmtree(run_dir, ignore_errors=True)
    case = warm.as_possible(cell.case(NUMBER[cell]))
    try:
        verdict = warm.run(case, run_dir)
    except PipelineFailed as error:
        outcome.said, outcome.why = refused(cell, str(error))
    else:
        outcome.batches, outcome.rows = verdict.counts["batches"], verdict.counts["rows_in"]
        outcome.said, outcome.why = become_of(cell, verdict, case.states)
    if outcome.said != "FAILED":
        shutil.rmtree(run_dir, ignore_errors=True)
    else:
        outcome.run_dir = str(run_dir)
    return outcome


def refused(cell: Cell, text: str) -> tuple[str, str]:
    """What a query's failure says of its cell: it is refused as it must be, or it failed."""
    because = UNSUPPORTED.get(cell.state)
    if because is None or because not in text:
        return "FAILED", text[:600]
    reason, _, _ = text[text.index(because) :].partition(" SQLSTATE")
    return "unsupported", reason.splitlines()[0].strip()


def become_of(cell: Cell, verdict: Verdict, states: int = STATE_BATCHES) -> tuple[str, str]:
    """What a judged run says of its cell, and why.

    The state must have been that of its cell, and compared after so many batches; 0 where Spark cannot read it.
    """
    unknown = [one.message for one in verdict.findings if one.defect is None]
    other_format = [reason for reason in verdict.inconclusive if "state format" in reason]
    if cell.state in UNSUPPORTED:
        held = bool(other_format) and verdict.inconclusive == other_format and not unknown
        wrong = [*unknown, *verdict.inconclusive] or ["Spark kept the state as it was asked to"]
        return ("unsupported", other_format[0]) if held else ("FAILED", "; ".join(wrong[:3]))
    wrong = [*unknown, *verdict.inconclusive, *_not_compared(cell, verdict.spark_account, states)]
    if wrong:
        return "FAILED", "; ".join(wrong[:3])
    return ("known defect", ", ".join(verdict.known_defects)) if verdict.findings else ("VALID", "")


def _not_compared(cell: Cell, spark_account: SparkAccount | None, states: int) -> Iterator[str]:
    """What is missing for this cell's state to have been judged."""
    if spark_account is None:
        yield "nothing of Spark's own account was judged"
        return
    if other := other_than(cell.state, spark_account):
        yield other
    if len(spark_account.state_batches) < states:
        yield f"the state was compared after batches {spark_account.state_batches} only: {spark_account.notes}"
    if not spark_account.metric_batches:
        yield f"the metrics of no batch were compared: {spark_account.notes}"


def campaign(**options: Any) -> Campaign[Cell, Outcome]:
    """The campaign of cells; ``options`` are those of every campaign."""
    return Campaign(
        "matrix", Outcome, lambda one: one.said != "FAILED", what="cells",
        line=lambda one: f"{one.said} {one.cell} {one.why}", **options,
    )  # fmt: skip


def found(done: Campaign[Cell, Outcome]) -> Iterator[RedItem]:
    """The cells in which something was found, without those of an earlier process."""

    def read(path: Path, cell: Cell) -> RedRun:
        return red_run_of_case(RunDirectory(path), cell.case(NUMBER[cell]))

    for key, one in done.outcomes.items():
        run_dir, cell = Path(one.run_dir), CELLS[one.cell]
        verdict = kept_verdict(run_dir) if one.run_dir and key not in done.earlier else None
        if verdict is not None and verdict.findings:
            yield RedItem(f"cell {NUMBER[cell]}", run_dir, partial(read, cell=cell))
