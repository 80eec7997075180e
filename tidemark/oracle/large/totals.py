"""What is known of the rows that a reduction leaves out, in numbers (``tidemark.oracle.input.rest``).

Free of I/O; reads the tables of a reduction.
"""

from __future__ import annotations

import numpy as np

from tidemark.formats.contract import WatermarkPolicy
from tidemark.formats.evidence import InputRecord
from tidemark.oracle.input.history import ROW_BITS, History
from tidemark.oracle.input.rest import Rest
from tidemark.oracle.input.unreadable import Readable
from tidemark.oracle.large.engine import Engine
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, US_PER_MS
from tidemark.oracle.sql.join_rules import Select

Pair = tuple[np.ndarray, np.ndarray]
_EDGE_US = 1 * US_PER_MS


_LEFT_OUT = "anti join chosen c on c.row ="
"""Behind it stands what names a row: of the rows that are left out."""
_CLEAN = f"(select e.* from expected e {_LEFT_OUT} e.row anti join dirty d on d.key = e.key)"


def count_rest(engine: Engine, history: History) -> Rest:
    """Count all of it."""
    ((rows, all_keys),) = engine.rows("select (select count(*) from records), (select count(*) from sizes)")
    permitted = _permitted(engine)
    late, edge = _late(engine, history)
    stored, removed = _state(engine, history)
    return Rest(
        watermarks_ms=[one for (one,) in engine.rows("select watermark_ms from watermarks order by batch")],
        latest_ms=_latest_ms(engine, history),
        counts=_counts(engine, history, late)
        | {"edge": edge, "duplicates_permitted": sum(permitted.values())},
        permitted=permitted,
        stored=stored,
        removed=removed,
        late=late.sum(axis=0),
        readable=_readable(engine, history),
        data_batches=_number(engine, "select count(distinct batch) from read_batches"),
        duplicate_events=engine.repeated(
            "side, id", "select side, id from parsed where not is_sentinel and id is not null"
        ),
        must_drop=_must_drop(engine, history),
        notes=_notes(engine),
        rows=rows,
        keys=all_keys,
    )


def _notes(engine: Engine) -> list[str]:
    """Why a run is inconclusive of which more keys are dirty than were handed on, or output records that name them."""
    beyond = _number(engine, "select count(*) from dirty d anti join chosen_keys c on c.key = d.key")
    records = _number(engine, "select count(*) from picked where not is_whole")
    if not beyond and not records:
        return []
    named = f", nor were {records:,} output records that name rows of them" if records else ""
    return [
        f"{beyond:,} more keys have rows that are not as they should be; none of these was looked at{named}"
    ]


def _number(engine: Engine, query: str) -> int:
    ((found,),) = engine.rows(query)
    return int(found or 0)


def _latest_ms(engine: Engine, history: History) -> list[tuple[int | None, int | None]]:
    """The latest event time of each side in each batch, of the rows that reach the watermark."""
    found: list[list[int | None]] = [[None, None] for _ in history.batches]
    times = "from rows t"
    if history.contract.bound.window_ms is not None:  # there the time of a row is the end of its window
        times = "from (select w.batch, w.side, r.time_us from rows w join records r on r.row = w.row) t"
    for batch, side, latest_us in engine.rows(
        f"select t.batch, t.side, max(coalesce(t.time_us, 0)) {times} group by t.batch, t.side"
    ):
        found[batch][side] = latest_us // US_PER_MS
    return [(left, right) for left, right in found]


def _counts(engine: Engine, history: History, late: np.ndarray) -> dict[str, int]:
    """``late``: of each side and batch."""
    is_semi = history.contract.output.right_id is None
    found = {"rows_in": 0, "unreadable": 0, "null_key": 0, "late": int(late.sum())}
    for side in (LEFT, RIGHT):
        topic = history.side(side).topic
        found |= {f"{topic}_in": 0, f"{topic}_late": int(late[side].sum())}
    for side, many, unreadable, null_key in engine.rows(
        "select r.side, count(*), sum(case when r.readable then 0 else 1 end),"
        " sum(case when r.readable and r.has_null_key then 1 else 0 end)"
        f" from records r {_LEFT_OUT} r.row group by r.side"
    ):
        found[f"{history.side(side).topic}_in"] = many
        for name, more in (("rows_in", many), ("unreadable", unreadable), ("null_key", null_key)):
            found[name] += int(more)
    for side, absent in engine.rows(
        "select a.side, count(*) from absent a semi join records r on r.row = a.row"
        f" {_LEFT_OUT} a.row group by a.side"
    ):
        for name in (f"{history.side(side).topic}_in", "rows_in", "unreadable"):
            found[name] -= absent
    ((expected, joined),) = engine.rows(
        f"select count(*), coalesce(sum(case when identity % {1 << ROW_BITS} <> 0 then 1 else 0 end), 0)"
        f" from {_CLEAN} clean where comes"
    )
    return found | {
        "matched": _matched(engine, is_semi=is_semi),
        "output_records": _number(
            engine,
            "select (select count(*) from came) - (select count(*) from picked where is_whole)",
        ),
        "expected_rows": expected,
        "joined_rows": int(joined),
        "semi_rows" if is_semi else "null_rows": expected - int(joined),
    }


