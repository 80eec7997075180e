"""Transactions, control records and compaction in generated traces, which the reader of traces checks, too."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from producers.log_layout import TOGETHER


def events_of(made):
    """The records that a reader of committed records gets, without what says in which transaction they are."""
    return [
        (record.topic, record.partition, record.value, record.slice)
        for record in made.records
        if record.absent is None
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"transactions": 0.3},
        {"aborted": 0.2},
        {"transactions": 1, "aborted": 1},
        {"compacted": 0.2, "pace": "backlog"},
    ],
)
def test_a_reader_of_committed_records_gets_what_it_gets_without(make, options):
    plain = make(seed=6, impressions=600, pace="backlog")
    made = make(seed=6, impressions=600, **options)
    assert events_of(made) == events_of(plain)
    assert len(made.records) > len(plain.records)
    assert made.header.counts["impressions"] == plain.header.counts["impressions"]


def test_each_transaction_ends_in_each_of_its_partitions(make):
    made = make(seed=6, impressions=600, transactions=0.3, aborted=0.2, partitions=3)
    places, ends = defaultdict(set), defaultdict(list)
    for record in made.records:
        if record.absent in ("commit", "abort"):
            ends[record.transaction].append((record.topic, record.partition))
        elif record.transaction is not None:
            places[record.transaction].add((record.topic, record.partition))
    assert {number: sorted(some) for number, some in ends.items()} == {
        number: sorted(some) for number, some in places.items()
    }
    assert any(len(some) > 1 for some in places.values())
    counts = made.header.counts
    assert counts["control_records"] == sum(map(len, ends.values()))


def test_what_is_rolled_back_comes_again(make):
    made = make(seed=6, impressions=600, aborted=0.2)
    sent = Counter(record.sent for record in made.records if record.absent == "aborted")
    came = Counter(record.value for record in made.records if record.absent is None)
    assert sent <= came
    assert 0.1 < sent.total() / came.total() < 0.3
    assert made.header.counts["rolled_back"] == sent.total()


def test_what_compaction_removes_has_the_key_of_a_later_record_before_the_last_slice(make):
    made = make(seed=6, impressions=600, compacted=0.2, aborted=0.1, pace="backlog", partitions=3)
    assert made.header.compacted == ["impressions", "clicks"]
    last = {(record.topic, record.partition): record.slice for record in made.records}
    later, removed = {}, 0
    for record in reversed(made.records):
        place = record.topic, record.partition, record.key
        if record.absent == "compacted":
            removed += 1
            assert later[place].absent is None
            assert later[place].slice < last[place[:2]]
        elif record.key is not None and record.absent is None:
            assert place not in later, "each record has a key of its own"
            later[place] = record
    assert removed == made.header.counts["compacted"] > 50


def test_arrivals_never_decrease(make):
    made = make(seed=6, impressions=600, compacted=0.2, transactions=0.2, aborted=0.2, pace="backlog")
    arrivals = [record.arrival_ms for record in made.records]
    assert arrivals == sorted(arrivals)


def test_a_slice_of_many_rows_is_laid_out_in_pieces(make):
    made = make(seed=6, impressions=TOGETHER, slices=1, transactions=1)
    assert {record.transaction is None for record in made.records} == {False}
