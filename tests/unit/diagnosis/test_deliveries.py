"""Each kind of delivery is named on a small history: rows of a sound query that are missing, doubled or moved."""

from __future__ import annotations

import pytest

from tests.unit.diagnosis.other_deliveries import batch_of, delivered, in_batch


def names(found):
    return [" + ".join(one.changes) for one in found.explanations]


def batch_with_tasks(records):
    """The first batch to which both tasks wrote three rows or more."""
    for batch in sorted({batch_of(one) for one in records}):
        tasks = [one.header("partition") for one in records if batch_of(one) == batch]
        if min(tasks.count("0"), tasks.count("1")) >= 3:
            return batch
    raise AssertionError("no batch has rows of both tasks")


def is_of_task(record, batch):
    return batch_of(record) == batch and record.header("partition") == "1"


def without_task(records):
    batch = batch_with_tasks(records)
    return [one for one in records if not is_of_task(one, batch)]


def with_task_twice(records):
    batch = batch_with_tasks(records)
    return [*records, *(one for one in records if is_of_task(one, batch))]


def without_batch(records):
    batch = batch_with_tasks(records)
    return [one for one in records if batch_of(one) != batch]


def with_batch_twice(records):
    batch = batch_with_tasks(records)
    return [*records, *(one for one in records if batch_of(one) == batch)]


def with_batch_named_otherwise(records):
    batch = batch_with_tasks(records)
    return [in_batch(one, batch + 1) if batch_of(one) == batch else one for one in records]


def without_partition(records):
    return [one for one in records if one.header("partition") != "1"]


def without_some_batches(records):
    batches = sorted({batch_of(one) for one in records})[2:4]
    return [one for one in records if batch_of(one) not in batches]


CASES = {
    "missing: task": without_task,
    "doubled: task": with_task_twice,
    "missing: batch": without_batch,
    "doubled: batch": with_batch_twice,
    "moved: batch": with_batch_named_otherwise,
    "moved: all rows": lambda records: [in_batch(one, batch_of(one) + 1) for one in records],
    "doubled: all rows": lambda records: [*records, *records],
    "missing: partition": without_partition,
    "missing: batches": without_some_batches,
    "no rows": lambda _: [],
    "single rows": lambda records: [*records[:5], *records[6:]],
}


@pytest.mark.parametrize("name", CASES)
def test_a_delivery_is_named(name):
    assert names(delivered(CASES[name])) == [name]


def test_rows_of_an_executor_are_named():
    found = delivered(without_partition, executors=True)

    assert "missing: executor" in names(found)
    assert any("executor 2" in one.message for one in found.explanations)


def test_nothing_is_named_where_rows_are_dropped_by_chance_and_it_is_said_what_they_have_in_common():
    found = delivered(lambda records: [one for number, one in enumerate(records) if number % 5])

    assert found.outcome == "unexplained"
    assert found.explanations == []
    assert found.common
    assert found.lines()[0].startswith("no other contract")
