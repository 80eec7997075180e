"""Records that show that a coverage goal is met: the judgement of the reduced run finds them, and decides.

Free of I/O. Each is a ``select`` of record numbers (``row``) from the tables of a reduction; it may find none.
"""

from __future__ import annotations

from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.oracle.input.history import History
from tidemark.oracle.large.record_tables import RecordTables
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, window

_FIRST = 2_000
"""So many left rows are compared with all right rows, in search of a pair that one key field keeps apart."""


def witnesses(history: History, records: RecordTables) -> list[str]:
    """All of them."""
    late = "select row from rows where is_late"
    found = [
        "select min(row) as row from records where not readable",
        "select min(row) as row from records where has_null_key and readable",
        f"select min(row) as row from ({late}) late_rows",
        "select min(row) as row from records anti join placed using (row)",
    ]
    for side in (LEFT, RIGHT):
        mine = f"from rows w where w.side = {side}"
        last = "select max(batch) from placed"
        found.append(f"select min(row) as row {mine} and not is_late")
        found.append(f"select min(row) as row {mine} and is_late")
        found.append(
            f"select max_by(row, w.time_us) as row {mine} and w.row <= {records.last} and w.time_us is not null"
        )
        found.append(
            f"select max(row) as row from records join placed using (row) where side = {side} and batch = ({last})"
        )
    found += _of_output(history)
    found += _of_ends(history, records.last)
    found += [_of_key(history, records, field) for field in records.keys]
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


def _of_ends(history: History, last: int) -> list[str]:
    """A key with a pair beyond each end of the bound."""
    limits = window(history.contract.bound)
    spans = (
        "select key, min(time_us) filter (side = 0) as left_first, max(time_us) filter (side = 0) as left_last,"
        " min(time_us) filter (side = 1) as right_first, max(time_us) filter (side = 1) as right_last, min(row) as row"
        f" from rows where row <= {last} and not is_late and not has_null_key and time_us is not null group by key"
    )
    return [
        f"select min(row) as row from ({spans}) spans where left_first - right_last < {limits.lower_us}",
        f"select min(row) as row from ({spans}) spans where left_last - right_first > {limits.upper_us}",
    ]


def _of_key(history: History, records: RecordTables, field: str) -> str:
    """A pair of rows that differ in one key field alone."""
    limits = window(history.contract.bound)
    rows = (
        "select w.row, w.time_us, k.* exclude (key) from rows w join keys k using (key)"
        f" where w.row <= {records.last} and w.side = {{side}}"
        " and not w.is_late and not w.has_null_key and w.time_us is not null"
    )
    same = [f"l.{other} = r.{other}" for other in records.keys if other != field]
    apart = f"l.time_us - r.time_us between {limits.lower_us} and {limits.upper_us}"
    pair = (
        f"select l.row as l, r.row as r from ({rows.format(side=LEFT)} order by w.row limit {_FIRST}) l"
        f" join ({rows.format(side=RIGHT)}) r on {' and '.join([*same, apart])} and l.{field} <> r.{field} limit 1"
    )
    return f"select unnest([l, r]) as row from ({pair}) pair"
