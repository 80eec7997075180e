"""The order of batches in the output of a large run: which keys have rows behind those of a later batch.

Free of I/O; reads the tables of a reduction. ``tidemark.oracle.compare.batch_order`` decides; here the keys are found
that it has to look at. In almost all runs the output is in order, which one pass over ``came`` shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tidemark.oracle.compare.batch_order import RightRow, first_places, later_rows, place_of
from tidemark.oracle.large.engine import Engine
from tidemark.oracle.sql.join_inputs import Columns
from tidemark.oracle.sql.join_rules import Select

_SPANS = "select part, batch, min(o) as first_o, max(o) as last_o from came group by part, batch"
_RIGHT = """came c join (select identity, batch, key from expected where comes) e
on e.identity = c.identity and e.batch = c.batch
left join sentinels a on a.row = c.l left join sentinels b on b.row = c.r"""
"""Records of rows in the batch that they are due in; of the trace where ``a.row`` and ``b.row`` are NULL."""
_FIRST_ROWS = f"""
select c.part, c.batch, min(c.o) as first_o from {_RIGHT} where a.row is null and b.row is null group by c.part, c.batch
"""
_BEHIND = f"""
select distinct e.key from {_RIGHT} join later_rows f on f.part = c.part and f.batch = c.batch
where a.row is null and b.row is null and c.o > f.first_o
"""


def find_behind(engine: Engine) -> dict[tuple[int, int], int]:
    """Make ``behind(key)``; return the first place of each batch in each partition, of right rows.

    If all records are in the order of their batches, there are no such keys, and nothing is returned.
    """
    if _are_in_order(engine.rows(_SPANS)):
        engine.register("behind", {"key": np.array([], dtype=np.int64)})
        return {}
    engine.make_relations([Select("first_rows", _FIRST_ROWS)], "first_rows")
    firsts: dict[tuple[int, int], int] = {}
    for part, batch, number in engine.rows(
        "select part, batch, min(first_o) from first_rows group by part, batch"
    ):
        firsts[part, batch] = place_of(part, number)
    later = later_rows(first_places(_odd(engine), firsts))
    engine.register(
        "later_rows", _columns([(part, batch, first) for (part, batch), (first, _) in later.items()])
    )
    engine.make_relations([Select("behind", _BEHIND)], "behind")
    return _places(engine, firsts)


def _are_in_order(spans: Sequence[tuple[int, int | None, int, int]]) -> bool:
    """Whether each partition has the records of one batch after those of the batches before, as far as is known."""
    ends: dict[int, int] = {}
    for part, batch, first, last in sorted(spans, key=lambda span: (span[0], span[1] or 0)):
        if batch is None or first < ends.get(part, 0):
            return False
        ends[part] = last
    return True


def _odd(engine: Engine) -> Iterator[RightRow]:
    """The records that are read as in small runs, where they may be right: of rows that nobody knows yet."""
    for number, part, batch in engine.rows(
        "select o, part, batch from came where identity is null and batch is not null order by o"
    ):
        yield RightRow(None, batch, place_of(part, number))


def _columns(firsts: Sequence[tuple[int, int, int]]) -> Columns:
    """A table of these: partition, batch, and the number of the record at a place that is made of it."""
    rows = [(part, batch, place - place_of(part, 0)) for part, batch, place in firsts]
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 3).T
    return dict(zip(("part", "batch", "first_o"), columns, strict=True))


def _places(engine: Engine, firsts: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """The same with the offset of each record in the place of its number."""
    order = sorted(firsts, key=lambda at: firsts[at] - place_of(at[0], 0))
    engine.register("wanted_rows", _columns([(*at, firsts[at]) for at in order]))
    records = engine.outputs("select first_o as o from wanted_rows")
    return {at: place_of(one.partition, one.offset) for at, one in zip(order, records, strict=True)}
