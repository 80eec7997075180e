"""Runs a choice of the matrix, and random joins, on the other Sparks, and writes how that went.

    python -m tests.other_sparks [--release VERSION ...] [--cells 120] [--seeds 300] [--resume]

Each Spark has an environment of its own (``tidemark versions`` makes the same), a stack of its own, the states that it
has, and Spark's own sink. Outcomes are journalled below ``--journals`` as they come; ``--resume`` runs only what is
not there yet. ``tests/results/SPARKS.md`` is written once all releases were run and everything held. Exit code 0 if
so, 1 if something did not hold, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from tests.matrix import running
from tests.matrix.cells import choice
from tidemark import paths
from tidemark.campaigns import fuzz
from tidemark.campaigns.state_stores import states_of
from tidemark.campaigns.warm_workers import WarmWorkers
from tidemark.cli.run_commands import progress_shown
from tidemark.errors import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_VALID, UsageError
from tidemark.reports.markdown import table
from tidemark.runner.pyspark_environments import RELEASES, folder, provide
from tidemark.stack import lease, spec_to_lease

USUAL = "4.2.0"
"""The one of the locks: ``make matrix`` and ``make fuzz`` are for it."""
OTHERS = tuple(release for release in RELEASES if release != USUAL)
DOCUMENT = Path(__file__).parent / "results" / "SPARKS.md"
HEAD = """# Joins on the other Sparks, judged

Made by `make sparks`: on each Spark {cells} cells of the matrix ([JOINS.md](JOINS.md)), chosen so that each two values
of join, bound, store, format, changelog and no-data batches meet, and most threes do; and {seeds} random joins
([FUZZ.md](FUZZ.md)). Output and metrics are compared with the oracle's, and the state where that Spark can read it. All
of it holds: nothing was found but known defects of Spark.
"""


class Tried(msgspec.Struct, kw_only=True):
    """What became of one release: its cells and its seeds, and how many seconds they took."""

    release: str
    cells: list[running.Outcome]
    seeds: list[fuzz.Outcome]
    seconds: float
    exit_codes: list[int]


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.other_sparks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--release", action="append", choices=RELEASES, metavar="VERSION",
        help=f"only this one; repeatable; without it: {', '.join(OTHERS)}",
    )  # fmt: skip
    parser.add_argument("--cells", type=int, default=120, help="how many cells of the matrix (%(default)s)")
    parser.add_argument("--seeds", type=int, default=300, help="how many random joins (%(default)s)")
    parser.add_argument("--workers", type=int, default=3, help="how many run at once (%(default)s)")
    parser.add_argument(
        "--journals", type=Path, default=paths.root() / "build" / "other_sparks", help="outcomes go there"
    )
    parser.add_argument("--resume", action="store_true", help="run only what has no outcome in --journals")
    args = parser.parse_args()
    # Of a job in the background a shell may have SIGINT ignored; SIGTERM ends it all the same.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tried = []
    for release in args.release or OTHERS:
        try:
            tried.append(_try(release, args))
        except UsageError as error:
            parser.error(str(error))
        if EXIT_INTERRUPTED in tried[-1].exit_codes:
            break
    text = document(tried, args.cells, args.seeds)
    print(text)
    codes = {code for one in tried for code in one.exit_codes}
    if codes != {EXIT_VALID}:
        return EXIT_INVALID if EXIT_INVALID in codes else EXIT_INTERRUPTED
    if args.release is None:
        DOCUMENT.write_text(text, encoding="utf-8")
        print(f"written: {DOCUMENT}")
    return EXIT_VALID


def _try(release: str, args: argparse.Namespace) -> Tried:
    """One release: its cells, then its seeds, on one stack."""
    kept = paths.runs_dir() / "other_sparks" / release
    matrix = running.campaign(journal=args.journals / f"{release}-cells.jsonl", resume=args.resume)
    seeded = fuzz.campaign(journal=args.journals / f"{release}-seeds.jsonl", resume=args.resume)
    with progress_shown(quiet=False) as shown:
        matrix.report, matrix.say = seeded.report, seeded.say = shown
        with lease(spec_to_lease(provide(release, folder(), matrix.say))) as stack:
            workers = WarmWorkers(stack, kept, args.workers)
            cells = choice(args.cells, states_of(stack.versions["spark"]))
            matrix.run(cells, partial(running.run_cell, folder=kept), workers)
            if not matrix.interrupted:
                fuzz.fuzz(range(args.seeds), workers, seeded)
    return Tried(
        release=release,
        cells=[*matrix.outcomes.values()],
        seeds=[*seeded.outcomes.values()],
        seconds=matrix.seconds + seeded.seconds,
        exit_codes=[matrix.exit_code, seeded.exit_code],
    )


def document(tried: Sequence[Tried], cells: int, seeds: int) -> str:
    """The whole document: a row for each release, and the known defects that were named."""
    rows = [
        (
            one.release,
            len(one.cells),
            *(sum(cell.said == said for cell in one.cells) for said in ("VALID", "known defect", "FAILED")),
            len(one.seeds),
            sum(seed.holds for seed in one.seeds),
            sum(seed.rows for seed in one.seeds) + sum(cell.rows for cell in one.cells),
            sum(seed.restarts for seed in one.seeds),
            f"{one.seconds / 60:.1f}",
        )
        for one in tried
    ]
    columns = (
        "Spark", "cells", "`VALID`", "known defect", "failed",
        "seeds", "that hold", "rows", "restarts of seeds", "minutes",
    )  # fmt: skip
    named = {one.release: _named(one) for one in tried}
    defects = sorted({defect for counts in named.values() for defect in counts})
    found = [(f"`{defect}`", *(named[one.release][defect] or "" for one in tried)) for defect in defects]
    return "\n".join(
        [
            HEAD.format(cells=cells, seeds=seeds),
            *table(columns, rows),
            "",
            "## In how many cells and seeds a known defect was named",
            "",
            *table(("defect", *(one.release for one in tried)), found),
            "",
        ]
    )


def _named(one: Tried) -> Counter[str]:
    """In how many cells and seeds each known defect was named."""
    found: Counter[str] = Counter()
    for cell in one.cells:
        found.update(cell.why.split(", ") if cell.said == "known defect" else ())
    for seed in one.seeds:
        found.update(dict.fromkeys(seed.defects, 1))
    return found


if __name__ == "__main__":
    sys.exit(main())
