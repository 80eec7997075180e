"""Runs the whole matrix, and writes its document if all held: ``python -m tests.matrix [--pairwise] [--log FILE]``.

``--spark PYTHON``: on the PySpark of another interpreter, in the states that it has, with Spark's own sink; the
document is that of the usual one, and is not written.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from tests.matrix import document
from tests.matrix.cells import cells, pairwise
from tests.matrix.running import campaign, run_cell
from tidemark import paths
from tidemark.campaigns.state_stores import states_of
from tidemark.campaigns.warm_workers import WarmWorkers
from tidemark.cli.run_commands import progress_shown, say_index
from tidemark.errors import UsageError
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
    args = parser.parse_args()
    try:
        done = campaign(journal=args.log, resume=args.resume)
    except UsageError as error:
        parser.error(str(error))
    folder = paths.runs_dir() / "matrix"
    with (
        lease(spec_to_lease(args.spark)) as stack,
        progress_shown(quiet=not sys.stderr.isatty()) as (done.report, done.say),
    ):
        workers = WarmWorkers(stack, folder, args.workers)
        spark = stack.versions["spark"]
        chosen = pairwise() if args.pairwise else cells()
        states = states_of(spark)
        done.run([cell for cell in chosen if cell.state in states], partial(run_cell, folder=folder), workers)
    text = document.write([*done.outcomes.values()], spark)
    print(text)
    say_index(folder)
    return done.finish(None if args.pairwise or args.spark else document.PATH, lambda: text)


if __name__ == "__main__":
    sys.exit(main())
