"""Runs the whole matrix, and writes its document if all held: ``python -m tests.matrix [--pairwise] [--log FILE]``."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from tests.matrix import document
from tests.matrix.cells import cells, pairwise
from tests.matrix.running import campaign, run_cell
from tidemark import paths
from tidemark.campaigns.warm_workers import WarmWorkers
from tidemark.cli.run_commands import progress_shown
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
    args = parser.parse_args()
    try:
        done = campaign(journal=args.log, resume=args.resume)
    except UsageError as error:
        parser.error(str(error))
    folder = paths.runs_dir() / "matrix"
    with (
        lease(spec_to_lease()) as stack,
        progress_shown(quiet=not sys.stderr.isatty()) as (done.report, done.say),
    ):
        workers = WarmWorkers(stack, folder, args.workers)
        done.run(pairwise() if args.pairwise else cells(), partial(run_cell, folder=folder), workers)
        spark = stack.versions["spark"]
    text = document.write([*done.outcomes.values()], spark)
    print(text)
    return done.finish(None if args.pairwise else document.PATH, lambda: text)


if __name__ == "__main__":
    sys.exit(main())
