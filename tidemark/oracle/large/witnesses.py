"""Records that show that a coverage goal is met: the judgement of the reduced run finds them, and decides.

Free of I/O. Each is a ``select`` of record numbers (``row``) from the tables of a reduction; it may find none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.oracle.input.history import History
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, window

SENTINELS = "(select n from parsed where is_sentinel)"
"""The few records that are no rows of the trace."""
_FIRST = 2_000
"""So many left rows are compared with all right rows, in search of a pair that one key field keeps apart."""


_ROWS = (
    f"from rows w anti join {SENTINELS} s on s.n = w.row"
    " where not w.is_late and not w.has_null_key and w.time_us is not null"
)
"""The accepted rows with a key and a time that are no sentinels."""
_ENDS = ", ".join(
    f"{pick}(case when w.side = {side} then w.time_us end) as {name}_{which}"
    for side, name in ((LEFT, "left"), (RIGHT, "right"))
    for pick, which in (("min", "first"), ("max", "last"))
)
SPANS = f"select w.key, {_ENDS}, min(w.row) as row {_ROWS} group by w.key"
"""``spans``, which must be there: of each key the first and last times of each side, and a row."""


def witnesses(history: History, keys: Sequence[str]) -> list[str]:
    """All of them."""
    late = "select row from rows where is_late"
    found = [
        "select min(row) as row from records where not readable",
        "select min(row) as row from records where has_null_key and readable",
        f"select min(row) as row from ({late}) late_rows",
        "select min(r.row) as row from records r anti join placed p on p.row = r.row",
    ]
    for side in (LEFT, RIGHT):
        mine = f"where w.side = {side}"
        last = "select max(batch) from placed"
        timed = f"from rows w anti join {SENTINELS} s on s.n = w.row {mine} and w.time_us is not null"
        found.append(f"select min(w.row) as row from rows w {mine} and not w.is_late")
        found.append(f"select min(w.row) as row from rows w {mine} and w.is_late")
        found.append(f"select max(w.row) as row {timed} and w.time_us = (select max(w.time_us) {timed})")
        found.append(
            "select max(r.row) as row from records r join placed p on p.row = r.row"
            f" where r.side = {side} and p.batch = ({last})"
        )
    found += _of_output(history)
    found += _of_ends(history)
    for field in keys:
        found.append(_of_key(history, keys, field))
    return [f"select row from ({one}) found_rows" for one in found]


def _of_output(history: History) -> list[str]:
    """A pair or a semi row that comes, and a NULL row of each side."""
    if history.contract.kind is JoinKind.LEFT_SEMI:
        return ["select min(l) as row from answers where comes"]
    found = ["select min(l) as row from answers where comes and l is not null and r is not null"]
    if history.contract.kind in PRESERVED:
        found.append("select min(l) as row from answers where comes and r is null")
        found.append("select min(r) as row from answers where comes and l is null")
    return found


def _of_ends(history: History) -> list[str]:
    """A key with a pair beyond each end of the bound."""
    limits = window(history.contract.bound)
    return [
        f"select min(row) as row from spans where left_first - right_last < {limits.lower_us}",
        f"select min(row) as row from spans where left_last - right_first > {limits.upper_us}",
    ]


def _of_key(history: History, keys: Sequence[str], field: str) -> str:
    """A pair of rows that differ in one key field alone: the first left rows, and the right rows of their time."""
    limits = window(history.contract.bound)
    fields = "".join(f", k.{key}" for key in keys)
    lefts = f"select w.row, w.key, w.time_us {_ROWS} and w.side = {LEFT} order by w.row limit {_FIRST}"
    near = (
        f"w.time_us >= (select min(time_us) - {limits.upper_us} from ({lefts}) first_lefts)"
        f" and w.time_us <= (select max(time_us) - {limits.lower_us} from ({lefts}) first_lefts)"
    )
    rights = f"select w.row, w.key, w.time_us {_ROWS} and w.side = {RIGHT} and {near}"
    named = "(select w.row, w.time_us{fields} from ({rows}) w join keys k on k.key = w.key)"
    same = [f"l.{other} = r.{other}" for other in keys if other != field]
    apart = f"l.time_us - r.time_us between {limits.lower_us} and {limits.upper_us}"
    pair = (
        f"select l.row as l, r.row as r from {named.format(fields=fields, rows=lefts)} l"
        f" join {named.format(fields=fields, rows=rights)} r on {' and '.join([*same, apart])}"
        f" and l.{field} <> r.{field} limit 1"
    )
    return (
        f"select case when side = {LEFT} then l else r end as row from ({pair}) pair"
        f" cross join (select {LEFT} as side union all select {RIGHT}) both_sides"
    )
