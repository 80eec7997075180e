"""Relations from offsets to the rows of both sides: batches, watermarks, lateness, and when rows leave the state."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.formats.contract import WatermarkPolicy
from tidemark.oracle.spark.pushdown import must_be_there
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, US_PER_MS
from tidemark.oracle.sql.join_rules import (
    JoinRules,
    Select,
    all_of,
    by_side,
    fields_of,
    milliseconds,
    passes_filter,
    quoted,
    rounded_down,
    value_us,
)


def row_relations(rules: JoinRules) -> list[Select]:
    """``rows`` that the join reads, of them ``lefts`` and ``rights`` that can match, and what they are made of."""
    return [
        Select("placed", PLACED),
        Select("events", _events(rules)),
        *_watermarks(rules),
        *side_relations(rules),
    ]


def side_relations(rules: JoinRules) -> list[Select]:
    """From ``events`` and ``watermarks`` on: which rows are late, when they leave the state, and which can match."""
    return [
        Select("marks", _marks(rules), of_all=True),
        *_endings(rules),
        Select("rows", _rows(rules)),
        Select("lefts", _matchable(rules, LEFT)),
        Select("rights", _matchable(rules, RIGHT)),
    ]


PLACED = """
select row, batch
from (
    select row, is_row, min(batch) over (
        partition by side, part order by position desc, is_row desc
        rows between unbounded preceding and current row
    ) as batch
    from (
        select r.row, r.side, r.part, r.position, cast(null as bigint) as batch, 1 as is_row
        from records r left join starts s on r.side = s.side and r.part = s.part
        where r.position >= coalesce(s.position, 0)
        union all
        select cast(null as bigint), side, part, position, batch, 0 from ends
    ) all_positions
) all_rows
where is_row = 1 and batch is not null
"""
"""The batch of a row is the first one that ends behind it."""


def _events(rules: JoinRules) -> str:
    """The rows that reach the watermark; of those not ``is_sure`` Spark decides batch by batch."""
    length_ms = rules.contract.bound.window_ms
    time_us = "r.time_us"
    if length_ms is not None:
        length_us = length_ms * US_PER_MS
        time_us = f"{rounded_down('r.time_us', length_us)} + {length_us}"
    sure = [all_of([passes_filter(what) for what in of_side]) for of_side in rules.pushdown.inferable]
    return f"""
select r.row, r.side, p.batch, r.key, r.has_null_key, {time_us} as time_us, coalesce(r.time_us, 0) as event_us,
    {by_side(*sure)} as is_sure{fields_of(rules)}
from records r join placed p on r.row = p.row
where r.readable and {by_side(_passed(rules, LEFT), _passed(rules, RIGHT))}
"""


def _passed(rules: JoinRules, side: int) -> str:
    """Whether a row of a side passes what Spark asks of it upstream of the watermark."""
    asked = [passes_filter(what) for what in rules.pushdown.below[side]]
    needed = must_be_there(rules.pushdown, side, rules.contract.kind)
    asked += [f"{quoted(name)} is not null" for name in needed]
    if not rules.preserves(side):
        asked.append("not r.has_null_key")
        if not rules.is_boundless:
            asked.append("r.time_us is not null")
    return all_of(asked)


_NO_WATERMARKS = """
select batch, 0 as watermark_ms from plans
union all
select coalesce(max(batch) + 1, 0), 0 from plans
"""
_CHECKPOINT_WATERMARKS = """
select batch, checkpoint_ms as watermark_ms from plans
union all
select batch + 1, checkpoint_ms from plans where batch = (select max(batch) from plans)
union all
select 0, 0 where not exists (select 1 from plans)
"""
"""The batch that would come next has that of the last one."""
_WATERMARKS = """
select r.batch, case when p.checkpoint_ms between r.least_ms and r.most_ms then p.checkpoint_ms
    else r.most_ms end as watermark_ms
