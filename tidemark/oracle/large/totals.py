"""What is known of the rows that a reduction leaves out, in numbers (``tidemark.oracle.input.rest``).

Free of I/O; reads the tables of a reduction.
"""

from __future__ import annotations

import numpy as np

from tidemark.formats.contract import WatermarkPolicy
from tidemark.formats.evidence import InputRecord
from tidemark.oracle.input.history import ROW_MASK, History
from tidemark.oracle.input.rest import Rest
from tidemark.oracle.input.unreadable import Readable
from tidemark.oracle.large.record_tables import Database
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, US_PER_MS

_EDGE_US = 1 * US_PER_MS


def count_rest(sql: Database, history: History, last: int) -> Rest:
    """Count all of it; ``last`` is the number of the last record that is no sentinel."""
    sql.execute(
        "create temp table left_out as select r.row, r.side, r.readable, r.has_null_key from records r"
        " anti join chosen c using (row)"
    )
    sql.execute(
        "create temp table clean as select e.* from expected e join left_out o on o.row = e.identity >> 32"
        " anti join dirty d on d.key = e.key"
    )
    ((rows, all_keys),) = sql.execute(
        "select (select count(*) from records), (select count(*) from sizes)"
    ).fetchall()
    permitted = _permitted(sql)
    return Rest(
        watermarks_ms=[
            one for (one,) in sql.execute("select watermark_ms from watermarks order by batch").fetchall()
        ],
        latest_ms=_latest_ms(sql, history),
        counts=_counts(sql, history) | {"duplicates_permitted": sum(permitted.values())},
        permitted=permitted,
        stored=_by_batch(sql, history, "batch"),
        removed=_by_batch(sql, history, "removed"),
        late=_late(sql, history),
        readable=_readable(sql, history, last),
        data_batches=_number(sql, "select count(distinct batch) from placed semi join records using (row)"),
        duplicate_events=_number(
            sql,
            "select coalesce(sum(many - 1), 0) from (select count(*) as many from parsed p semi join records r"
            f" on r.row = p.n where n <= {last} and id is not null group by side, id) ids",
        ),
        must_drop=_must_drop(sql, history, last),
        notes=_notes(sql),
        rows=rows,
        keys=all_keys,
    )


def _notes(sql: Database) -> list[str]:
    """Why a run is inconclusive of which more keys are dirty than were handed on."""
    beyond = _number(sql, "select count(*) from dirty d anti join chosen_keys c using (key)")
    if not beyond:
        return []
    return [f"{beyond:,} more keys have rows that are not as they should be; none of these was looked at"]


def _number(sql: Database, query: str) -> int:
    ((found,),) = sql.execute(query).fetchall()
    return int(found or 0)


def _latest_ms(sql: Database, history: History) -> list[tuple[int | None, int | None]]:
    """The latest event time of each side in each batch, of the rows that reach the watermark."""
    found: list[list[int | None]] = [[None, None] for _ in history.batches]
    for batch, side, latest_us in sql.execute(
        "select w.batch, w.side, max(coalesce(p.time_us, 0)) from rows w join parsed p on p.n = w.row group by all"
    ).fetchall():
        found[batch][side] = latest_us // US_PER_MS
    return [(left, right) for left, right in found]


def _counts(sql: Database, history: History) -> dict[str, int]:
    found = {
        "rows_in": _number(sql, "select count(*) from left_out"),
        "unreadable": _number(sql, "select count(*) from left_out where not readable"),
        "null_key": _number(sql, "select count(*) from left_out where readable and has_null_key"),
        "late": _number(sql, "select count(*) from rows w semi join left_out o using (row) where is_late"),
        "edge": _number(
            sql,
            "select count(*) from rows w semi join left_out o using (row) join watermarks k on k.batch = w.batch - 1"
            f" where k.watermark_ms > 0 and abs(w.time_us - k.watermark_ms * {US_PER_MS}) <= {_EDGE_US}",
        ),
        "matched": _number(
            sql,
            "select count(distinct a.l) from answers a join left_out o on o.row = a.l"
            f" where a.comes and {'true' if history.contract.output.right_id is None else 'a.r is not null'}",
        ),
        "expected_rows": _number(sql, "select count(*) from clean where comes"),
        "joined_rows": _number(sql, f"select count(*) from clean where comes and identity & {ROW_MASK} <> 0"),
        "output_records": _number(
            sql,
            "select count(*) from came c where identity is not null and l not in (select row from chosen)"
            " and (r is null or r not in (select row from chosen))"
            " or identity is not null and l is null and r not in (select row from chosen)",
        ),
    }
    alone = found["expected_rows"] - found["joined_rows"]
    found["semi_rows" if history.contract.output.right_id is None else "null_rows"] = alone
    for side in (LEFT, RIGHT):
        topic = history.side(side).topic
        found[f"{topic}_in"] = _number(sql, f"select count(*) from left_out where side = {side}")
        found[f"{topic}_late"] = _number(
            sql,
            f"select count(*) from rows w semi join left_out o using (row) where is_late and w.side = {side}",
        )
    return found


