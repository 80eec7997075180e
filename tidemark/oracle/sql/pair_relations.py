"""Relations from the rows of both sides to pairs and NULL rows: all joins but the left semi join."""

from __future__ import annotations

from tidemark.oracle.spark.known_defects import (
    CONDITION_BOUNDS_THE_STATE,
    FORMAT_4_MISSES_ROWS,
    FULL_OUTER_JOINS_NULL_KEYS,
    NULL_EVENT_TIME_NEVER_EVICTED,
    ONE_SIDED_WATERMARK,
)
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, US_PER_MS
from tidemark.oracle.sql.join_rules import (
    JoinRules,
    Select,
    all_of,
    by_side,
    conditions,
    first_of_cases,
    in_range,
    lacks_a_watermark,
    popular_keys,
    probe,
    unpopular_rights,
    value_us,
)


def pair_relations(rules: JoinRules, each_number: str) -> list[Select]:
    """``answers``: what is right, and what comes; and ``stored``, the rows that are in the state."""
    preserved = [side for side in (LEFT, RIGHT) if rules.preserves(side)]
    return [
        *_of_popular_keys(rules, each_number),
        Select("candidates", _candidates(rules)),
        Select("pairs", _pairs(rules)),
        *([Select("alone", _alone(rules, preserved))] if preserved else []),
        Select("answers", _answers(rules, preserved)),
        Select("stored", _stored(rules)),
    ]


def _of_popular_keys(rules: JoinRules, each_number: str) -> list[Select]:
    """The right rows of a key have places in the order of time; a left row reaches those from its first to its last."""
    if rules.popular is None:
        return []
    return [
        Select("popular", popular_keys(rules)),
        Select(
            "popular_rights",
            "select r.*, row_number() over (partition by r.key order by r.time_us, r.row) as place"
            " from rights r join popular p on r.key = p.key",
        ),
        Select("popular_lefts", "select l.* from lefts l join popular p on l.key = p.key"),
        Select("first_places", _places(rules, RIGHT)),
        Select("last_places", _places(rules, LEFT)),
        Select(
            "reaching",
            f"select s.*, {each_number.format(first='s.first_place', last='s.last_place')} as place from ("
            "select l.*, f.place as first_place, e.place as last_place from popular_lefts l"
            " join first_places f on f.row = l.row join last_places e on e.row = l.row where f.place <= e.place) s",
        ),
    ]


def _places(rules: JoinRules, side: int) -> str:
    """For each left row of a popular key the first place that it reaches (``RIGHT``), or the last one."""
    pick, order = ("min", "position desc") if side == RIGHT else ("max", "position")
    return f"""
select row, place
from (
    select row, is_row, {pick}(place) over (
        partition by key order by {order}, is_row rows between unbounded preceding and current row
    ) as place
    from (
        select cast(null as bigint) as row, key, time_us as position, place, 0 as is_row from popular_rights
        union all
        select row, key, {probe(rules, side)}, cast(null as bigint), 1 from popular_lefts
    ) all_positions
) all_rows
where is_row = 1 and place is not null
"""


def _candidates(rules: JoinRules) -> str:
    """All that match by key, time and condition, wherever they are in the state."""
    columns = (
        "l.key, l.row as l, r.row as r, l.batch as l_batch, r.batch as r_batch, l.gone as l_gone, r.gone as r_gone,"
        f" r.lasts as r_lasts, not (l.has_null_key or r.has_null_key) as is_right, {_scan(rules)} as is_scanned"
    )
    found = (
        f"select {columns} from lefts l join {unpopular_rights(rules)} r"
        f" on l.key = r.key where {in_range(rules)}{conditions(rules)}"
    )
    if rules.popular is None:
        return found
    return (
        f"{found} union all select {columns} from reaching l join popular_rights r on l.key = r.key"
        f" and l.place = r.place where true{conditions(rules)}"
    )


def _scan(rules: JoinRules) -> str:
    """Whether this Spark looks for the one row where the other is."""
    limits_ms, lower, upper = rules.pushdown.limits_ms, rules.ends_us(LEFT), rules.ends_us(RIGHT)
    ends = []
    if rules.misses_rows and all(rules.watermarked):
        if lower is None and limits_ms[LEFT]:
            ends.append(f"l.time_us - r.time_us > {min(limits_ms[LEFT]) * US_PER_MS}")
        if upper is None and limits_ms[RIGHT]:
            ends.append(f"l.time_us - r.time_us < {-min(limits_ms[RIGHT]) * US_PER_MS}")
    return f"({all_of(ends)})"


_MEETS_STORED = "c.l_batch <= c.r_batch and coalesce(c.l_gone >= c.r_batch, true) and c.is_scanned"
"""Whether the left row of a pair is in the state when its right row comes."""


def _pairs(rules: JoinRules) -> str:
    """``comes``: when the later row of a pair comes, the earlier one is still in the state."""
    found_later, source = "", "candidates c"
    if rules.misses_rows:
        # A right row that is evictable at once is not stored, though it would never leave the state.
        met = f"select c.r, max(1) as met from candidates c where {_MEETS_STORED} group by c.r"
        source += f" left join ({met}) m on c.r = m.r"
        found_later = " and (c.r_lasts or m.met is null)" if rules.preserves(RIGHT) else " and c.r_lasts"
    return f"""
select c.key, c.l, c.r, c.l_batch, c.r_batch,
    case when c.l_batch < c.r_batch then c.r_batch else c.l_batch end as batch,
    c.is_right, c.is_scanned, {_MEETS_STORED}
    or c.l_batch > c.r_batch and c.is_scanned and coalesce(c.r_gone >= c.l_batch, true){found_later} as comes
from {source}
"""


