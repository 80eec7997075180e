"""``python -m tests.shrunk``: what ``tidemark shrink`` makes of known red runs, on a real stack, with the size of each.

Items: a run of the bundled left semi join; the case of each known defect of a single join, padded with 500 rows that
have nothing to do with it; and the first seed of the fuzz that shows each known defect. Each item is run, and what is
found is made smaller; the ``repro.py`` that comes of it is run, too, and has to differ from what is right. Words select
items by name. Writes ``tests/results/SHRUNK.md`` if all items were run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.pipeline_loader import load
from tests.support.bundled import case_of, make_trace
from tidemark import paths
from tidemark.campaigns.case import Case
from tidemark.campaigns.random_cases import generate
from tidemark.campaigns.shrink.predicted_batches import predicted_history
from tidemark.campaigns.shrink.red_run import red_run_of_case
from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions, ShrunkRun, shrink_red_run
from tidemark.campaigns.shrink.shrunk_files import write_best, write_shrunk
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.formats.chain import Chain
from tidemark.formats.events import write_time
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import Record
from tidemark.oracle import Verdict
from tidemark.oracle.spark.known_defects import DEFECTS
from tidemark.oracle.sql.join_answer import ask
from tidemark.stack import Stack, lease, spec_to_lease

DOCUMENT = paths.root() / "tests" / "results" / "SHRUNK.md"
PADDING = 500
SEEDS = 400
"""Seeds that are looked through for each defect, by Spark's rules alone."""
REPRO_S = 180
ABOUT = (
    "Made by `python -m tests.shrunk` from real runs: {}. Rows, slices and bytes: before → after, without sentinels."
    " *Told by rules* are candidates that Spark's rules rejected, so that nothing was run. *Red*: how many of the last"
    " runs of the smallest show the finding; `repro.py`, plain PySpark, is red if what came is not what is right."
)


class Item(NamedTuple):
    """A case that is red, and the known defect that it shows."""

    name: str
    case: Case
    defect: str


class Line(NamedTuple):
    """A line of the table; ``repro`` is what the plain program did."""

    name: str
    found: ShrunkRun
    repro: str


def items(folder: Path, spark: str) -> Iterator[Item]:
    """All that are made smaller."""
    options = ("--seed", "5", "--impressions", "750")
    trace = make_trace(folder / "left_semi.jsonl", options, pace="backlog")
    yield Item("left_semi, seed 5, 750 impressions", case_of("left_semi", trace), DEFECTS[0].name)
    for defect in DEFECTS:
        for one in defect.cases:
            file = paths.spark_bugs_dir() / one.pipeline
            if one.control or not defect.affects(spark) or isinstance(load(str(file)).CONTRACT, Chain):
                continue
            case = case_of(file, paths.spark_bugs_dir() / one.trace, sink="spark", conf=one.conf)
            yield Item(f"{one.name}, padded", padded(case), defect.name)
    yield from _of_fuzz(spark)


def _of_fuzz(spark: str) -> Iterator[Item]:
    """The first seed of the fuzz that shows each defect, by Spark's rules."""
    wanted = {defect.name for defect in DEFECTS if defect.affects(spark)}
    for seed in range(SEEDS):
        case = generate(seed)
        history = predicted_history(case, spark)
        if history is None:
            continue
        answer = ask(history)
        wrong = answer.defect[answer.is_right != answer.comes]
        for defect in sorted(wanted & set(filter(None, wrong.tolist()))):
            wanted.discard(defect)
            yield Item(f"fuzz, seed {seed}", case, defect)