def _permitted(sql: Database) -> dict[int, int]:
    """Rows of clean keys that came again, by batch."""
    return dict(
        sql.execute(
            "select c.batch, sum(t.many - 1) from clean c join times t using (identity) where c.comes and t.many > 1"
            " group by c.batch"
        ).fetchall()
    )


def _by_batch(sql: Database, history: History, column: str) -> tuple[np.ndarray, np.ndarray]:
    """How many rows that are left out enter the state in each batch (``batch``), or leave it (``removed``)."""
    found = np.zeros((2, len(history.batches)), dtype=np.int64)
    for batch, side, many in sql.execute(
        f"select s.{column}, o.side, count(*) from stored s join left_out o using (row)"
        f" where s.{column} is not null group by all"
    ).fetchall():
        found[side][batch] = many
    return found[LEFT], found[RIGHT]


def _late(sql: Database, history: History) -> np.ndarray:
    found = np.zeros(len(history.batches), dtype=np.int64)
    for batch, many in sql.execute(
        "select w.batch, count(*) from rows w semi join left_out o using (row) where w.is_late group by all"
    ).fetchall():
        found[batch] = many
    return found


def _readable(sql: Database, history: History, last: int) -> list[Readable]:
    """How much of each topic is readable, without sentinels."""
    found = []
    for side in (LEFT, RIGHT):
        about = history.side(side)
        of_side = f"from records r where r.side = {side} and r.row <= {last}"
        records = _number(sql, f"select count(*) {of_side}")
        unreadable = _number(sql, f"select count(*) {of_side} and not r.readable")
        first = None
        if unreadable:
            ((part, position),) = sql.execute(
                f"select r.part, r.position {of_side} and not r.readable order by r.row limit 1"
            ).fetchall()
            first = InputRecord(about.topic, part, position, None, is_sentinel=False)
        found.append(Readable(about.topic, about.time, records, unreadable, first))
    return found


def _must_drop(sql: Database, history: History, last: int) -> bool:
    """Whether rows lie so far behind that they are late whatever the batches; asked of the pace ``stepped`` only."""
    contract = history.contract
    if history.manifest.pace != "stepped":
        return False
    delays = [one.watermark_delay_ms for one in (contract.left, contract.right)]
    seen = (
        "select p.side, p.part, p.position, coalesce(p.time_us, 0) as event_us, w.time_us from rows w join parsed p"
        f" on p.n = w.row where p.n <= {last} and p.time_us is not null"
    )
    ends_us = [
        None
        if delay is None
        else _number(sql, f"select max(event_us) from ({seen}) s where side = {side}") - delay * US_PER_MS
        for side, delay in enumerate(delays)
    ]
    for side, (end_us, delay) in enumerate(zip(ends_us, delays, strict=True)):
        other_us = ends_us[1 - side]
        if end_us is None or delay is None:
            continue
        held_us = end_us if contract.policy is WatermarkPolicy.MAX or other_us is None else other_us
        behind = (
            "select time_us, max(event_us) over (partition by part order by position rows between unbounded preceding"
            f" and 1 preceding) as before_us from ({seen}) s where side = {side}"
        )
        limit = f"least(before_us - {delay * US_PER_MS}, {held_us})"
        if _number(
            sql, f"select count(*) from ({behind}) b where before_us is not null and time_us < {limit}"
        ):
            return True
    return False