from (
    select batch,
        max(most_ms) over (order by batch rows between unbounded preceding and current row) as most_ms,
        max(least_ms) over (order by batch rows between unbounded preceding and current row) as least_ms
    from (select batch + 1 as batch, most_ms, least_ms from reached union all select 0, 0, 0) shown
) r left join plans p on p.batch = r.batch
"""
"""Where Spark had a choice, that of the checkpoint, if it is one that it can have."""


def _watermarks(rules: JoinRules) -> list[Select]:
    """The watermark of each batch, and of the one that would come next."""
    if rules.by_checkpoint:
        return [Select("watermarks", _CHECKPOINT_WATERMARKS, of_all=True)]
    return watermark_relations([side.watermark_delay_ms for side in rules.sides], rules.contract.policy)


def watermark_relations(delays_ms: Sequence[int | None], policy: WatermarkPolicy) -> list[Select]:
    """``watermarks`` by the event times of ``events``; ``delays_ms``: of each side, ``None`` without a watermark."""
    if delays_ms.count(None) == len(delays_ms):
        return [Select("watermarks", _NO_WATERMARKS, of_all=True)]
    return [
        Select("reached", _reached(delays_ms, policy), of_all=True),
        Select("watermarks", _WATERMARKS, of_all=True),
    ]


def _reached(delays_ms: Sequence[int | None], policy: WatermarkPolicy) -> str:
    """What the event times up to each batch give: with all rows that Spark may drop, and with none of them."""
    pick = "min" if policy is WatermarkPolicy.MIN else "max"
    delays = " union all ".join(
        f"select {side} as side, {delay_ms} as delay_ms"
        for side, delay_ms in enumerate(delays_ms)
        if delay_ms is not None
    )
    running = (
        "(partition by d.side, e.epoch order by e.batch rows between unbounded preceding and current row)"
    )
    return f"""
select batch, {pick}(most_ms) as most_ms, {pick}(least_ms) as least_ms
from (
    select e.batch, coalesce(max(l.most_ms) over {running} - d.delay_ms, 0) as most_ms,
        coalesce(max(l.least_ms) over {running} - d.delay_ms, 0) as least_ms
    from (
        select batch, sum(case when restarted then 1 else 0 end) over (
            order by batch rows between unbounded preceding and current row
        ) as epoch
        from plans
    ) e cross join ({delays}) d left join (
        select batch, side, {milliseconds("most_us")} as most_ms, {milliseconds("least_us")} as least_ms
        from (
            select batch, side, max(event_us) as most_us, max(case when is_sure then event_us end) as least_us
            from events group by batch, side
        ) latest
    ) l on l.batch = e.batch and l.side = d.side
) shown
group by batch
"""


def _state_us(rules: JoinRules, side: int, watermark: str) -> str:
    """The last time at which a row of a side leaves the state under a watermark; NULL: none does."""
    needed = any if rules.contract.bound.equal else all
    if not needed(rules.watermarked):
        return "cast(null as bigint)"
    found = [str(limit_ms * US_PER_MS) for limit_ms in rules.pushdown.limits_ms[side]]
    found += [value] if (value := value_us(rules, side, watermark)) else []
    return f"least({', '.join(found)})" if len(found) > 1 else (found or ["cast(null as bigint)"])[0]


def _marks(rules: JoinRules) -> str:
    """Of each batch and side: the times up to which rows are late, leave the state, and were left in it before."""
    end = by_side(*(_state_us(rules, side, "w.watermark_ms") for side in (LEFT, RIGHT)))
    done = by_side(*(_state_us(rules, side, "b.watermark_ms") for side in (LEFT, RIGHT)))
    return f"""
select p.batch, side as of_side, coalesce(b.watermark_ms, 0) * 1000 as late_us, {end} as end_us,
    case when p.batch > 0 then {done} end as done_us