def _matched(engine: Engine, *, is_semi: bool) -> int:
    """How many left rows that are left out have a partner: a number of each part."""
    has_partner = "" if is_semi else f" and e.identity % {1 << ROW_BITS} <> 0"
    text = (
        f"select count(distinct e.row) as many from expected e {_LEFT_OUT} e.row where e.comes{has_partner}"
    )
    engine.make_relations([Select("matched", text)], "matched")
    return _number(engine, "select sum(many) from matched")


def _permitted(engine: Engine) -> dict[int, int]:
    """Rows of clean keys that came again, by batch."""
    engine.make("again", "select identity, many from times where many > 1")
    found = engine.rows(
        f"select c.batch, sum(t.many - 1) from {_CLEAN} c join again t on t.identity = c.identity"
        " where c.comes group by c.batch"
    )
    return {batch: int(more) for batch, more in found}


def _state(engine: Engine, history: History) -> tuple[Pair, Pair]:
    """How many rows that are left out enter the state in each batch, and leave it; by side."""
    stored, removed = (np.zeros((2, len(history.batches)), dtype=np.int64) for _ in range(2))
    for side, batch, removed_in, many in engine.rows(
        f"select s.side, s.batch, s.removed, count(*) from stored s {_LEFT_OUT} s.row"
        " group by s.side, s.batch, s.removed"
    ):
        stored[side][batch] += many
        if removed_in is not None:
            removed[side][removed_in] += many
    return (stored[LEFT], stored[RIGHT]), (removed[LEFT], removed[RIGHT])


def _late(engine: Engine, history: History) -> tuple[np.ndarray, int]:
    """How many rows that are left out are late, by side and batch; and how many are near the late watermark."""
    found, edge = np.zeros((2, len(history.batches)), dtype=np.int64), 0
    near = f"k.watermark_ms > 0 and abs(w.time_us - k.watermark_ms * {US_PER_MS}) <= {_EDGE_US}"
    for batch, side, late, edges in engine.rows(
        "select w.batch, w.side, sum(case when w.is_late then 1 else 0 end),"
        f" sum(case when {near} then 1 else 0 end) from rows w {_LEFT_OUT} w.row"
        " left join watermarks k on k.batch = w.batch - 1 group by w.batch, w.side"
    ):
        found[side][batch] = late
        edge += int(edges)
    return found, edge


def _readable(engine: Engine, history: History) -> list[Readable]:
    """How much of each topic is readable, without sentinels."""
    found = []
    for side in (LEFT, RIGHT):
        about = history.side(side)
        of_side = (
            "from records r anti join sentinels s on s.row = r.row anti join absent a on a.row = r.row"
            f" where r.side = {side}"
        )
        ((records, unreadable),) = engine.rows(
            f"select count(*), coalesce(sum(case when r.readable then 0 else 1 end), 0) {of_side}"
        )
        first = None
        if unreadable:
            ((part, position),) = engine.rows(
                f"select r.part, r.position {of_side} and not r.readable order by r.row limit 1"
            )
            first = InputRecord(about.topic, part, position, None, is_sentinel=False)
        found.append(Readable(about, records, int(unreadable), first))
    return found


def _must_drop(engine: Engine, history: History) -> bool:
    """Whether rows lie so far behind that they are late whatever the batches; asked of the pace ``stepped`` only."""
    contract = history.contract
    if history.manifest.pace != "stepped":
        return False
    delays = [one.watermark_delay_ms for one in (contract.left, contract.right)]
    seen = (
        "select p.side, p.part, p.position, coalesce(p.time_us, 0) as event_us, w.time_us from rows w join parsed p"
        " on p.n = w.row where not p.is_sentinel and p.time_us is not null"
    )
    ends_us = [
        None
        if delay is None
        else _number(engine, f"select max(event_us) from ({seen}) s where side = {side}") - delay * US_PER_MS
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
            engine, f"select count(*) from ({behind}) b where before_us is not null and time_us < {limit}"
        ):
            return True
    return False
