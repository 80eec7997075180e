"""Runs the whole matrix, and writes its document if all held: ``python -m tests.matrix [--pairwise] [--log FILE]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from tests.matrix import document
from tests.matrix.cells import cells, pairwise
from tests.matrix.running import Outcome, run_cells
from tidemark import paths
from tidemark.campaigns.warm_workers import Lanes
from tidemark.stack import lease, spec_to_lease

EVERY = 20
"""Who reads a log hears of one cell in so many, and of each that failed; a terminal shows all."""


def main() -> int:
    """0 if every cell held or is unsupported."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--pairwise", action="store_true", help="the suite's choice only; writes no document")
    parser.add_argument("--lanes", type=int, default=3, help="how many cells run at once (%(default)s)")
    parser.add_argument("--log", type=Path, help="a JSON line for each cell goes there")
    args = parser.parse_args()
    chosen = pairwise() if args.pairwise else cells()
    done: list[Outcome] = []

    def say(outcome: Outcome) -> None:
        done.append(outcome)
        if args.log:
            with args.log.open("ab") as file:
                file.write(msgspec.json.encode(outcome) + b"\n")
        if outcome.said == "FAILED" or sys.stderr.isatty() or len(done) % EVERY == 0:
            print(f"{len(done)}/{len(chosen)} {outcome.said} {outcome.cell} {outcome.why}", file=sys.stderr)

    with lease(spec_to_lease()) as stack:
        outcomes = run_cells(chosen, Lanes(stack, paths.runs_dir() / "matrix", args.lanes), say)
        text = document.write(outcomes, stack.versions["spark"])
    print(text)
    if any(outcome.said == "FAILED" for outcome in outcomes):
        return 1
    if not args.pairwise:
        document.PATH.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
