"""The second opinion: one SQL join over the rows that were not late, run by DuckDB.

Free of Spark and of I/O; DuckDB works in memory. Lateness depends on how rows fell into batches; once it is
known which rows were accepted, the right answer does not (``tests/unit/oracle/test_opinions.py`` shows it on
random histories): pairs; for an outer join a NULL row for each accepted row of a preserved side that is final
(expired under the last watermark) and has no accepted partner; for a left semi join each accepted left row
that has one.

Where it differs from the operational opinion the engine itself is wrong. Two such defects are known: Spark 4.2
loses a left semi row whose partners all lie in its own batch and are evictable there
(``LEFT_SEMI_LOSES_SAME_BATCH_ROWS``), and a full outer join takes NULL keys for equal
(``FULL_OUTER_JOINS_NULL_KEYS``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import duckdb
import numpy as np

from tidemark.contract import Bound, JoinKind
from tidemark.oracle.bounds import FOREVER_US, US_PER_MS, left_state_ms, right_state_ms, window
from tidemark.oracle.history import LEFT, ROW_BITS, Fate, History, first_of
from tidemark.oracle.operational import Prediction
from tidemark.oracle.partners import Partners

LEFT_SEMI_LOSES_SAME_BATCH_ROWS = "left-semi-loses-same-batch-rows"
FULL_OUTER_JOINS_NULL_KEYS = "full-outer-joins-null-keys"
KNOWN_DEFECTS = {
    FULL_OUTER_JOINS_NULL_KEYS: (
        "The stream-stream join compares keys byte by byte, by which NULL equals NULL. In the other joins the"
        " optimizer filters NULL keys out beforehand (InferFiltersFromConstraints); in a full outer join both sides"
        " are preserved and it may not, so rows with NULL keys are joined, and their NULL rows are missing."
    ),
    LEFT_SEMI_LOSES_SAME_BATCH_ROWS: (
        "Spark 4.2.0 takes the right rows of a batch first in a left semi join (SPARK-55973) and does not keep"
        " those that this"
        " batch will evict, so left rows of the same batch cannot see them; nothing is counted as dropped. A"
        " regression: 4.1 gives these rows."
    ),
}

FIRST_WITH_DEFECT = (4, 2)
"""The Spark version in which left semi began to lose rows of the same batch."""

# Rows meet in buckets as wide as the bound where both of its ends are known, so that a popular key stays cheap: a
# right row reaches over two of them at most.
_REACHING_RIGHTS = """
select *, unnest(if(first = last, [first], [first, last])) as bucket
from (select *, (time_us + $lower) // $width as first, (time_us + $upper) // $width as last from rights)
"""
_IN_BUCKETS = f"""
(select *, time_us // $width as bucket from lefts) l join ({_REACHING_RIGHTS}) r on l.key = r.key and l.bucket
= r.bucket
"""
_BY_KEY = "lefts l join rights r on l.key = r.key"
_PAIRS = """
with pairs as materialized (
    select l.id as l, r.id as r from {meeting} where l.time_us - r.time_us between $lower and $upper
)
"""
_JOINED = "select (l << $bits) | (r + 1) as identity from pairs"
_LEFT_NULLS = """
    select id << $bits as identity from all_lefts a
    where time_us <= $left_final_us and not exists (select 1 from pairs where pairs.l = a.id)
"""
_RIGHT_NULLS = """
    select id << $bits as identity from all_rights a
    where time_us <= $right_final_us and not exists (select 1 from pairs where pairs.r = a.id)
"""
_ANSWERS = {
    JoinKind.INNER: _JOINED,
    JoinKind.LEFT_SEMI: "select id << $bits as identity from lefts where id in (select l from pairs)",
    JoinKind.LEFT_OUTER: f"{_JOINED} union all {_LEFT_NULLS}",
    JoinKind.RIGHT_OUTER: f"{_JOINED} union all {_RIGHT_NULLS}",
    JoinKind.FULL_OUTER: f"{_JOINED} union all {_LEFT_NULLS} union all {_RIGHT_NULLS}",
}


def right_answer(history: History, prediction: Prediction) -> list[int]:
    """The identities that are right, given which rows were accepted."""
    bound = window(history.contract.bound)
    closed = max(-bound.lower_us, bound.upper_us) < FOREVER_US
    question = _PAIRS.format(meeting=_IN_BUCKETS if closed else _BY_KEY) + _ANSWERS[history.contract.kind]
    numbers = {
        "lower": bound.lower_us,
        "upper": bound.upper_us,
        "width": max(1, bound.upper_us - bound.lower_us),
        "bits": ROW_BITS,
        "left_final_us": _final_us(history, prediction, left_state_ms),
        "right_final_us": _final_us(history, prediction, right_state_ms),
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


def engine_loses(history: History, prediction: Prediction, partners: Partners, left_row: int) -> bool:
    """Whether a left semi row is one that the known defect loses (and not some other disagreement)."""
    if history.contract.kind is not JoinKind.LEFT_SEMI:
        return False
    rows, batch = history.rows, history.rows.batch[left_row]
    state_ms = right_state_ms(history.contract.bound, prediction.watermarks_ms[batch])
    if state_ms is None:
        return False
    accepted = [row for row in partners.of(left_row) if prediction.fate[row] == Fate.ACCEPTED]
    return bool(accepted) and all(
        rows.batch[row] == batch and rows.time_us[row] <= state_ms * US_PER_MS for row in accepted
    )


def engine_joins_nulls(history: History, identity: int) -> bool:
    """Whether a difference is about NULL keys in a full outer join."""
    return history.contract.kind is JoinKind.FULL_OUTER and history.rows.key[first_of(identity)] < 0


def has_defect(versions: Mapping[str, str]) -> bool:
    """Whether the Spark of a run is one with the known defect; one that is not named is taken for the newest."""
    numbers = versions.get("spark", "").split(".")[: len(FIRST_WITH_DEFECT)]
    if len(numbers) < len(FIRST_WITH_DEFECT) or not all(part.isdecimal() for part in numbers):
        return True
    return tuple(map(int, numbers)) >= FIRST_WITH_DEFECT


def _tables(history: History, prediction: Prediction) -> dict[str, dict[str, np.ndarray]]:
    """``lefts`` and ``rights``: accepted rows with a key; ``all_lefts``, ``all_rights``: those without one too."""
    rows = history.rows
    side = np.frombuffer(rows.side, dtype=np.uint8)
    key = np.frombuffer(rows.key, dtype=np.int64)
    time_us = np.frombuffer(rows.time_us, dtype=np.int64)
    accepted = np.frombuffer(prediction.fate, dtype=np.uint8) == Fate.ACCEPTED
    keyed = accepted & (key >= 0)
    chosen = {
        "all_lefts": accepted & (side == LEFT),
        "all_rights": accepted & (side != LEFT),
        "lefts": keyed & (side == LEFT),
        "rights": keyed & (side != LEFT),
    }
    tables = {}
    for name, mask in chosen.items():
        numbers = np.flatnonzero(mask)
        tables[name] = {"id": numbers.astype(np.int64), "key": key[numbers], "time_us": time_us[numbers]}
    return tables


def _final_us(history: History, prediction: Prediction, state: Callable[[Bound, int], int | None]) -> int:
    """The event time up to which a row of a side has expired under the watermark of the last batch."""
    if not history.batches:
        return -FOREVER_US
    last_ms = prediction.watermarks_ms[len(history.batches) - 1]
    state_ms = state(history.contract.bound, last_ms)
    return -FOREVER_US if state_ms is None else state_ms * US_PER_MS


def differences(said: Sequence[int], predicted: dict[int, int]) -> tuple[list[int], list[int]]:
    """Identities that only the declarative opinion has, and those that only the operational one has."""
    more = [identity for identity in said if identity not in predicted]
    if len(said) - len(more) == len(predicted):
        return more, []
    return more, sorted(predicted.keys() - set(said))