def padded(case: Case, rows: int = PADDING) -> Case:
    """The case with rows of keys of their own, as many in each slice and topic, so that batches stay what they are."""
    contract, counts = case.contract, Counter((one.slice, one.topic) for one in case.records)
    each = -(-(rows + len(case.records)) // (2 * case.slices))
    records: list[Record] = []
    for number in range(case.slices):
        for side in (contract.left, contract.right):
            own = [one for one in case.records if (one.slice, one.topic) == (number, side.topic)]
            before = [one for one in case.records if one.topic == side.topic and one.slice <= number]
            times = [json.loads(one.value or "{}").get(side.time) for one in before]
            latest = max((one for one in times if one), default=write_time(1))
            for at in range(each - counts[number, side.topic]):
                name = f"pad-{number}-{at}"
                value = {side.id: name, **dict.fromkeys(side.keys, f"{side.topic}-{name}"), side.time: latest}
                value |= {name: 9 for one in contract.compared for name in one if name not in value}
                records.append(Record(topic=side.topic, value=json.dumps(value), arrival_ms=1, slice=number))
            records += own
    return replace(case, records=tuple(records))


def shrunk(item: Item, stack: Stack, folder: Path, budget_s: float) -> ShrunkRun:
    """Run an item, and make its run smaller. Raises ``TidemarkError`` if it is not red."""
    open_warm = partial(_warm, stack, folder / "logs")
    first = folder / "first"
    with open_warm() as warm:
        verdict: Verdict = warm.run(warm.as_possible(item.case), first)
    number = next((at for at, one in enumerate(verdict.findings, 1) if one.defect == item.defect), None)
    red = red_run_of_case(RunDirectory(first), item.case, number)
    options = ShrinkOptions(
        folder, budget_s, say=partial(print, flush=True), taken=partial(write_best, folder=folder)
    )
    return shrink_red_run(red, open_warm, stack.versions["spark"], options)


def _warm(stack: Stack, logs: Path) -> WarmDriver:
    logs.mkdir(parents=True, exist_ok=True)
    return WarmDriver(stack, stack.driver(), logs)


def outcome_of_repro(folder: Path) -> str:
    """What the program does: red, green, or what went wrong; a dash if there is none."""
    if not (folder / "repro.py").is_file():
        return "—"
    done = subprocess.run(
        [sys.executable, str(folder / "repro.py")],
        capture_output=True,
        text=True,
        timeout=REPRO_S,
        check=False,
    )
    if "expected:" not in done.stdout:
        return f"failed: {done.stderr.strip().splitlines()[-1:]}"
    return "red" if done.returncode == 1 else "green"


def document(lines: list[Line], versions: dict[str, str]) -> str:
    """The table."""
    shown = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    rows = [_row(line) for line in lines]
    head = "| run | finding | rows | slices | bytes | trials | told by rules | seconds | red | repro.py |"
    return "\n".join(
        [
            "# Red runs made smaller",
            "",
            ABOUT.format(shown),
            "",
            head,
            "|---|---|---|---|---|---:|---:|---:|---|---|",
            *rows,
            "",
        ]
    )


def _row(line: Line) -> str:
    found, before, after = line.found, line.found.before, line.found.after
    cells: list[Any] = [
        line.name,
        f"{found.signature.property} of {found.signature.about}, `{found.signature.defect}`",
        f"{before.rows:,} → {after.rows}",
        f"{before.batches} → {after.batches}",
        f"{before.bytes:,} → {after.bytes}",
        found.trials,
        found.told,
        f"{found.seconds:.0f}",
        f"{found.shrunk.final.red} of {found.shrunk.final.of}",
        line.repro,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Returns 1 if an item is not red, or its smallest run is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.shrunk", description=__doc__)
    parser.add_argument("words", nargs="*", help="items whose name has one of these words; default: all")
    parser.add_argument("--budget", type=float, default=180.0, help="seconds for each item (180)")
    parser.add_argument("--folder", type=Path, default=paths.runs_dir() / "shrunk", help="where results go")
    args = parser.parse_args()
    lines, problems = list[Line](), list[str]()
    base = args.folder / time.strftime("%Y%m%d-%H%M%S")
    base.mkdir(parents=True)
    with lease(spec_to_lease(None)) as stack:
        for number, item in enumerate(items(base, stack.versions["spark"])):
            if args.words and not any(word in item.name for word in args.words):
                continue
            folder = base / str(number)
            found = shrunk(item, stack, folder, args.budget)
            write_shrunk(found, folder)
            lines.append(Line(item.name, found, outcome_of_repro(folder)))
            print(_row(lines[-1]), flush=True)
            if not found.shrunk.final.red or lines[-1].repro not in ("red", "—"):
                problems.append(f"{item.name}: red in {found.shrunk.final}, repro.py {lines[-1].repro}")
        versions = dict(stack.versions)
    for problem in problems:
        print(problem)
    if not problems and not args.words:
        DOCUMENT.write_text(document(lines, versions), encoding="utf-8")
        print(f"written: {DOCUMENT}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
