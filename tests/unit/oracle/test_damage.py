"""Random runs whose output is the naive model's have nothing wrong with them; with one record changed, they have."""

from __future__ import annotations

import json
import random

import pytest

from tests.unit.oracle.histories import QUERY, Run
from tests.unit.oracle.test_oracles import random_run
from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.spark.known_defects import KNOWN_DEFECTS

RUNS_PER_SEED = 20
CAUGHT_AS = {
    "removed": {"lost_rows", "missing_nulls"},
    "doubled": {"duplicate_rows", "repeated_semi_rows"},
    "moved ahead": {"premature_nulls", "misplaced_rows"},
    "moved behind": {"misplaced_rows"},
    "of the next row": {"corrupt_rows", "phantom_rows"},
}


def with_output(run: Run) -> Run:
    """The run, with every row that it owes."""
    semi = run.contract.kind == "left_semi"
    for number, (left, right, batch) in enumerate(run.naive().out):
        value = {"iid": name(run, 0, left), "ip": None if left is None else 0, "io": left}
        if not semi:
            value |= {"cid": name(run, 1, right), "cp": None if right is None else 0, "co": right}
        headers = [("query", QUERY), ("batch", str(batch)), ("partition", "0"), ("attempt", "0")]
        run.records.append(OutputRecord(partition=0, offset=number, value=json.dumps(value), headers=headers))
    return run


def name(run: Run, side: int, number: int | None) -> str | None:
    rows = list(run.rows.values())[side]
    return rows[number].split()[0] if number is not None else None


def damaged(run: Run, how: str, at: int) -> Run:
    record = run.records[at]
    batch = int(dict(record.headers)["batch"] or 0)
    value = json.loads(record.value or "")
    if how == "removed":
        del run.records[at]
        return run
    if how == "doubled":
        run.records.append(record)
        return run
    if how == "of the next row":
        value["co" if value["io"] is None else "io"] += 1000
    else:
        batch += 1 if how == "moved behind" else -1
    headers = [("query", QUERY), ("batch", str(batch))]
    run.records[at] = OutputRecord(partition=0, offset=at, value=json.dumps(value), headers=headers)
    return run


@pytest.mark.parametrize("seed", range(4))
def test_what_the_rules_give_is_right(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(RUNS_PER_SEED):
        verdict = with_output(random_run(rng)).verdict()
        assert {finding.defect for finding in verdict.findings} <= set(KNOWN_DEFECTS)
        assert not [reason for reason in verdict.inconclusive if "could not be judged" in reason]


@pytest.mark.parametrize("how", CAUGHT_AS)
def test_one_record_changed_is_one_kind_of_finding(how: str) -> None:
    rng = random.Random(how)
    tried = 0
    while tried < RUNS_PER_SEED:
        run = with_output(random_run(rng))
        at = rng.randrange(len(run.records)) if run.records else 0
        ends = [plan.end_offsets["impressions"]["0"] for plan in run.plans]
        if not run.records or any(plan.runs > 1 for plan in run.plans):
            continue  # a batch that was run again permits a repeat
        if how == "moved ahead" and dict(run.records[at].headers)["batch"] == "0":
            continue
        assert ends == sorted(ends)
        before = run.findings()
        if "phantom_rows" in before:
            continue  # rows with NULL keys were joined: what is wrong already cannot be spoiled
        after = damaged(run, how, at).findings()
        new = {found for found, total in after.items() if total != before.get(found, 0)}
        assert new & CAUGHT_AS[how], (after, run.rows)
        assert new <= CAUGHT_AS[how] | ({"lost_rows", "missing_nulls"} if how == "of the next row" else set())
        tried += 1
