"""Runs the whole matrix, and writes its document if all held: ``python -m tests.matrix [--pairwise] [--log FILE]``.

``--spark PYTHON``: on the PySpark of another interpreter, in the states that it has, with Spark's own sink; the
document is that of the usual one, and is not written.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path

import typer

from tests.matrix import document
from tests.matrix.cells import Cell, cells, pairwise
from tests.matrix.running import NUMBER, campaign, found, run_cell
from tidemark import paths
from tidemark.campaigns.state_stores import states_of
from tidemark.campaigns.warm_workers import WarmWorkers
from tidemark.cli.run_commands import progress_shown, say_index
from tidemark.cli.shrunk_failures import shrink_budget, shrink_items
from tidemark.errors import UsageError
from tidemark.reports.campaign_facts import CampaignFacts, FactsWriter
from tidemark.stack import lease, spec_to_lease


def main() -> int:
    """0 if every cell held or is unsupported."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument(
        "--pairwise", action="store_true", help="a choice in which each two values meet; writes no document"
    )
    parser.add_argument("--workers", type=int, default=3, help="how many cells run at once (%(default)s)")
    parser.add_argument("--log", type=Path, help="a JSON line for each cell goes there")
    parser.add_argument("--resume", action="store_true", help="run only the cells that are not in --log yet")
    parser.add_argument("--spark", type=Path, metavar="PYTHON", help="an interpreter with another PySpark")
    parser.add_argument("--cell", type=int, action="append", help="only the cell of this number; repeatable")
    parser.add_argument(
        "--shrink",
        default="2m",
        metavar="TIME",
        help="how long to make each INVALID cell smaller (2m); 0: not",
    )
    args = parser.parse_args()
    try:
        done, budget_s = campaign(journal=args.log, resume=args.resume), shrink_budget(args.shrink)
    except (UsageError, typer.BadParameter) as error:
        parser.error(str(error))
    folder, page = paths.runs_dir() / "matrix", FactsWriter(paths.runs_dir() / "matrix")
    command, resumed = _typed(args)

    def facts() -> CampaignFacts:
        return document.facts([*done.outcomes.values()], folder, command, resumed)

    done.ended = lambda _: page.note(facts)
    with (
        lease(spec_to_lease(args.spark)) as stack,
        progress_shown(quiet=not sys.stderr.isatty()) as (done.report, done.say),
    ):
        workers = WarmWorkers(stack, folder, args.workers)
        spark = stack.versions["spark"]
        states = states_of(spark)
        chosen = [cell for cell in _chosen(args) if cell.state in states]
        done.run(chosen, partial(run_cell, folder=folder), workers)
        if not done.interrupted:
            shrink_items(found(done), stack, budget_s, done.say)
    page.end(facts(), complete=not done.interrupted)
    text = document.write([*done.outcomes.values()], spark)
    print(text)
    say_index(folder)
    is_whole = not (args.pairwise or args.spark or args.cell)
    return done.finish(document.PATH if is_whole else None, lambda: text)


def _chosen(args: argparse.Namespace) -> list[Cell]:
    if args.cell:
        return [cell for cell, number in NUMBER.items() if number in args.cell]
    return [*(pairwise() if args.pairwise else cells())]


def _typed(args: argparse.Namespace) -> tuple[str, str]:
    """The command, and the one that goes on where it was interrupted; empty without a log."""
    words = ["python", "-m", "tests.matrix", *(["--pairwise"] if args.pairwise else [])]
    words += [word for number in args.cell or () for word in ("--cell", str(number))]
    words += ["--spark", str(args.spark)] if args.spark else []
    return shlex.join(words), shlex.join([*words, "--log", str(args.log), "--resume"]) if args.log else ""


if __name__ == "__main__":
    sys.exit(main())
