"""Records that show that a coverage goal is met: the judgement of the reduced run finds them, and decides.

Free of I/O. Each is a ``select`` of record numbers (``row``) from the tables of a reduction; it may find none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.oracle.input.history import ROW_BITS, History
from tidemark.oracle.spark.time_ranges import FOREVER_US, LEFT, RIGHT, window

_FIRST = 2_000
"""So many left rows are compared with all right rows, in search of a pair that one key field keeps apart."""


def witnesses(history: History, keys: Sequence[str]) -> list[str]:
    """All of them.

    ``sentinels`` has the few records that are no rows of the trace; ``beyond_ends``, ``first_lefts`` and
    ``near_rights`` are there.
    """
    found = [_each(_OF_RECORDS, _RECORDS), _LAST_READ, _each(_of_rows(), "rows w"), _LATEST]
    found.append(_each(_of_output(history), _CAME))
    found.append(_each(_OF_ENDS, "beyond_ends"))
    found += [_of_key(history, keys, field) for field in keys]
    return [f"select row from ({one}) found_rows" for one in found]


def _each(columns: Sequence[str], source: str) -> str:
    """A row for each of these columns: all are computed at once."""
    named = ", ".join(f"{column} as row_{number}" for number, column in enumerate(columns))
    whens = " ".join(f"when {number} then row_{number}" for number in range(len(columns)))
    numbers = " union all ".join(f"select {number} as number" for number in range(len(columns)))
    return (
        f"select case number {whens} end as row from (select {named} from {source}) found"
        f" cross join ({numbers}) numbers"
    )


_OF_RECORDS = (
    "min(case when not r.readable then r.row end)",
    "min(case when r.has_null_key and r.readable then r.row end)",
    "min(case when e.position is null or r.position >= e.position or r.position < s.position then r.row end)",
)
"""Records that are unreadable, have a NULL key, or were never read."""
_RECORDS = """records r left join (select side, part, max(position) as position from ends group by side, part) e
    on e.side = r.side and e.part = r.part left join starts s on s.side = r.side and s.part = r.part"""
_LAST_READ = """
select max(r.row) as row from records r join last_placed p on p.row = r.row
where p.batch = (select max(batch) from last_placed) group by r.side
"""
"""The last record of each side that the last batch read."""


def _of_rows() -> list[str]:
    """Rows of each side that are late, and that are not."""
    return [
        f"min(case when w.side = {side} and {asked} then w.row end)"
        for side in (LEFT, RIGHT)
        for asked in ("w.is_late", "not w.is_late")
    ]


_TIMED = "from rows w anti join sentinels s on s.row = w.row where w.time_us is not null"
_LATEST = f"""
select max(t.row) as row
from (select w.row, w.side, w.time_us {_TIMED}) t join (
    select w.side, max(w.time_us) as time_us {_TIMED} group by w.side
) m on m.side = t.side and m.time_us = t.time_us
group by t.side
"""
"""The latest row of each side."""


_CAME = "(select e.* from expected e anti join wrong w on w.due = e.identity where e.comes) came_right"
"""The rows that came as they are due; of the others the keys are handed on."""


def _of_output(history: History) -> list[str]:
    """A pair or a semi row, and a NULL row of each side."""
    if history.contract.kind is JoinKind.LEFT_SEMI:
        return ["min(row)"]
    is_alone = f"identity % {1 << ROW_BITS} = 0"
    found = [f"min(case when not {is_alone} then row end)"]
    if history.contract.kind in PRESERVED:
        found += [f"min(case when {is_alone} and side = {side} then row end)" for side in (LEFT, RIGHT)]
    return found


def beyond_ends(history: History) -> str:
    """The keys with a pair beyond an end of the bound, with a row of each: a relation of single keys."""
    limits = window(history.contract.bound)
    ends = ", ".join(
        f"{pick}(case when w.side = {side} then w.time_us end) as {name}_{which}"
        for side, name in ((LEFT, "left"), (RIGHT, "right"))
        for pick, which in (("min", "first"), ("max", "last"))
    )
    below, above = (
        f"left_first - right_last < {limits.lower_us}",
        f"left_last - right_first > {limits.upper_us}",
    )
    return (
        f"select row, coalesce({below}, false) as is_below, coalesce({above}, false) as is_above"
        f" from (select w.key, {ends}, min(w.row) as row {_MATCHABLE} group by w.key) spans where {below} or {above}"
    )


_OF_ENDS = ("min(case when is_below then row end)", "min(case when is_above then row end)")
"""A key with a pair beyond each end of the bound."""


_MATCHABLE = f"{_TIMED} and not w.is_late and not w.has_null_key"
"""The accepted rows with a key and a time."""


FIRST_LEFTS = f"select w.row, w.key, w.time_us {_MATCHABLE} and w.side = {LEFT} order by w.row limit {_FIRST}"
"""The left rows that are compared."""


def near_rights(history: History) -> str:
    """The right rows that are within the bound of one of the ``first_lefts``, if all these were of one time."""
    limits = window(history.contract.bound)
    near = []
    if limits.upper_us < FOREVER_US:
        near.append(f"w.time_us >= (select min(time_us) from first_lefts) - {limits.upper_us}")
    if limits.lower_us > -FOREVER_US:
        near.append(f"w.time_us <= (select max(time_us) from first_lefts) - {limits.lower_us}")
    return " and ".join([f"select w.row, w.key, w.time_us {_MATCHABLE} and w.side = {RIGHT}", *near])


def _of_key(history: History, keys: Sequence[str], field: str) -> str:
    """A pair of rows that differ in one key field alone."""
    limits = window(history.contract.bound)
    fields = "".join(f", k.{key}" for key in keys)
    left, right = (
        f"(select m.row, m.time_us{fields} from {name} m join keys k on k.key = m.key)"
        for name in ("first_lefts", "near_rights")
    )
    same = [f"l.{other} = r.{other}" for other in keys if other != field]
    apart = f"l.time_us - r.time_us between {limits.lower_us} and {limits.upper_us}"
    pair = (
        f"select l.row as l, r.row as r from {left} l join {right} r"
        f" on {' and '.join([*same, apart])} and l.{field} <> r.{field} limit 1"
    )
    return (
        f"select case when side = {LEFT} then l else r end as row from ({pair}) pair"
        f" cross join (select {LEFT} as side union all select {RIGHT}) both_sides"
    )
