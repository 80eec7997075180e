"""``python -m tests.histories``: the oracles of a join against each other, on thousands of random histories.

Each seed draws a history of any contract and one of small batches. The model must do what a literal transcription of
the rules does, and SQL must say the same as the model: rows, batches, watermarks, late rows, state. It draws one of a
chain, too, of which SQL must say what the model of chains says. Some seeds draw a whole run as well, with damaged
output: reduced as a large run is, it must have the same verdict. Writes ``tests/results/HISTORIES.md`` if all agree.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.progress import track

from tests.spark.chain_traces import make_history
from tests.unit.oracle import test_any_contract, test_chain_oracles, test_large, test_oracles
from tidemark.oracle.chain_judgement import CHAIN_DEFECTS
from tidemark.oracle.large import reduction

DOCUMENT = Path(__file__).parent / "results" / "HISTORIES.md"
CHUNK = 50
LINE_EVERY = 20
"""After so many chunks a line says how far it is, where no bar is drawn."""


class Outcome(NamedTuple):
    """What a seed drew, and which checks did not hold."""

    drew: list[str]
    problems: list[str]


def checked(seed: int, *, is_reduced: bool) -> Outcome:
    """Draw and check the histories of a seed."""
    outcome = Outcome([], [])
    drawn = test_any_contract.drawn(seed)
    small = test_oracles.random_run(random.Random(f"histories {seed}"))
    of_chain = make_history(random.Random(f"histories {seed}"))
    outcome.drew.extend(
        [
            f"any contract: {drawn.manifest.contract['kind']}",
            f"small batches: {small.contract.kind}",
            f"chain: {of_chain.chain.name.replace('_', ' ')}",
        ]
    )
    checks: list[Callable[[], object]] = [
        lambda: test_any_contract.model_does_what_the_rules_say(drawn),
        lambda: test_any_contract.sql_says_the_same(drawn),
        lambda: test_oracles.model_does_what_the_naive_one_does(small),
        lambda: test_oracles.sql_agrees_with_the_model(small),
        lambda: test_chain_oracles.sql_says_the_same(of_chain, CHAIN_DEFECTS if seed % 2 else ()),
    ]
    if is_reduced:
        checks.append(lambda: outcome.drew.append(f"reduced: {_reduced(seed)}"))
    for check in checks:
        try:
            check()
        except AssertionError as error:
            outcome.problems.append(f"seed {seed}: {str(error)[:300]}")
    return outcome


def _reduced(seed: int) -> str:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "SAMPLE_ROWS", test_large.FEW_ROWS)
        return test_large.outcome_of(seed, Path(folder), patch)


def _some(first: int, count: int, every: int) -> list[Outcome]:
    return [checked(seed, is_reduced=seed % every == 0) for seed in range(first, first + count)]


def main() -> int:
    """Returns 1 if two of them disagreed."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument(
        "--histories", type=int, default=20_000, help="how many of joins, two for each seed (20,000)"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument(
        "--every", type=int, default=10, help="one seed of so many draws a reduced run, too (10)"
    )
    parser.add_argument("--workers", type=int, default=2, help="how many processes (2)")
    parser.add_argument("--markdown", type=Path, default=DOCUMENT, help="where the document goes")
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.histories // 2, CHUNK)
    drew, problems = Counter[str](), list[str]()
    with ProcessPoolExecutor(args.workers) as pool:
        futures = [
            pool.submit(_some, first, min(CHUNK, args.first + args.histories // 2 - first), args.every)
            for first in seeds
        ]
        is_drawn = sys.stdout.isatty()
        for done, future in enumerate(track(futures, description="histories", disable=not is_drawn), 1):
            for outcome in future.result():
                drew.update(outcome.drew)
                problems += outcome.problems
                for problem in outcome.problems:
                    print(problem, flush=True)
            if not is_drawn and done % LINE_EVERY == 0:
                print(f"{done * CHUNK:,} of {len(seeds) * CHUNK:,} seeds", flush=True)
    if problems:
        print(f"{len(problems)} disagreements")
        return 1
    args.markdown.write_text(_document(drew, args.first, args.histories))
    print(f"{args.histories:,} histories, no disagreement; written: {args.markdown}")
    return 0


def _document(drew: Counter[str], first: int, histories: int) -> str:
    rows = "\n".join(f"| {what} | {many:,} |" for what, many in sorted(drew.items()))
    return f"""# Random histories

Made by `python -m tests.histories --histories {histories} --first {first}`. In each history the model does what a
literal transcription of the rules does, and SQL says the same as the model: rows, batches, watermarks, late rows and
state. Of each *chain* SQL says the same as the model of chains: rows, batches, watermarks and late rows, half of them
in a Spark without known defects. A *reduced* run has damaged output; reduced as a large run is, it has the same
verdict, findings, counts and coverage goals as judged whole. Disagreements: 0.

| drawn | number |
|---|---:|
{rows}
"""


if __name__ == "__main__":
    sys.exit(main())
