"""Judging rows that all have one key: how long it takes and how much memory, for each join, right and wrong.

    python -m bench.one_key [--rows 100000] [--kind left_semi] [--shape lost]

A key that all rows have is the worst case of everything that looks for partners: a left semi join of 50,000 rows of
each side has 2,500,000,000 pairs. Each run is judged in a process of its own. Exit code 1: an aim (10 s, 1 GB) was
missed, or a verdict is not what the shape must give.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench._evidence import (
    AIM_BYTES,
    AIM_S,
    PARTITIONS,
    START_US,
    Change,
    Emitted,
    contract,
    make_run,
    measure,
    record,
)
from bench._summary import print_result, say
from tidemark.formats.contract import Bound, Contract, JoinKind, Term
from tidemark.formats.events import write_time
from tidemark.formats.trace import Record
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.input.history import Disposition, History, alone
from tidemark.oracle.sql.join_answer import ask

BATCHES = 40
SECOND_US = 1_000_000
OUTER = (JoinKind.LEFT_OUTER, JoinKind.RIGHT_OUTER, JoinKind.FULL_OUTER)
SEMI = (JoinKind.LEFT_SEMI,)
PAIRED = (JoinKind.INNER, *OUTER)
ALL = tuple(JoinKind)

Batch = tuple[list[float], list[float]]
"""The event times of its left and of its right rows, in seconds."""


@dataclass(frozen=True)
class Shape:
    """Rows, and what was written of them; ``finds`` are the properties that a judgement has to find."""

    kinds: tuple[JoinKind, ...]
    bound: Bound
    batches: Callable[[int], Iterator[Batch]]
    finds: tuple[str, ...] = ()
    change: Change | None = None
    condition: tuple[Term, ...] = ()

    def contract(self, kind: JoinKind) -> Contract:
        """What a join of this shape promises."""
        return replace(contract(kind, self.bound), condition=self.condition)


def spread(rows: int) -> Iterator[Batch]:
    """A row of each side every second, the right one half a second later."""
    each = rows // 2
    for number in range(BATCHES):
        seconds = range(each * number // BATCHES, each * (number + 1) // BATCHES)
        yield [float(second) for second in seconds], [second + 0.5 for second in seconds]


def at_once(lefts: int | None = None) -> Callable[[int], Iterator[Batch]]:
    """All rows have one time; half of them are of the left side, or so many."""

    def batches(rows: int) -> Iterator[Batch]:
        of_left = rows // 2 if lefts is None else lefts
        for number in range(BATCHES):
            begun, done = rows * number // BATCHES, rows * (number + 1) // BATCHES
            split = max(begun, min(done, of_left)) if lefts is not None else (begun + done) // 2
            yield [0.0] * (split - begun), [0.0] * (done - split)

    return batches


def apart(rows: int) -> Iterator[Batch]:
    """All left rows have one time, and all right rows the first one at which they match none of them."""
    for number in range(BATCHES):
        count = (rows * (number + 1) // BATCHES - rows * number // BATCHES) // 2
        yield [0.0] * count, [10.000001] * count


def one_by_one(rows: int) -> Iterator[Batch]:
    """All left rows wait, one every second; then a right row comes for each."""
    each = rows // 2
    for offset_s in (0.0, 0.5):
        for number in range(BATCHES // 2):
            seconds = range(each * number * 2 // BATCHES, each * (number + 1) * 2 // BATCHES)
            times = [second + offset_s for second in seconds]
            yield ([], times) if offset_s else (times, [])


def behind(rows: int) -> Iterator[Batch]:
    """A row of each side far ahead; then all others, behind the eviction watermark and before the late one."""
    yield [100.0], [100.0]
    yield [50.0] * (rows // 2), [50.0] * (rows // 2)


def late_partners(rows: int) -> Iterator[Batch]:
    """Rows far ahead, and a batch later left rows, of which all partners are late."""
    yield [100.0], [100.0]
    yield [100.0], [100.0]
    yield [81.0] * (rows // 2), [79.0] * (rows // 2)


def early(_history: History, emitted: Emitted) -> Emitted:
    """Each row a batch too early, where there is one before."""
    return {row: max(0, batch - 1) for row, batch in emitted.items()}


def lost(_history: History, emitted: Emitted) -> Emitted:
    """Every second row is missing."""
    return {row: batch for number, (row, batch) in enumerate(emitted.items()) if number % 2}


def of_late_partners(history: History, emitted: Emitted) -> Emitted:
    """The left rows whose partners are all late came, too."""
    accepted = prediction_of(history, ask(history)).disposition
    rows = range(len(history.rows))
    more = {
        alone(row): 2 for row in rows if not history.rows.side[row] and accepted[row] == Disposition.ACCEPTED
    }
    return more | emitted


NEAR, FAR, WIDE = Bound(-10_000, 0), Bound(-400, 400), Bound(-100_000_000, 100_000_000)
EQUAL, EITHER_WAY, NEXT, NONE = Bound(equal=True), Bound(-5_000, 5_000), Bound(-500, 0), Bound()
SMALLER = (Term("<", left="n", right="n"),)
SHAPES = {
    "matched": Shape(PAIRED, NEAR, spread),
    "all matched": Shape(SEMI, WIDE, spread),
    "all matched without a bound": Shape(SEMI, NONE, spread),
    "all matched under a condition": Shape(SEMI, WIDE, spread, condition=SMALLER),
    "matched one by one": Shape(SEMI, NEXT, one_by_one),
    "unmatched": Shape(ALL, FAR, spread),
    "unmatched by a microsecond": Shape(ALL, NEAR, apart),
    "early": Shape(ALL, NEAR, spread, ("misplaced_rows",), early),
    "early NULL rows": Shape(OUTER, FAR, spread, ("premature_nulls",), early),
    "lost": Shape(ALL, NEAR, spread, ("lost_rows",), lost),
    "lost NULL rows": Shape(OUTER, FAR, spread, ("missing_nulls",), lost),
    "all lost": Shape(SEMI, WIDE, spread, ("lost_rows",), lost),
    "equal times": Shape(PAIRED, EQUAL, at_once(10)),
    "one time": Shape(PAIRED, NEAR, at_once(10)),
    "all at equal times": Shape(SEMI, EQUAL, at_once()),
    "all at one time": Shape(SEMI, NEAR, at_once()),
    "lost by the known defect": Shape(SEMI, NEAR, behind, ("lost_rows",)),
    "lost by the known defect under a condition": Shape(
        SEMI, NEAR, behind, ("lost_rows",), condition=SMALLER
    ),
    "came of late partners": Shape(SEMI, EITHER_WAY, late_partners, ("late_rows_joined",), of_late_partners),
}
"""By name; a left outer join that lost rows has no NULL rows in their place, and so on."""


def records(shape: Shape, rows: int) -> Iterator[list[Record]]:
    """The records of each batch."""
    counts = [0, 0]
    names = (("impressions", "impression"), ("clicks", "click"))
    for batch in shape.batches(rows):
        found = []
        for side, ((topic, name), times) in enumerate(zip(names, batch, strict=True)):
            for seconds in times:
                number, time_us = counts[side], START_US + round(seconds * SECOND_US)
                value = {
                    f"{name}_id": f"{name[0]}-{number:07d}",
                    "user_id": "u-1",
                    "ad_id": "a-1",
                    f"{name}_time": write_time(time_us),
                    "n": side,
                }
                found.append(record(topic, number % PARTITIONS, json.dumps(value), time_us))
                counts[side] += 1
        yield found


def judged(name: str, kind: JoinKind, rows: int) -> dict[str, Any]:
    """Make a run of a shape, and judge it."""
    shape = SHAPES[name]
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        run = make_run(Path(folder), shape.contract(kind), records(shape, rows), shape.change)
        return measure(run.path)


def problem(shape: Shape, measured: dict[str, Any]) -> str:
    """Why a judgement is not what it has to be, or nothing."""
    verdict = "INVALID" if shape.finds else "VALID"
    if measured["verdict"] != verdict or not set(shape.finds) <= measured["findings"].keys():
        return f"{measured['verdict']} with {measured['findings']}, {measured['inconclusive']}; it has to be {verdict}"
    if measured["judge_s"] > AIM_S or measured["resident_bytes"] > AIM_BYTES:
        return "an aim was missed"
    return ""


def main() -> int:
    """Make, judge, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.one_key", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kind", type=JoinKind, choices=list(JoinKind))
    parser.add_argument("--shape", choices=SHAPES)
    args = parser.parse_args()
    results, problems = {}, []
    for name, shape in SHAPES.items():
        for kind in shape.kinds:
            if args.shape not in (None, name) or args.kind not in (None, kind):
                continue
            measured = judged(name, kind, args.rows)
            seconds, megabytes = measured["judge_s"], round(measured["resident_bytes"] / 1e6)
            results[f"{name}, {kind}"] = {"judge_s": seconds, "mb": megabytes}
            out, why = measured["counts"]["output_records"], problem(shape, measured)
            say(f"{name}, {kind}: {seconds:.1f} s, {megabytes} MB, {out:,} rows out {why}")
            problems += [f"{name}, {kind}: {why}"] if why else []
    worst = {key: max(result[key] for result in results.values()) for key in ("judge_s", "mb")}
    print_result(
        {"bench": "one_key", "rows": args.rows, "worst": worst, "results": results, "problems": problems}
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