def _alone(rules: JoinRules, preserved: list[int]) -> str:
    """The rows of preserved sides that come alone, or ought to."""
    partners = " union all ".join(
        f"select {'lr'[side]} as row, is_right, is_scanned, comes from pairs" for side in preserved
    )
    not_timed = "false" if rules.is_boundless else "w.time_us is null"
    final = by_side(*(_is_final(rules, side) for side in (LEFT, RIGHT)))
    defect = by_side(*(_defect_of_null(rules, side) for side in (LEFT, RIGHT)))
    return f"""
select key, row, side, batch, is_right, comes, {defect} as defect
from (
    select w.key, w.row, w.side, case when w.may_match then w.gone else w.batch end as batch, w.has_null_key,
        w.time_us is null as has_no_time, w.stays, m.is_matched, m.is_hidden,
        m.is_matched is null and (not w.may_match or {not_timed} or {final}) as is_right,
        (not w.may_match or w.gone is not null) and m.comes is null as comes
    from rows w left join (
        select row, max(case when is_right then 1 end) as is_matched, max(case when comes then 1 end) as comes,
            max(case when is_right and not is_scanned then 1 end) as is_hidden
        from ({partners}) partners group by row
    ) m on m.row = w.row
    where w.side in ({", ".join(map(str, preserved))}) and not w.is_late and w.is_sure
) lone
where is_right or comes
"""


def _is_final(rules: JoinRules, side: int) -> str:
    """Whether a row can be matched no more, under the watermark of the last batch; without one it always may be.

    Where times are equal the watermark of either side will do.
    """
    moves = any(rules.watermarked) if rules.contract.bound.equal else rules.watermarked[1 - side]
    value = value_us(rules, side, "watermark_ms")
    if not value or not moves:
        return "false"
    last = f"select max({value}) from watermarks k join plans p on p.batch = k.batch"
    return f"coalesce(w.time_us <= ({last}), false)"


def _answers(rules: JoinRules, preserved: list[int]) -> str:
    defect = _defect_of_pair(rules)
    pairs = f"select key, l, r, batch, is_right, comes, {defect} as defect from pairs where is_right or comes"
    if not preserved:
        return pairs
    return (
        f"{pairs} union all select key, case when side = {LEFT} then row end, case when side = {RIGHT} then row end,"
        " batch, is_right, comes, defect from alone"
    )


def _stored(rules: JoinRules) -> str:
    """The rows that enter the state, with the batch in which they leave it."""
    met, unmet = "", ""
    if rules.preserves(RIGHT):  # one that is evictable in its own batch is not stored if it was matched in it
        met = "left join (select r, max(1) as met from pairs where comes and l_batch <= r_batch group by r) m"
        met, unmet = f"{met} on m.r = w.row", " or m.met is null"
    return (
        f"select w.row, w.side, w.batch, w.gone as removed from rows w {met}"
        f" where not w.is_late and w.is_sure and w.may_match and (w.side = {LEFT} or w.lasts{unmet})"
    )


def _defect_of_pair(rules: JoinRules) -> str:
    """The known defect that loses a right pair, or gives a wrong one."""
    limits_ms = rules.pushdown.limits_ms
    cases = [("is_right and not comes and not is_scanned", FORMAT_4_MISSES_ROWS)] if rules.misses_rows else []
    if limits_ms[LEFT] or limits_ms[RIGHT]:
        cases.append(("is_right and not comes", CONDITION_BOUNDS_THE_STATE))
    if lacks_a_watermark(rules) and rules.contract.bound.equal:
        cases.append(("is_right and not comes", ONE_SIDED_WATERMARK))
    if rules.nulls_match:
        cases.append(("comes and not is_right", FULL_OUTER_JOINS_NULL_KEYS))
    return first_of_cases(cases)


def _defect_of_null(rules: JoinRules, side: int) -> str:
    """The known defect that loses a right NULL row, or gives a wrong one."""
    limits_ms, lost, added = rules.pushdown.limits_ms, "is_right and not comes", "comes and not is_right"
    cases = [(f"{lost} and has_null_key", FULL_OUTER_JOINS_NULL_KEYS)] if rules.nulls_match else []
    cases.append((f"{lost} and has_no_time", NULL_EVENT_TIME_NEVER_EVICTED))
    if rules.misses_rows:
        cases.append((f"{lost} and stays", FORMAT_4_MISSES_ROWS))
        cases.append((f"{added} and is_hidden = 1", FORMAT_4_MISSES_ROWS))
    if limits_ms[side]:
        cases.append(("is_right <> comes", CONDITION_BOUNDS_THE_STATE))
    if limits_ms[1 - side]:
        cases.append((f"{added} and is_matched = 1", CONDITION_BOUNDS_THE_STATE))
    if lacks_a_watermark(rules):
        which = f"{added} and is_matched = 1" if rules.contract.bound.equal else lost
        cases.append((which, ONE_SIDED_WATERMARK))
    return first_of_cases(cases)
