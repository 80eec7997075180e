"""The SQL oracle: one SQL join over the rows that were not late, run by DuckDB.

Free of Spark and of I/O; DuckDB works in memory. Which rows were late, and the last watermark, are those of the
replay (``operational``), and so is the arithmetic of bounds; nothing of its batches, probing, state and eviction is
used here. Lateness depends on how rows fell into batches; once it is
known which rows were accepted, the right answer does not (``tests/unit/oracle/test_oracles.py`` shows it on
random histories): pairs; for an outer join a NULL row for each accepted row of a preserved side that is final
and has no accepted partner; for a left semi join each accepted left row that has one. A row is final when no
row that may still come can match it: it fails the condition on its own side, has no event time, or lies too far
before the last watermark.

Where it differs from the model, Spark itself is wrong; such defects are known by name
(``defects.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import duckdb
import numpy as np

from tidemark.formats.contract import PRESERVED, JoinKind
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.input.history import ROW_BITS, Disposition, History, first_of, right_of
from tidemark.oracle.model.join_replay import Prediction, misses_rows
from tidemark.oracle.spark.known_defects import (
    CONDITION_BOUNDS_THE_STATE,
    FORMAT_4_MISSES_ROWS,
    FULL_OUTER_JOINS_NULL_KEYS,
    LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
    NULL_EVENT_TIME_NEVER_EVICTED,
    ONE_SIDED_WATERMARK,
)
from tidemark.oracle.spark.pushdown import passes
from tidemark.oracle.spark.time_ranges import (
    FOREVER_US,
    LEFT,
    NULL_TIME_US,
    RIGHT,
    US_PER_MS,
    bound_ms,
    evicted_us,
    scanned,
    state_ms,
    window,
)

_POPULAR = 16
"""A key that more right rows have than this is popular."""
_PAIRS = """
with popular as materialized (select key from rights group by key having count(*) > $popular),
placed as materialized (
    select *, row_number() over (order by key, time_us) as place from rights semi join popular using (key)
),
moments as (select key, time_us, min(place) as first, max(place) as last from placed group by key, time_us),
spans as (
    select l.*, early.first, late.last
    from lefts l
    asof join moments early on l.key = early.key and l.time_us - $upper <= early.time_us
    asof join moments late on l.key = late.key and l.time_us - $lower >= late.time_us
),
pairs as materialized (
    select l.id as l, r.id as r
    from (select *, unnest(range(first, last + 1)) as place from spans where first <= last) l
    join placed r on l.place = r.place
    where true{condition}
    union all
    select l.id as l, r.id as r
    from lefts l join (from rights anti join popular using (key)) r on l.key = r.key
    where l.time_us - r.time_us between $lower and $upper{condition}
)
"""
"""Right rows of a popular key are numbered by time, and a left row meets those numbers that its bound reaches: never
all of its key. Rows of another key all meet."""
_JOINED = "select (l << $bits) | (r + 1) as identity from pairs"
_LEFT_NULLS = """
    select id << $bits as identity from all_lefts a
    where (time_us <= $left_final_us or is_final) and not exists (select 1 from pairs where pairs.l = a.id)
"""
_RIGHT_NULLS = """
    select id << $bits as identity from all_rights a
    where (time_us <= $right_final_us or is_final) and not exists (select 1 from pairs where pairs.r = a.id)
