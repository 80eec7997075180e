"""Streaming joins that go on under a newer Spark, judged row by row, and how that went.

    python -m tests.upgrades [--pair OLD:NEW ...] [--resume] [--so-far]

Each query runs half of its life on an older Spark and the other half, on the same checkpoint, on a newer one; which
Spark wrote a row is in the row. Each Spark has an environment of its own (``tidemark versions`` makes the same).
Outcomes are journalled as they come; ``--resume`` runs only what is not there yet, ``--so-far`` runs nothing.
``tests/results/UPGRADES.md`` and ``upgrades.jsonl`` are written of what the journal has. Exit code 0 if all that was
run holds, 1 if something does not, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import functools
import signal
import sys
from collections import Counter
from pathlib import Path

from tests.e2e.foreign_query import ForeignSpark
from tests.e2e.own_broker import own_broker
from tests.upgrades import document
from tests.upgrades.cells import PAIRS, groups
from tests.upgrades.running import GroupOutcome, run_group
from tidemark import paths
from tidemark.campaigns.campaign import Campaign, read_journal
from tidemark.cli.run_commands import progress_shown
from tidemark.errors import EXIT_VALID
from tidemark.runner.pyspark_environments import folder, provide
from tidemark.stack.install.toolchain import find_spark


@functools.cache
def spark_of(release: str) -> ForeignSpark:
    """A PySpark, installed if it is missing: that of this process, if it is of this release."""
    own = Path(sys.executable)
    return ForeignSpark.of(own if find_spark(own).version == release else provide(release, folder(), print))


def main() -> int:
    """Run what is asked for."""
    args = _parsed()
    if args.so_far:
        document.write([outcome for _, outcome in read_journal(args.journal, GroupOutcome)])
        return EXIT_VALID
    # Of a job in the background a shell may have SIGINT ignored; SIGTERM ends it all the same.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pairs = [pair for pair in PAIRS if not args.pair or ":".join(pair) in args.pair]
    chosen = groups(pairs)
    runs = paths.runs_dir() / "upgrades"
    trials = Campaign(
        "upgrades", GroupOutcome, lambda one: one.holds, journal=args.journal, resume=args.resume,
        keep_failures=False, what="groups", every=1, line=_line, total=len(chosen),
    )  # fmt: skip
    with progress_shown(quiet=False) as (trials.report, trials.say), own_broker(runs / "broker") as broker:
        trials.run(chosen, lambda group: run_group(group, broker.bootstrap, runs, spark_of))
    for one in trials.failures:
        print(document.failure(one))
    document.write([*trials.outcomes.values()])
    return trials.exit_code


def _line(one: GroupOutcome) -> str:
    if not one.cells:
        return one.problem
    first = one.cells[0]
    said = Counter(cell.said for cell in one.cells)
    return f"{first.old} to {first.new}: {dict(said)}"


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.upgrades",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--pair", action="append", choices=[":".join(pair) for pair in PAIRS], metavar="OLD:NEW",
        help="only these Sparks; repeatable; without it: all pairs",
    )  # fmt: skip
    parser.add_argument(
        "--journal", type=Path, default=paths.root() / "build" / "upgrades.jsonl", help="outcomes go there"
    )
    parser.add_argument("--resume", action="store_true", help="run only what has no outcome in --journal")
    parser.add_argument("--so-far", action="store_true", help="run nothing, and write what --journal has")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
