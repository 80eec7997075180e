"""What Spark says of itself: its state and its metrics, each damage by its name, and where the state was."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import msgspec
import pytest

from tests.unit.oracle.histories import LEFT_TOPIC, RIGHT_TOPIC, Run
from tests.unit.oracle.naive import PRESERVED, Naive, Row
from tests.unit.oracle.test_oracles import random_run
from tidemark.formats.evidence import ExecutorAssignment, StateKey, StateRow
from tidemark.formats.manifest import StateInfo
from tidemark.oracle.compare.state_locality import Locality
from tidemark.oracle.findings import EXAMPLES_KEPT

KINDS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
ENGINE = {"lost_state", "leaked_state", "wrong_flags", "wrong_counts", "wrong_metrics"}
NAMES: dict[str, Literal["left", "right"]] = {"L": "left", "R": "right"}


def with_engine(run: Run, *, form: int = 2, spark: str = "4.2.0") -> Run:
    """The run, with the state after each batch and the reports that the naive model gives."""
    run.versions = {"spark": spark}
    run.info = StateInfo(
        format=form, provider="HDFSBackedStateStoreProvider", batches=list(range(len(run.plans)))
    )
    naive = run.naive()
    run.kept = [state_row(batch, row) for batch, rows in enumerate(naive.kept) for row in rows]
    run.state_counts = list(counts_of(naive, form))
    run.reports = [report(naive, batch, form, spark) for batch in range(len(run.plans))]
    return run


def state_row(batch: int, row: Row) -> StateRow:
    return StateRow(
        batch=batch, side="left" if row.side == "L" else "right", key=(row.key,), time_us=row.us,
        ref=(0, row.number), matched=row.matched,
    )  # fmt: skip


def counts_of(naive: Naive, form: int) -> Iterator[StateKey]:
    """Of each key, or each key and time, how many rows it has."""
    for batch, rows in enumerate(naive.kept):
        times: defaultdict[tuple[Any, ...], list[int | None]] = defaultdict(list)
        for row in rows:
            times[row.side, row.key, *((row.us or 0,) if form == 4 else ())].append(row.us)
        for (side, key, *_), found in times.items():
            time_us = found[0] if len(set(found)) == 1 else None
            yield StateKey(batch=batch, side=NAMES[side], key=(key,), time_us=time_us, count=len(found))


def report(naive: Naive, batch: int, form: int, spark: str) -> dict[str, Any]:
    counts, rows = naive.counts[batch], naive.kept[batch]
    silent = [side for side in "LR" if spark >= "4.3" or side not in PRESERVED.get(naive.kind, "")]
    join = {
        "operatorName": "symmetricHashJoin",
        "numRowsUpdated": counts["stored"],
        "numRowsRemoved": sum(counts[f"removed {side}"] for side in silent),
        "numRowsDroppedByWatermark": counts["dropped"],
        "numRowsTotal": len({(row.side, row.key, row.us or 0) for row in rows}) if form == 4 else len(rows),
        "allUpdatesTimeMs": 10 * batch, "allRemovalsTimeMs": 1, "commitTimeMs": 5,
    }  # fmt: skip
    return {"batchId": batch, "stateOperators": [join]}


def small(kind: str = "left_outer", **told: Any) -> Run:
    """A late row, a pair, an unmatched row on each side, a row that is there twice, and an eviction."""
    run = Run(kind).batch("i1 a 10, i2 b 11, i2 b 11", "c1 a 12, c2 z 11").batch("i3 c 20", "c3 c 21")
    return with_engine(run.batch("i4 a 9", "c4 y 30").batch(), **told)


def found(run: Run) -> dict[str, int]:
    return {name: total for name, total in run.findings().items() if name in ENGINE}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [2, 4])
@pytest.mark.parametrize("spark", ["4.1.4", "4.2.0", "4.3.0"])
def test_what_the_rules_give_is_right(kind: str, form: int, spark: str) -> None:
    run = small(kind, form=form, spark=spark)
    verdict = run.verdict()

    assert not ENGINE & set(verdict.findings_total), verdict.findings
    assert verdict.spark_account is not None
    assert (verdict.spark_account.state_batches, verdict.spark_account.metric_batches) == ([0, 1, 2, 3], 4)
    assert sum(len(rows) for rows in run.naive().kept) > 4
    assert run.naive().counts[2]["dropped"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [2, 4])
def test_a_row_without_a_time_stays_unless_the_state_is_ordered_by_time(kind: str, form: int) -> None:
    """There it is kept as if its time were the epoch, and leaves as soon as the state watermark is past that."""
    run = Run(kind)
    sides = run.contract.left, run.contract.right
    left, right = (replace(side, keeps_null_event_time=True) for side in sides)
    run.contract = replace(run.contract, left=left, right=right)
    run.batch("i1 a -, i2 a 0.001, i3 b 2", "c1 a -, c2 z 2").batch("i4 b 3", "c3 b 3").batch().batch(
        "i5 c 9", "c4 c 9"
    )
    run = with_engine(run.batch().batch("i6 c 20", "c5 c 20").batch(), form=form)
    naive = run.naive()
    for left_row, right_row, batch in naive.out:
        run.out(batch, named(run, left_row, right_row))
    verdict = run.verdict()

    assert found(run) == {}
    lost = {finding.message for finding in verdict.findings if finding.property == "missing_nulls"}
    assert len(lost) == (len(PRESERVED.get(kind, "")) if form == 2 else 0)
    assert set(verdict.findings_total) <= {"missing_nulls"}, verdict.findings


def named(run: Run, left: int | None, right: int | None) -> str:
    """An output row of the naive model, by the ids of its input rows."""
    ids = (
        "-" if n is None else run.rows[topic][n].split()[0]
        for topic, n in ((LEFT_TOPIC, left), (RIGHT_TOPIC, right))
    )
    return next(iter(ids)) if run.contract.kind == "left_semi" else " ".join(ids)


@pytest.mark.parametrize("seed", range(4))
def test_no_random_run_raises_an_alarm(seed: int) -> None:
    rng = random.Random(seed)
    kept = 0
    for _ in range(20):
        run = with_engine(
            random_run(rng), form=rng.choice((2, 3, 4)), spark=rng.choice(("4.0.5", "4.2.0", "4.3.0"))
        )
        verdict = run.verdict()
        assert not ENGINE & set(verdict.findings_total), verdict.findings
        assert not [reason for reason in verdict.inconclusive if "could not be judged" in reason]
        kept += len(run.kept or ())
    assert kept > 0


def drop(run: Run, batch: int, side: str) -> Run:
    assert run.kept is not None
    at = next(n for n, row in enumerate(run.kept) if (row.batch, row.side) == (batch, side))
    del run.kept[at]
    return run


def keep(run: Run, **row: Any) -> Run:
    assert run.kept is not None
    run.kept.append(StateRow(**row))
    return run


def change(run: Run, batch: int, side: str, **changes: Any) -> Run:
    assert run.kept is not None
    at = next(n for n, row in enumerate(run.kept) if (row.batch, row.side) == (batch, side))
    run.kept[at] = msgspec.structs.replace(run.kept[at], **changes)
    return run


def count(run: Run, batch: int, name: str, more: int) -> Run:
    run.reports[batch]["stateOperators"][0][name] += more
    return run


def counted(run: Run, batch: int, side: str, more: int) -> Run:
    """With another count of the first key; without it if that is none."""
    counts = run.state_counts
    assert counts is not None
    at = next(n for n, key in enumerate(counts) if (key.batch, key.side) == (batch, side))
    count = counts[at].count + more
    counts[at : at + 1] = [msgspec.structs.replace(counts[at], count=count)] if count else []
    return run


def counted_too(run: Run, **key: Any) -> Run:
    assert run.state_counts is not None
    run.state_counts.append(StateKey(**key))
    return run


I1 = {"side": "left", "key": ("a",), "time_us": 10_000_000, "ref": (0, 0), "matched": True}
DAMAGE: dict[str, tuple[set[str], Callable[[], Run]]] = {
    "a left row missing": ({"lost_state"}, lambda: drop(small(), 0, "left")),
    "a right row missing": ({"lost_state"}, lambda: drop(small(), 1, "right")),
    "the state lost": ({"lost_state"}, lambda: empty(small())),
    "an evicted row kept": ({"leaked_state"}, lambda: keep(small(), batch=3, **I1)),
    "a late row stored": (
        {"leaked_state"},
        lambda: keep(small(), batch=2, side="left", key=("a",), time_us=9_000_000, ref=(0, 4), matched=False),
    ),
    "a row that nobody wrote": (
        {"leaked_state"},
        lambda: keep(small(), batch=2, side="right", key=("q",), time_us=9, ref=(0, 77), matched=False),
    ),
    "a row twice": ({"leaked_state"}, lambda: keep(small(), batch=0, **I1)),
    "a row under another key": (
        {"leaked_state", "lost_state"},
        lambda: change(small(), 0, "left", key=("b",)),
    ),
    "a row at another time": ({"leaked_state", "lost_state"}, lambda: change(small(), 0, "left", time_us=1)),
    "a row of another record": (
        {"leaked_state", "lost_state"},
        lambda: change(small(), 0, "left", ref=(0, 3)),
    ),
    "a matched row unmarked": ({"wrong_flags"}, lambda: change(small(), 0, "left", matched=False)),
    "an unmatched row marked": ({"wrong_flags"}, lambda: change(marked(), 0, "left", matched=True)),
    "a count too high": ({"wrong_counts"}, lambda: counted(small(), 0, "left", 1)),
    "a key without a count": ({"wrong_counts"}, lambda: counted(small(), 0, "left", -1)),
    "a key that is gone counted": (
        {"wrong_counts"},
        lambda: counted_too(small(), batch=3, side="left", key=("a",), count=1),
    ),
    "a key without a name counted": (
        {"wrong_counts"},
        lambda: counted_too(small(), batch=3, side="right", count=2),
    ),
    "no entry in the order of times": ({"wrong_counts"}, lambda: counted(small(form=4), 0, "right", -1)),
    "an entry twice in the order of times": ({"wrong_counts"}, lambda: counted(small(form=4), 0, "left", 1)),
    "an entry of a time that is gone": (
        {"wrong_counts"},
        lambda: counted_too(small(form=4), batch=3, side="left", key=("a",), time_us=10_000_000, count=1),
    ),
    "a right row unmarked": (
        {"wrong_flags"},
        lambda: change(small("right_outer"), 0, "right", matched=False),
    ),
    **{
        f"{name} {more:+}": ({"wrong_metrics"}, lambda name=name, more=more: count(small(), 1, name, more))  # type: ignore[misc]
        for name in ("numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark", "numRowsTotal")
        for more in (1, -1)
    },
}


def empty(run: Run) -> Run:
    run.kept, run.state_counts = [], []
    return run


def marked() -> Run:
    """A run whose first left row is unmatched."""
    return with_engine(Run("left_outer").batch("i2 b 11, i1 a 10", "c1 a 12").batch("i3 c 20", "c3 c 21"))


@pytest.mark.parametrize("name", DAMAGE)
def test_each_damage_is_found_by_its_name(name: str) -> None:
    killed_by, damaged = DAMAGE[name]
    assert set(found(damaged())) == killed_by


def test_a_finding_says_who_says_what_and_why() -> None:
    [leak] = [finding for finding in keep(small(), batch=3, **I1).verdict().findings if finding.batch == 3]

    assert leak.property == "leaked_state"
    assert "Spark's state after batch 3 has i1 (impressions/0/0, key a" in leak.message
    assert leak.message.endswith("Spark's rules do not: it was stored in batch 0 and removed in batch 2")
    assert leak.written == ["impressions/0/0"]


def test_many_findings_of_one_property_hide_no_details_of_another() -> None:
    many = EXAMPLES_KEPT + 1
    rows = ", ".join(f"i{n} a 10" for n in range(many + 1))
    run = with_engine(Run("left_outer").batch(rows, "c1 z 11").batch("i99 c 11", "c2 c 11", out="i99 c2"))
    run.kept = [row for row in run.kept or () if (row.batch, row.ref) != (1, (0, many))]
    for offset in range(many):
        keep(run, batch=1, side="left", key=("q",), time_us=offset, ref=(0, 500 + offset), matched=False)
    verdict = run.verdict()

    assert verdict.findings_total == {"lost_state": 1, "leaked_state": many}
    [lost] = [finding for finding in verdict.findings if finding.property == "lost_state"]
    assert f"the state after batch 1 has i{many} (impressions/0/{many}, key a" in lost.message
    assert lost.written == [f"impressions/0/{many}"]


def test_a_flag_is_not_looked_at_where_no_null_row_depends_on_it() -> None:
    assert found(change(small("inner"), 0, "left", matched=False)) == {}
    assert found(change(small(), 0, "right", matched=False)) == {}


def test_what_the_state_does_not_have_is_not_compared() -> None:
    run = small()
    run.kept = [msgspec.structs.replace(row, ref=None, key=None, matched=None) for row in run.kept or ()]
    assert found(run) == {}
    assert found(drop(run, 0, "left")) == {"lost_state": 1}
    account = run.verdict().spark_account
    assert account is not None
    assert account.count_batches == []
    assert [note for note in account.notes if note.startswith("the counts of the keys")] == [
        f"the counts of the keys of the {side} side after batches 0, 1, 2, 3 were not compared: its rows have no key"
        " by the names of the contract"
        for side in ("left", "right")
    ]


@pytest.mark.parametrize("plan", [{"runs": 2, "restarted": True}, {"failed_tasks": 1}])
def test_metrics_of_a_batch_whose_tasks_ran_again_are_not_compared(plan: dict[str, Any]) -> None:
    run = with_engine(Run("inner").batch("i1 a 10", "c1 a 12", **plan).batch("i3 c 20", "c3 c 21"))
    assert found(count(run, 0, "numRowsUpdated", 2)) == {}
    assert found(count(run, 1, "numRowsUpdated", 2)) == {"wrong_metrics": 1}


def test_a_batch_that_was_not_committed_owes_no_state() -> None:
    run = with_engine(Run("inner").batch("i1 a 10", "c1 a 12").batch("i3 c 20", "c3 c 21", committed=False))
    run.kept = [row for row in run.kept or () if row.batch == 0]
    assert found(run) == {}


@pytest.mark.parametrize("kind", ["left_outer", "full_outer"])
@pytest.mark.parametrize("spark", ["4.2.0", "4.3.0"])
@pytest.mark.parametrize("versions", [{}, {"spark": "unheard of"}])
def test_metrics_of_a_version_that_nobody_names_raise_no_alarm(
    kind: str, spark: str, versions: dict[str, str]
) -> None:
    run = with_engine(small(kind), spark=spark)
    run.versions = versions
    assert found(run) == {}


def test_before_4_2_a_left_semi_join_keeps_what_it_emitted() -> None:
    run = Run("left_semi").batch("i1 a 10", "").batch("", "c1 a 12").batch("i9 x 11", "c9 y 11")
    kept = {spark: with_engine(run, spark=spark).naive().kept[1] for spark in ("4.1.4", "4.2.0")}

    assert [len(rows) for rows in kept.values()] == [2, 1]
    assert found(with_engine(run, spark="4.1.4")) == {}
    assert found(with_engine(run, spark="4.2.0")) == {}
    run.versions = {"spark": "4.1.4"}
    assert found(run) == {"lost_state": 2, "wrong_metrics": 3}


def test_without_evidence_of_the_engine_nothing_is_doubted() -> None:
    verdict = Run("inner").batch("i1 a 10", "c1 a 12", out="i1 c1").flush().verdict()
    assert (verdict.verdict, verdict.inconclusive) == ("VALID", [])
    assert verdict.spark_account is not None
    assert len(verdict.spark_account.notes) == 2


@pytest.mark.parametrize(
    "info",
    [StateInfo(format=2, batches=[0], problem="it is gone"), StateInfo(format=2, asked_format=4)],
    ids=["unreadable", "another format"],
)
def test_a_state_that_is_not_what_was_asked_for_makes_it_unknown(info: StateInfo) -> None:
    run = Run("inner").batch("i1 a 10", "c1 a 12", out="i1 c1").flush()
    run.info = info
    verdict = run.verdict()
    assert verdict.verdict == "UNKNOWN"
    assert len(verdict.inconclusive) == 1


def test_a_query_without_the_state_of_one_join_is_not_doubted() -> None:
    run = Run("inner").batch("i1 a 10", "c1 a 12", out="i1 c1").flush()
    run.info = StateInfo(format=2, note="the query has 2 joins with a state")
    verdict = run.verdict()
    assert verdict.verdict == "VALID"
    assert verdict.spark_account is not None
    assert "the state was not read: the query has 2 joins with a state" in verdict.spark_account.notes


def test_times_are_the_least_the_median_and_the_most_and_rows_are_summed() -> None:
    spark_account = small().verdict().spark_account
    assert spark_account is not None
    assert spark_account.times_ms == {"updates": (0, 15, 30), "removals": (1, 1, 1), "commits": (5, 5, 5)}
    assert spark_account.rows["stored"] == sum(counts["stored"] for counts in small().naive().counts)


def test_a_partition_that_moved_is_told_with_its_executors() -> None:
    run = small()
    where = [{"0": "1", "1": "0"}, {"0": "1", "1": "0"}, {"0": "2", "1": "0"}, {"0": "2:0", "1": "2:1"}]
    run.placed = [
        ExecutorAssignment(batch=batch, executors=executors) for batch, executors in enumerate(where)
    ]
    run.placed[1].lost.append("1")

    assert run.verdict().spark_account.locality == Locality(  # type: ignore[union-attr]
        stayed=3,
        moved=1,
        moves=["batch 2: 0 from executor 1 to 2, executor 1 was gone"],
        restarts=["batch 3: 0 on executor 2:0, 1 on executor 2:1"],
    )