from plans p cross join (select {LEFT} as side union all select {RIGHT}) both_sides
join watermarks w on w.batch = p.batch left join watermarks b on b.batch = p.batch - 1
"""


def _endings(rules: JoinRules) -> list[Select]:
    """For each row the first batch whose watermark reaches its end, be it before its own.

    Where times are in buckets, ``beyond`` has for each bucket the batch of all ends that are behind it.
    """
    position = "coalesce(time_us, 0)" if rules.by_time else "time_us"
    of_row, of_mark, partition, found, more = "", "", "side", [], ""
    if rules.bucket_us is not None:
        of_row, of_mark = (
            f"{rounded_down(what, rules.bucket_us)} as bucket, " for what in (position, "end_us")
        )
        partition = "side, bucket"
        found = [Select("beyond", _beyond(position, rules.bucket_us))]
        more = f"union all select cast(null as bigint), side, bucket, bucket + {rules.bucket_us}, batch, 0 from beyond"
    text = f"""
select row, ending
from (
    select row, is_row, min(batch) over (
        partition by {partition} order by position desc, is_row rows between unbounded preceding and current row
    ) as ending
    from (
        select row, side, {of_row}{position} as position, cast(null as bigint) as batch, 1 as is_row from events
        where {position} is not null
        union all
        select cast(null as bigint), of_side, {of_mark}end_us, batch, 0 from marks where end_us is not null
        {more}
    ) all_positions
) all_rows
where is_row = 1 and ending is not null
"""
    return [*found, Select("endings", text)]


def _beyond(position: str, bucket_us: int) -> str:
    """For each bucket with a row the first batch that evicts all of it."""
    return f"""
select side, bucket, batch
from (
    select side, bucket, is_bucket, min(batch) over (
        partition by side order by position desc, is_bucket rows between unbounded preceding and current row
    ) as batch
    from (
        select side, bucket, bucket + {bucket_us} as position, cast(null as bigint) as batch, 1 as is_bucket
        from (
            select distinct side, {rounded_down(position, bucket_us)} as bucket from events where {position} is not null
        ) buckets
        union all
        select of_side, cast(null as bigint), end_us, batch, 0 from marks where end_us is not null
    ) all_positions
) all_buckets
where is_bucket = 1 and batch is not null
"""


def _rows(rules: JoinRules) -> str:
    """The rows that the join reads: late, or with the batch in which they leave the state (NULL: they stay).

    ``ending`` may be before the batch of the row, ``gone`` is not. A row that ``lasts`` is not evictable in its own
    batch. ``stays``: it leaves the state never, though others of its time do.
    """
    late = ["coalesce(e.time_us <= m.late_us, false)" if has else "false" for has in rules.watermarked]
    early = [all_of([passes_filter(what) for what in of_side]) for of_side in rules.pushdown.early]
    stays = "coalesce(coalesce(e.time_us, 0) <= m.done_us, false)" if rules.misses_rows else "false"
    return f"""
select e.row, e.side, e.batch, e.key, e.has_null_key, e.time_us, {by_side(*late)} as is_late, e.is_sure,
    {by_side(*early)} as may_match, coalesce(e.time_us > m.end_us, true) as lasts, {stays} as stays, g.ending,
    case when {stays} then null when g.ending < e.batch then e.batch else g.ending end as gone{fields_of(rules)}
from events e join marks m on m.batch = e.batch and m.of_side = e.side left join endings g on g.row = e.row
"""


def _matchable(rules: JoinRules, side: int) -> str:
    """The accepted rows that can match something, with a time for each."""
    asked = [f"side = {side}", "not is_late", "is_sure", "may_match"]
    if not rules.nulls_match:
        asked.append("not has_null_key")
    time_us = "coalesce(time_us, 0) as time_us"
    if not rules.is_boundless:
        asked.append("time_us is not null")
        time_us = "time_us"
    asked += [
        f"{quoted(field)} is not null"
        for term in rules.pushdown.pairs
        if (field := term.right if side else term.left) is not None
    ]
    return (
        f"select row, batch, key, has_null_key, {time_us}, lasts, ending, gone{fields_of(rules)}"
        f" from rows where {all_of(asked)}"
    )
