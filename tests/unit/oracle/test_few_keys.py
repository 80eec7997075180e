"""Random histories of one or two keys: what looks for partners finds those that each pair, looked at, gives."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from tests.support.either_oracle import modelled
from tests.support.tiers import every_day
from tests.unit.oracle.disagreements import disagreements
from tests.unit.oracle.histories import Run
from tests.unit.oracle.literal import Literal
from tests.unit.oracle.test_any_contract import Drawn
from tidemark.campaigns.case import Case
from tidemark.campaigns.random_cases import BOUNDS, flush_of, generate_records, make_contract
from tidemark.formats.contract import PRESERVED, Bound, JoinKind, Term
from tidemark.formats.trace import Record
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.expectation import defects_of
from tidemark.oracle.input.history import Disposition, History, alone, first_of, read_history, right_of
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT, US_PER_MS, state_ms
from tidemark.oracle.sql.join_answer import ask

pytestmark = [pytest.mark.not_smoke]

PAIRED = [kind for kind in JoinKind if kind is not JoinKind.LEFT_SEMI]
CONDITIONS = ((), (Term("<", left="n", right="n"),), (Term("!=", left="n", right="n"),))
HISTORIES = 16


def runs(kind: JoinKind) -> Iterator[Drawn]:
    """Runs of one kind of join, with and without a condition on pairs; each side has up to 60 rows."""
    for seed in range(HISTORIES):
        rng = random.Random(f"few keys {seed}")
        contract = make_contract("few keys", kind, rng.choice(BOUNDS[kind]))
        left, right = (
            replace(one, watermark_delay_ms=rng.choice((0, 500))) for one in (contract.left, contract.right)
        )
        contract = replace(contract, left=left, right=right, condition=rng.choice(CONDITIONS))
        records = generate_records(rng, contract, slices=rng.randint(2, 5), rows=(4, 12))
        keys = rng.choice(("a", "ab"))
        case = Case(
            "few keys", contract, tuple(of_keys(rng, keys, one) for one in records), flush_of(contract)
        )
        form = rng.choice((2, 4))
        yield Drawn(
            case, restarts=set(), form=form, spark=rng.choice(("4.1.4", "4.2.0")) if form == 2 else "4.2.0"
        )


def of_keys(rng: random.Random, keys: str, record: Record) -> Record:
    """A record with one of these keys; a NULL key stays."""
    if not (record.value or "").startswith("{"):
        return record
    value = json.loads(record.value or "")
    new = {name: rng.choice(keys) for name, key in value.items() if name.startswith("k") and key is not None}
    return msgspec.structs.replace(record, value=json.dumps(value | new))


def make_popular(monkeypatch: pytest.MonkeyPatch, popular: int) -> None:
    """Let keys with more right rows than this be popular, as in a run that is not small."""
    monkeypatch.setattr("tidemark.oracle.sql.join_answer.FEW_ROWS", 0)
    monkeypatch.setattr("tidemark.oracle.sql.join_answer.POPULAR", popular)


def replayed(run: Drawn | Run) -> tuple[History, Prediction]:
    history = read_history(run)  # type: ignore[arg-type]
    return history, modelled(history)


def accepted_pairs(run: Drawn, history: History, prediction: Prediction) -> set[tuple[int, int]]:
    """All accepted left and right rows that match, by looking at each pair; a NULL key matches nothing."""
    literal, rows = Literal(json.loads(json.dumps(run.manifest.contract))), history.rows
    sides: tuple[dict[int, dict], dict[int, dict]] = ({}, {})
    values = {(one.topic, one.offset): one.value for one in run.inputs()}
    for row in range(len(rows)):
        if prediction.disposition[row] == Disposition.ACCEPTED and rows.key[row] >= 0:
            side, offset = rows.side[row], history.position(row)[1]
            value = literal.row("LR"[side], offset, values[history.side(side).topic, offset])
            sides[side][row] = value
    return {
        (left, right) for left, one in sides[LEFT].items()
        for right, other in sides[RIGHT].items() if literal.match(one, other)
    }  # fmt: skip


@pytest.mark.parametrize("kind", JoinKind)
def test_the_model_gives_what_the_rules_say(kind, monkeypatch):
    emitted = 0
    for run in runs(kind):
        history, prediction = replayed(run)

        said = sorted((*offsets(history, one), batch) for one, batch in prediction.batch_of.items())

        assert said == sorted((-1 if left is None else left, -1 if right is None else right, batch)
                              for left, right, batch in run.literal.out)  # fmt: skip
        emitted += len(said)
    assert emitted > 120


def offsets(history: History, identity: int) -> tuple[int, int]:
    """The offsets of the left and of the right row of an output row, -1 for NULL."""
    found = [-1, -1]
    for row in (first_of(identity), right_of(identity)):
        if row is not None:
            found[history.rows.side[row]] = history.position(row)[1]
    return found[LEFT], found[RIGHT]


@pytest.mark.parametrize("popular", [0, 8])
def test_sql_gives_the_left_rows_that_have_a_partner(popular, monkeypatch):
    make_popular(monkeypatch, popular)
    found_lost = 0
    for run in runs(JoinKind.LEFT_SEMI):
        history, prediction = replayed(run)
        pairs = accepted_pairs(run, history, prediction)
        answer = ask(history)

        assert sorted(answer.identity[answer.is_right].tolist()) == sorted({alone(left) for left, _ in pairs})
        assert disagreements(history, answer) == []

        lost = defects_of(answer).lost
        for left in (row for row in range(len(history.rows)) if not history.rows.side[row]):
            rights = [right for one, right in pairs if one == left]
            assert (alone(left) in lost) == is_lost(history, prediction, left, rights)
        found_lost += len(lost)
    assert found_lost > 0


def is_lost(history: History, prediction: Prediction, left: int, rights: list[int]) -> bool:
    """Whether all partners of a left row are of its batch, and evictable there."""
    rows, limits_ms = history.rows, history.pushdown.limits_ms[RIGHT]
    limit_ms = state_ms(history.contract, RIGHT, prediction.watermarks_ms[rows.batch[left]], limits_ms)
    return bool(rights) and limit_ms is not None and all(
        rows.batch[right] == rows.batch[left] and rows.time_us[right] <= limit_ms * US_PER_MS for right in rights
    )  # fmt: skip


@pytest.mark.parametrize("popular", [0, 8])
@pytest.mark.parametrize("kind", every_day(PAIRED, (JoinKind.INNER, JoinKind.FULL_OUTER)))
def test_sql_gives_each_pair_once_however_popular_its_key_is(kind, popular, monkeypatch):
    make_popular(monkeypatch, popular)
    found = 0
    for run in runs(kind):
        history, prediction = replayed(run)
        pairs = accepted_pairs(run, history, prediction)

        answer = ask(history)
        said = answer.identity[answer.is_right].tolist()

        assert disagreements(history, answer) == []
        assert len(said) == len(set(said))
        matched = {row for pair in pairs for row in pair}
        assert {(first_of(one), right_of(one)) for one in said if right_of(one) is not None} == pairs
        assert not matched & {first_of(one) for one in said if right_of(one) is None}
        found += len(pairs)
    assert found > 200


@pytest.mark.parametrize("bound", [Bound(-4_000, None), Bound(None, 4_000), Bound(-4_000, 4_000)])
@pytest.mark.parametrize("kind", PRESERVED)
def test_a_row_without_a_time_matches_nothing_though_an_end_is_open(kind, bound):
    run = Run(kind, bound=bound)
    sides = (replace(one, keeps_null_event_time=True) for one in (run.contract.left, run.contract.right))
    run.contract = replace(run.contract, **dict(zip(("left", "right"), sides, strict=True)))
    run.batch("i1 a -, i2 a 5", "c1 a -, c2 a 6").batch("i3 a -, i4 a 7", "c3 a 8").flush()

    history, prediction = replayed(run)
    partners = Partners(history)

    emitted = sorted((*offsets(history, one), batch) for one, batch in prediction.batch_of.items())
    assert emitted == sorted((-1 if left is None else left, -1 if right is None else right, batch)
                             for left, right, batch in run.naive().out)  # fmt: skip
    for row, time_us in enumerate(history.rows.time_us):
        if time_us == NULL_TIME_US:
            assert partners.of(row) == []
            assert not partners.has(row, Disposition.ACCEPTED, prediction.disposition)
            assert not prediction.matched[row]
        elif not history.is_sentinel(row):
            assert partners.of(row)
