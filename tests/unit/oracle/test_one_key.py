"""All rows have one key: the judgement takes its shortcuts, and says what it says without them."""

from __future__ import annotations

import random

import pytest

from bench._evidence import make_run
from bench.one_key import SHAPES, records
from tests.support.either_oracle import modelled
from tests.unit.oracle.test_any_contract import Drawn
from tidemark.campaigns.random_cases import generate_case, generate_contract
from tidemark.formats.contract import JoinKind
from tidemark.oracle import judge
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.input.history import Disposition, read_history

ROWS = 400
"""More of one key in a batch than are taken out of the state one by one."""


@pytest.mark.not_smoke
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, shape in SHAPES.items() for kind in shape.kinds]
)
def test_a_shape_of_the_bench_gives_its_verdict(name, kind, tmp_path):
    shape = SHAPES[name]
    run = make_run(tmp_path, shape.contract(kind), records(shape, ROWS), shape.change)

    verdict = judge(run)

    assert verdict.verdict == ("INVALID" if shape.finds else "VALID")
    assert set(shape.finds) <= verdict.findings_total.keys()
    assert verdict.counts["rows_in"] >= ROWS - 2


def test_a_left_semi_join_with_one_time_gives_each_left_row_once(tmp_path):
    shape = SHAPES["all at one time"]
    run = make_run(tmp_path, shape.contract(JoinKind.LEFT_SEMI), records(shape, ROWS))

    verdict = judge(run)

    assert verdict.counts["semi_rows"] == ROWS // 2
    assert verdict.counts["output_records"] == ROWS // 2


def test_the_known_defect_loses_all_left_rows_of_its_batch(tmp_path):
    shape = SHAPES["lost by the known defect"]
    run = make_run(tmp_path, shape.contract(JoinKind.LEFT_SEMI), records(shape, ROWS))

    verdict = judge(run)

    assert verdict.defects_total == {"left-semi-loses-same-batch-rows": ROWS // 2}


def histories(kind: JoinKind, count: int):
    """Random small histories of one kind of join."""
    seed = found = 0
    while found < count:
        seed += 1
        rng = random.Random(f"one key {seed}")
        drawn = generate_contract(rng, "drawn")
        if drawn.kind is kind:
            found += 1
            yield read_history(Drawn(generate_case(rng, drawn), set()))


@pytest.mark.parametrize("kind", JoinKind)
def test_partners_match_as_they_are_listed(kind):
    matches = 0
    for history in histories(kind, 40):
        partners, rows = Partners(history), history.rows
        lefts, rights = ([row for row in range(len(rows)) if rows.side[row] == side] for side in (0, 1))
        for left in lefts:
            listed = set(partners.of(left))
            assert {right for right in rights if partners.match(left, right)} == listed
            assert list(partners.each(left)) == partners.of(left)
            matches += len(listed)

    assert matches > 100


def test_whether_a_row_has_a_partner_is_said_as_they_are_listed():
    said = set()
    for history in histories(JoinKind.LEFT_SEMI, 150):
        dispositions, rows = modelled(history).disposition, history.rows
        partners = Partners(history)
        for row in range(len(rows)):
            for disposition in (Disposition.ACCEPTED, Disposition.LATE):
                is_so = any(dispositions[other] == disposition for other in partners.of(row))
                assert partners.has(row, disposition, dispositions) == is_so
                said.add((disposition, is_so))

    assert len(said) == 4
