"""The state of a large run: which keys have rows in it that ought not to be there, or other ones than they ought to.

Free of I/O: statements over the tables of a reduction. ``state_rows(s, batch, side, part, position, has_key, k0 …,
time_us, matched)`` is the engine's: ``s`` is the number of the record, ``part`` and ``position`` the place of the row
in the input. Made of it are ``state_named``, with the input row and its key, and ``state_dirty``, the keys.

The rules are those of ``tidemark.oracle.compare.state_comparison``, which judges what is handed on.
"""

from __future__ import annotations

import numpy as np

from tidemark.formats.contract import PRESERVED
from tidemark.oracle.input.history import History
from tidemark.oracle.input.state_fields import StateFields
from tidemark.oracle.large.engine import Engine, key_names
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT

Fields = dict[tuple[int, int], StateFields]

_SUMMARY = """
select batch, side, count(*), count(part), sum(case when has_key then 1 else 0 end), count(time_us), count(matched)
from state_rows group by batch, side
"""
_MATCHED = """
select row, min(batch) as batch
from (
    select l as row, batch from answers where comes and l is not null and r is not null
    union all
    select r, batch from answers where comes and l is not null and r is not null
) partners
group by row
"""
_EXPECTED = """
select b.batch, s.row, s.side, w.key, w.time_us, coalesce(m.batch <= b.batch, false) as matched
from stored s cross join state_batches b join rows w on w.row = s.row left join state_matched m on m.row = s.row
where s.batch <= b.batch and coalesce(s.removed > b.batch, true)
"""
_DIRTY = """
select key from state_named where not is_right and key is not null
union
select key from state_named where key is not null group by batch, row, key having count(*) > 1
union
select e.key from state_expected e anti join state_named n on n.batch = e.batch and n.row = e.row
"""
CHOSEN = "select row from state_named where row is not null and key is null"
"""Rows that no key leads to."""
HANDED_ON = """
select n.s from state_named n left join chosen c on c.row = n.row where n.row is null or c.row is not null
"""
"""The rows of the state that are those of a chosen record, or of none."""


def compare_state(engine: Engine, history: History) -> Fields | None:
    """Make the tables; returns what the state has of its rows, ``None`` if only a small run's judge can compare it."""
    fields: Fields = {}
    info = history.manifest.state
    batches = set(info.batches if info is not None else ())
    for batch, side, many, refs, keys, times, flags in engine.rows(_SUMMARY):
        if refs != many or keys not in (0, many) or flags not in (0, many):
            return None
        fields[batch, side] = StateFields(key=keys > 0, time=times > 0, ref=True)
        batches.add(batch)
    committed = {batch.plan.batch for batch in history.batches if batch.plan.committed}
    if not committed.issuperset(batch for batch, _ in fields):
        return None
    engine.register("state_batches", {"batch": np.array(sorted(batches & committed), dtype=np.int64)})
    engine.make("state_matched", _MATCHED)
    engine.make("state_expected", _EXPECTED)
    engine.make("state_named", _named(history, fields))
    engine.make("state_dirty", _DIRTY)
    return fields


def _named(history: History, fields: Fields) -> str:
    """Each row of the state with its input row and key; and whether it is as Spark's rules keep it."""
    same_key = " and ".join(f"t.{key} is not distinct from k.{key}" for key in key_names(history))
    timed = [2 * batch + side for (batch, side), has in fields.items() if has.time]
    flagged = [side for side in (LEFT, RIGHT) if side in PRESERVED.get(history.contract.kind, ())]
    asked = ["e.row is not null", f"(not t.has_key or {same_key})"]
    if timed:
        is_timed = f"t.batch * 2 + t.side in ({', '.join(map(str, timed))})"
        asked.append(f"(not {is_timed} or t.time_us is not distinct from e.time_us)")
    if flagged:
        asked.append(
            f"(t.matched is null or t.side not in ({', '.join(map(str, flagged))}) or t.matched = e.matched)"
        )
    return f"""
select t.s, t.batch, r.row, r.key, {" and ".join(asked)} as is_right
from state_rows t left join records r on r.side = t.side and r.part = t.part and r.position = t.position
    left join state_expected e on e.batch = t.batch and e.row = r.row left join keys k on k.key = r.key
"""
