"""In each partition of the output the rows of a batch come after those of the batches before; copies may come later."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from tests.unit.oracle.chain_runs import ChainRun
from tests.unit.oracle.histories import Run
from tests.unit.oracle.test_chains import ONCE
from tidemark.formats.contract import Delivery, Output
from tidemark.oracle.compare.batch_order import RightRow, misordered, place_of, written


def two_batches(*out: tuple[int, str], **plan: Any) -> Run:
    """Two batches with a pair or two each, and output rows in an order of their own."""
    run = Run("left_outer").batch("i1 a 10, i2 b 10", "c1 a 12, c2 b 12", **plan)
    run.batch("i3 c 14, i4 d 14", "c3 c 15, c4 d 15").flush()
    for batch, rows in out:
        run.out(batch, rows)
    return run


def at(run: Run, *places: tuple[int, int]) -> Run:
    """The output records at these partitions and offsets, in the order in which they are read."""
    run.records = [
        msgspec.structs.replace(record, partition=partition, offset=offset)
        for record, (partition, offset) in zip(run.records, places, strict=True)
    ]
    return run


def test_a_row_behind_a_row_of_a_later_batch_was_not_there_when_its_batch_was_committed() -> None:
    verdict = two_batches((0, "i1 c1"), (1, "i3 c3, i4 c4"), (0, "i2 c2")).verdict()

    assert verdict.findings_total == {"misordered_rows": 1}
    (found,) = verdict.findings
    assert (found.row, found.read, found.batch) == ({"iid": "i2", "cid": "c2"}, "0/3", 0)
    assert found.written == ["impressions/0/1", "clicks/0/1"]
    assert found.message.endswith("came after output 0/1 of batch 1: batch 0 had been committed without it")
    assert verdict.verdict == "INVALID"


def test_a_null_row_and_a_semi_row_are_rows_as_any_others() -> None:
    for order, found in (((1, 2), {}), ((2, 1), {"misordered_rows": 1})):
        run = Run("left_outer").batch("i1 a 10", "c9 z 11").batch("i3 c 40", "c3 c 41").batch().flush()
        for batch in order:
            run.out(batch, {1: "i3 c3", 2: "i1 -"}[batch])
        assert run.findings() == found
    semi = Run("left_semi").batch("i1 a 10", "c1 a 12").batch("i3 c 14", "c3 c 15").flush()
    assert semi.out(1, "i3").out(0, "i1").findings() == {"misordered_rows": 1}


def test_the_order_within_a_batch_is_free() -> None:
    assert two_batches((0, "i2 c2, i1 c1"), (1, "i4 c4, i3 c3")).findings() == {}


def test_each_partition_has_an_order_of_its_own() -> None:
    run = two_batches((1, "i3 c3, i4 c4"), (0, "i1 c1, i2 c2"))

    assert at(run, (1, 0), (1, 1), (0, 0), (0, 1)).findings() == {}
    assert at(run, (1, 0), (1, 1), (0, 0), (1, 2)).findings() == {"misordered_rows": 1}


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_copy_may_come_at_any_time_where_the_delivery_permits_it(delivery: Delivery) -> None:
    """An attempt that was given up, whose records are sent while the next batch runs."""
    run = two_batches((0, "i1 c1, i2 c2"), (1, "i3 c3, i4 c4"), (0, "i1 c1"), runs=2, restarted=True)
    run.delivery = delivery

    found = {} if delivery is Delivery.AT_LEAST_ONCE else {"duplicate_rows": 1}
    assert run.findings() == found


def test_a_row_is_in_order_if_one_of_its_copies_is_whichever_is_read_first() -> None:
    """Records without a key may come into any partition."""
    run = two_batches((1, "i3 c3, i4 c4"), (0, "i1 c1, i2 c2, i1 c1"), runs=2, restarted=True)

    assert at(run, (0, 0), (0, 1), (0, 2), (1, 0), (1, 1)).findings() == {}
    assert at(run, (0, 0), (0, 1), (0, 2), (1, 0), (0, 3)).findings() == {"misordered_rows": 1}


def test_a_row_in_another_batch_than_it_is_due_in_says_nothing_of_order() -> None:
    run = two_batches((1, "i1 c1"), (0, "i2 c2"), (1, "i3 c3, i4 c4"))
    assert run.findings() == {"misplaced_rows": 1}
    run = two_batches((1, "i3 c3, i4 c4"), (7, "i1 c1"), (0, "i2 c2"))
    assert run.findings() == {"misplaced_rows": 1, "misordered_rows": 1}


def test_a_row_of_sentinels_says_nothing_of_order() -> None:
    run = two_batches((3, "sentinel-i -"), (0, "i1 c1, i2 c2"), (1, "i3 c3, i4 c4"))

    assert run.findings() == {}


def test_of_rows_that_no_record_tells_apart_as_many_are_in_order_as_are_owed() -> None:
    """An event that was published twice, and an output that has only its id."""
    run = Run("left_outer", output=Output("iid", "cid", None, None))
    run.batch("i1 a 10, i1 a 10", "c1 a 12").batch("i3 c 14", "c3 c 15").flush()

    assert run.out(0, "i1 c1").out(1, "i3 c3").out(0, "i1 c1").findings() == {"misordered_rows": 1}


@pytest.mark.parametrize("read_first", [0, 1])
def test_of_such_rows_the_copies_of_a_given_up_attempt_may_come_late_whichever_are_read_first(
    read_first: int,
) -> None:
    run = Run("left_outer", output=Output("iid", "cid", None, None))
    run.batch("i1 a 10, i1 a 10", "c1 a 12", runs=2, restarted=True).batch("i3 c 14", "c3 c 15").flush()
    early, late = 1 - read_first, read_first
    run.out(1, "i3 c3").out(0, "i1 c1, i1 c1").out(0, "i1 c1, i1 c1")
    at(run, (late, 0), (early, 0), (early, 1), (late, 1), (late, 2))
    run.records.sort(key=lambda record: (record.partition, record.offset))

    assert run.findings() == {}


@pytest.mark.parametrize(
    ("order", "found"),
    [("0011", {}), ("0101", {"misordered_rows": 1}), ("1001", {"misordered_rows": 2})],
)
def test_the_rows_of_a_chain_have_the_same_order(order: str, found: dict[str, int]) -> None:
    run = ChainRun(ONCE).batch("i1 x 10, i2 y 10").batch("i3 z 11, i4 w 11", watermark=5)
    rows = {"0": ["i1 10", "i2 10"], "1": ["i3 11", "i4 11"]}
    for batch in order:
        run.out(int(batch), rows[batch].pop(0))

    assert run.judge().findings_total == found


def test_a_row_of_a_chain_that_is_owed_twice_is_in_order_if_two_of_its_records_are() -> None:
    same, other = RightRow("same", 0, 0), RightRow("other", 1, 0)

    def found(*records: RightRow) -> list[str]:
        numbered = [one._replace(place=place_of(0, number)) for number, one in enumerate(records)]
        behind = misordered(lambda: numbered, lambda row: 2 if row == "same" else 1)
        return [written(one.record.place) for one in behind]

    assert found(same, same, other, same) == []
    assert found(same, other, same, same) == ["0/2"]
    assert found(other, same, same, same) == ["0/1", "0/2"]


def literal(records: list[RightRow]) -> set[int]:
    """The places of rows each of whose copies is behind some row of a later batch in its partition."""
    late = {
        one.place
        for one in records
        if any(
            written(one.place).split("/")[0] == written(other.place).split("/")[0]
            and other.batch > one.batch and other.place < one.place
            for other in records
        )
    }  # fmt: skip
    in_order = {one.row for one in records if one.place not in late}
    return {one.place for one in records if one.place in late and one.row not in in_order}


@pytest.mark.parametrize("seed", range(30))
def test_it_is_what_comparing_all_records_with_each_other_gives(seed: int) -> None:
    rng = random.Random(seed)
    rows = {number: rng.randrange(5) for number in range(12)}
    records = [
        RightRow(row, rows[row], place_of(rng.randrange(2), offset))
        for offset, row in enumerate(rng.choice(list(rows)) for _ in range(rng.randrange(20)))
    ]
    wanted = literal(records)

    found = {one.record.place for one in misordered(lambda: records)}

    # Of several copies of one row, all behind, one is the finding.
    rows_of = {one.place: one.row for one in records}
    assert found <= wanted
    assert {rows_of[place] for place in found} == {rows_of[place] for place in wanted}
    assert len(found) == len({rows_of[place] for place in wanted})


def test_a_finding_names_the_first_row_of_a_later_batch() -> None:
    records = [RightRow(batch, batch, place_of(0, offset)) for offset, batch in enumerate((2, 3, 1, 0))]

    found = misordered(lambda: records)

    assert [(one.record.batch, written(one.behind), one.of) for one in found] == [
        (1, "0/0", 2),
        (0, "0/0", 2),
    ]


def test_first_places_of_rows_that_were_left_out_count() -> None:
    records = [RightRow("one", 0, place_of(0, 5))]

    assert misordered(lambda: records, known={(0, 1): place_of(0, 9)}) == []
    (found,) = misordered(lambda: records, known={(0, 1): place_of(0, 4)})
    assert (written(found.behind), found.of) == ("0/4", 1)