"""
_NEAREST = """
select l.id << $bits as identity
from lefts l asof join rights r on l.key = r.key and l.time_us - $lower >= r.time_us
where l.time_us - $upper <= r.time_us
"""
"""A left row has a partner if the latest right row that is not too late for it is not too early."""
_ANY = """
select l.id << $bits as identity
from lefts l semi join rights r
on l.key = r.key and l.time_us - $lower >= r.time_us and l.time_us - $upper <= r.time_us{condition}
"""
_ANSWERS = {
    JoinKind.INNER: _JOINED,
    JoinKind.LEFT_OUTER: f"{_JOINED} union all {_LEFT_NULLS}",
    JoinKind.RIGHT_OUTER: f"{_JOINED} union all {_RIGHT_NULLS}",
    JoinKind.FULL_OUTER: f"{_JOINED} union all {_LEFT_NULLS} union all {_RIGHT_NULLS}",
}


def right_answer(history: History, prediction: Prediction) -> list[int]:
    """The identities that are right, given which rows were accepted."""
    bound = window(history.contract.bound)
    terms = [
        f" and l.{_column(term.left)} {term.op} r.{_column(term.right)}" for term in history.pushdown.pairs
    ]
    if history.contract.kind is JoinKind.LEFT_SEMI:
        question = _ANY if terms else _NEAREST
    else:
        question = _PAIRS + _ANSWERS[history.contract.kind]
    question = question.format(condition="".join(terms))
    numbers = {
        "lower": bound.lower_us,
        "upper": bound.upper_us,
        "popular": _POPULAR,
        "bits": ROW_BITS,
        "left_final_us": _final_us(history, prediction, LEFT),
        "right_final_us": _final_us(history, prediction, RIGHT),
    }
    used = {name: number for name, number in numbers.items() if f"${name}" in question}
    with _database().cursor() as sql:  # a connection of its own: what it registers nobody else sees
        for name, columns in _tables(history, prediction).items():
            sql.register(name, columns)
        identities: list[int] = sql.execute(question, used).fetchnumpy()["identity"].tolist()
    return identities


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One empty database in memory for all judgements of a process: opening one takes as long as a small run."""
    return duckdb.connect(":memory:", config={"threads": 2})


def spark_loses(history: History, prediction: Prediction, partners: Partners, left_row: int) -> bool:
    """Whether a left semi row is one that the known defect loses (and not some other disagreement)."""
    if history.contract.kind is not JoinKind.LEFT_SEMI:
        return False
    batch, limits_ms = history.rows.batch[left_row], history.pushdown.limits_ms[RIGHT]
    limit_ms = state_ms(history.contract, RIGHT, prediction.watermarks_ms[batch], limits_ms)
    return limit_ms is not None and partners.all_accepted_are_of(
        left_row, limit_ms * US_PER_MS, prediction.disposition
    )


def spark_joins_nulls(history: History, identity: int) -> bool:
    """Whether a difference is about NULL keys in a full outer join."""
    return history.contract.kind is JoinKind.FULL_OUTER and history.rows.key[first_of(identity)] < 0


def defect_that_loses(
    history: History, prediction: Prediction, partners: Partners, identity: int
) -> str | None:
    """The known defect for which Spark does not emit a right row."""
    is_null = right_of(identity) is None and history.contract.kind in PRESERVED
    if spark_loses(history, prediction, partners, first_of(identity)):
        return LEFT_SEMI_LOSES_SAME_BATCH_ROWS
    if is_null and spark_joins_nulls(history, identity):
        return FULL_OUTER_JOINS_NULL_KEYS
    if is_null and history.rows.time_us[first_of(identity)] == NULL_TIME_US:
        return NULL_EVENT_TIME_NEVER_EVICTED
    right = right_of(identity)
    is_not_injected = right is not None and is_out_of_range(history, first_of(identity), right)
    if is_not_injected or (is_null and is_evicted(history, prediction, first_of(identity))):
        return FORMAT_4_MISSES_ROWS
    if is_limited(history, identity):
        return CONDITION_BOUNDS_THE_STATE
    # A range evicts nothing; equal times evict rows that may still be matched.
    if lacks_a_watermark(history) and is_null != history.contract.bound.equal:
        return ONE_SIDED_WATERMARK
    return None


def defect_that_adds(
    history: History, prediction: Prediction, partners: Partners, identity: int
) -> str | None:
    """The known defect for which Spark emits a wrong row."""
    first, right, rows = first_of(identity), right_of(identity), history.rows
    if spark_joins_nulls(history, identity) and right is not None and rows.key[first] == rows.key[right]:
        return FULL_OUTER_JOINS_NULL_KEYS
    if right is not None:
        return None
    matching = partners.with_disposition(first, Disposition.ACCEPTED, prediction.disposition)
    if misses_rows(history) and any(
        is_out_of_range(history, *sorted((first, row), key=rows.side.__getitem__)) for row in matching
    ):
        return FORMAT_4_MISSES_ROWS
    if is_limited(history, identity):
        return CONDITION_BOUNDS_THE_STATE
    if not partners.has(first, Disposition.ACCEPTED, prediction.disposition):
        return None
    if history.pushdown.limits_ms[1 - rows.side[first]]:
        return CONDITION_BOUNDS_THE_STATE  # its partner may have left too early, too
    return ONE_SIDED_WATERMARK if lacks_a_watermark(history) and history.contract.bound.equal else None


