"""What is kept on disk comes back as it was added, or sorted; a sort is stable, and needs little memory."""

from __future__ import annotations

from operator import itemgetter
from random import Random

import pytest

from producers import spool
from producers.spool import SortedSpool, Spool


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few items make a run of some blocks."""
    monkeypatch.setattr(spool, "RUN_ITEMS", 20)
    monkeypatch.setattr(spool, "BLOCK_ITEMS", 3)


def added(target, items, rng):
    while items:
        size = rng.randint(1, 9)
        target.add(items[:size])
        items = items[size:]


@pytest.mark.parametrize("n", [0, 1, 19, 20, 21, 500])
def test_a_spool_gives_its_items_in_order_as_often_as_it_is_asked(n, tmp_path):
    items = Spool(int, tmp_path)
    added(items, list(range(n)), Random(n))
    for _ in range(2):
        assert [item for block in items for item in block] == list(range(n))
    items.close()


@pytest.mark.parametrize("keys", [1, 2, 5, 1_000])
@pytest.mark.parametrize("n", [0, 1, 20, 21, 40, 700])
def test_a_sort_is_that_of_a_list_in_memory_also_among_equal_keys(n, keys, tmp_path):
    rng = Random(f"{n}/{keys}")
    for _ in range(20):
        rows = [(rng.randrange(keys), number) for number in range(n)]
        items = SortedSpool(tuple[int, int], itemgetter(0), tmp_path)
        added(items, rows, rng)
        for _ in range(2):
            assert [item for some in items for item in some] == sorted(rows, key=itemgetter(0))
        items.close()


def test_sorted_items_are_read_some_blocks_at_a_time(tmp_path):
    rows = list(range(2_000))
    Random(1).shuffle(rows)
    items = SortedSpool(int, folder=tmp_path)
    added(items, rows, Random(1))
    assert max(len(some) for some in items) <= 3 * 2_000 // 20
    items.close()


def test_no_file_is_seen_and_none_is_left(tmp_path):
    items = Spool(int, tmp_path)
    items.add(list(range(100)))
    assert list(tmp_path.iterdir()) == []
    items.close()
    assert list(tmp_path.iterdir()) == []


def test_short_lists_make_no_file(tmp_path):
    items = SortedSpool(int, folder=tmp_path / "missing")
    items.add([3, 1, 2])
    assert list(items) == [[1, 2, 3]]
    with pytest.raises(FileNotFoundError):
        items.add(list(range(20)))
