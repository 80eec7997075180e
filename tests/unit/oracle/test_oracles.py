"""The model is right: against a naive transcription of its rules, and against SQL, on random histories."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from tests.support.either_oracle import modelled
from tests.support.tiers import every_day
from tests.unit.oracle.disagreements import disagreements
from tests.unit.oracle.histories import LEFT_TOPIC, RIGHT_TOPIC, Run
from tidemark.formats.contract import Bound, WatermarkPolicy
from tidemark.oracle.expectation import defects_of
from tidemark.oracle.input.history import Disposition, History, first_of, read_history, right_of
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.known_defects import FULL_OUTER_JOINS_NULL_KEYS, LEFT_SEMI_LOSES_SAME_BATCH_ROWS
from tidemark.oracle.sql.join_answer import ask

pytestmark = [pytest.mark.not_smoke]

KINDS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
BOUNDS = (
    Bound(-5000, 0),
    Bound(-3000, 4000),
    Bound(-3000, 4000, lower_strict=True, upper_strict=True),
    Bound(0, 3600, upper_strict=True),
    Bound(1000, 6000),
    Bound(-6000, -1000, lower_strict=True),
    Bound(0, 0),
    Bound(-4000, None),
    Bound(None, 2000, upper_strict=True),
    Bound(None, None),
)
HISTORIES_PER_SEED = 50


def random_run(rng: random.Random) -> Run:
    """A run of up to nine small batches: late rows, NULL keys, garbage, idle sides and batches run again.

    A *busy* one is a backlog: each side has rows in each batch, so the late watermark lags behind the
    eviction watermark, and many keys, so that a row has few partners.
    """
    busy = rng.random() < 0.4
    run = Run(
        rng.choice(KINDS),
        delays_s=(rng.choice((0, 0, 2)), rng.choice((0, 0, 3))),
        bound=rng.choice(BOUNDS),
        policy=rng.choice(list(WatermarkPolicy)),
    )
    now = 0.0
    for _ in range(rng.randint(2, 9)):
        now += rng.choice((2, 4, 8) if busy else (0, 1, 3, 8))
        behind = rng.choice((0, 0, 0, 2, 4, 7))  # a batch may be all from the past: late, or just not late
        keys = "abcdefg" if busy else "aaab-"
        sides = [
            ", ".join(
                random_row(rng, now - behind, keys)
                for _ in range(rng.choice((1, 2, 4) if busy else (0, 0, 1, 2, 4)))
            )
            for _topic in (LEFT_TOPIC, RIGHT_TOPIC)
        ]
        run.batch(*sides, runs=1 if busy else rng.choice((1, 1, 1, 1, 2)))
    run = run.flush() if rng.random() < 0.7 else run
    run.versions = {"spark": rng.choice(("4.0.5", "4.2.0"))}
    return run


def random_row(rng: random.Random, around: float, keys: str) -> str:
    """An event around a time, a few of them far away or at odd microseconds, or no event at all."""
    seconds = max(
        0, around + rng.choice((-9, -4, -3, -2, -1, 0, 0, 0, 0, 1, 2)) + rng.choice((0, 0, 0.001, 0.0005))
    )
    return "garbage" if rng.random() < 0.03 else f"n {rng.choice(keys)} {seconds:.6f}"


def oracles(run: Run) -> tuple[History, Prediction]:
    history = read_history(run)
    return history, modelled(history)


def model_does_what_the_naive_one_does(run: Run) -> None:
    naive = run.naive()
    history, prediction = oracles(run)
    rows = history.rows

    def parts(one: int) -> list[int]:
        """Left and right offset, -1 for NULL."""
        found = [-1, -1]
        for row in (first_of(one), right_of(one)):
            if row is not None:
                found[history.rows.side[row]] = history.position(row)[1]
        return found

    emitted = sorted((*parts(one), batch) for one, batch in prediction.batch_of.items())
    assert emitted == sorted(
        (-1 if left is None else left, -1 if right is None else right, batch)
        for left, right, batch in naive.out
    )
    assert prediction.watermarks_ms == naive.watermarks_ms
    late = sorted(
        (rows.side[row], history.position(row)[1])
        for row in range(len(rows))
        if prediction.disposition[row] == Disposition.LATE
    )
    assert late == sorted((row.side == "R", row.number) for row in naive.late)


def sql_agrees_with_the_model(run: Run) -> None:
    assert disagreements(read_history(run)) == [], json.dumps(run.rows)


@pytest.mark.parametrize("check", [model_does_what_the_naive_one_does, sql_agrees_with_the_model])
@pytest.mark.parametrize("seed", every_day(range(8), range(4)))
def test_random_histories(check: Callable[[Run], None], seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(HISTORIES_PER_SEED):
        check(random_run(rng))


@pytest.mark.parametrize(
    ("kind", "defect"),
    [("left_semi", LEFT_SEMI_LOSES_SAME_BATCH_ROWS), ("full_outer", FULL_OUTER_JOINS_NULL_KEYS)],
)
def test_the_random_histories_show_the_known_defects(kind: str, defect: str) -> None:
    rng, found = random.Random(5), set()
    for _ in range(600):
        run = random_run(rng)
        if run.contract.kind == kind:
            found |= set(defects_of(ask(read_history(run))).lost.values())
    assert found == {defect}