def is_out_of_range(history: History, left_row: int, right_row: int) -> bool:
    """Whether state format 4 does not look for the one where the other is."""
    if not misses_rows(history):
        return False
    reach, time_us = scanned(history.contract, history.pushdown.limits_ms), history.rows.time_us
    return not reach.holds(time_us[left_row], time_us[right_row])


def is_evicted(history: History, prediction: Prediction, row: int) -> bool:
    """Whether state format 4 never looks at a row again once it is stored."""
    side, batch = history.rows.side[row], history.rows.batch[row]
    before_ms, limits_ms = prediction.late_ms(batch) if batch else None, history.pushdown.limits_ms[side]
    return misses_rows(history) and history.rows.time_us[row] <= evicted_us(
        history.contract, side, before_ms, limits_ms
    )


def is_limited(history: History, identity: int) -> bool:
    """Whether a row of this identity is of a side whose state another column bounds."""
    rows = [row for row in (first_of(identity), right_of(identity)) if row is not None]
    return any(history.pushdown.limits_ms[history.rows.side[row]] for row in rows)


def lacks_a_watermark(history: History) -> bool:
    """Whether just one side has a watermark."""
    contract = history.contract
    return (contract.left.watermark_delay_ms is None) != (contract.right.watermark_delay_ms is None)


def _tables(history: History, prediction: Prediction) -> dict[str, dict[str, np.ndarray]]:
    """``lefts`` and ``rights``: accepted rows that can match something; ``all_lefts``, ``all_rights``: all of them."""
    rows = history.rows
    side_of = np.frombuffer(rows.side, dtype=np.uint8)
    key = np.frombuffer(rows.key, dtype=np.int64)
    time_us = np.frombuffer(rows.time_us, dtype=np.int64)
    accepted = np.frombuffer(prediction.disposition, dtype=np.uint8) == Disposition.ACCEPTED
    null_time = (time_us == NULL_TIME_US) & (not window(history.contract.bound).is_boundless)
    tables = {}
    for side, name in ((LEFT, "lefts"), (RIGHT, "rights")):
        numbers = np.flatnonzero(accepted & (side_of == side))
        columns = {"id": numbers.astype(np.int64), "key": key[numbers], "time_us": time_us[numbers]}
        is_final, matchable = null_time[numbers], (key[numbers] >= 0) & ~null_time[numbers]
        for field in history.pushdown.fields[side]:
            values = [history.rows.numbers[side][field][row] for row in numbers.tolist()]
            known = np.array([value is not None for value in values], dtype=bool)
            columns[f"{field}_"] = np.array([value or 0 for value in values], dtype=np.int64)
            for what in (one for one in history.pushdown.early[side] if one.field == field):
                passed = np.array([passes(value, what) for value in values], dtype=bool)
                is_final, matchable = is_final | ~passed, matchable & passed
            if any(field == (term.right if side else term.left) for term in history.pushdown.pairs):
                matchable &= known
        tables[f"all_{name}"] = {"id": columns["id"], "time_us": columns["time_us"], "is_final": is_final}
        tables[name] = {column: values[matchable] for column, values in columns.items()}
    return tables


def _column(field: str | None) -> str:
    """A field's name as SQL quotes it; with ``_``, so that it is none of the other columns'."""
    return '"' + (field or "").replace('"', '""') + '_"'


def _final_us(history: History, prediction: Prediction, side: int) -> int:
    """The time up to which rows of a side can be matched no more, under the watermark of the last batch.

    Only rows that can be late are known not to come: without a watermark on the other side none is ever final, but
    where times are equal, and the join itself takes them for it.
    """
    contract = history.contract
    other = contract.left if side else contract.right
    if not history.batches or (other.watermark_delay_ms is None and not contract.bound.equal):
        return -FOREVER_US
    limit_ms = bound_ms(contract.bound, side, prediction.watermarks_ms[len(history.batches) - 1])
    return -FOREVER_US if limit_ms is None else limit_ms * US_PER_MS


def differences(said: Sequence[int], predicted: dict[int, int]) -> tuple[list[int], list[int]]:
    """Identities that only the SQL oracle has, and those that only the model has."""
    more = [identity for identity in said if identity not in predicted]
    if len(said) - len(more) == len(predicted):
        return more, []
    return more, sorted(predicted.keys() - set(said))
