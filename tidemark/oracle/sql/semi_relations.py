"""Relations from the rows of both sides to those that a left semi join gives."""

from __future__ import annotations

from tidemark.oracle.spark.known_defects import LEFT_SEMI_LOSES_SAME_BATCH_ROWS, ONE_SIDED_WATERMARK
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.oracle.sql.join_rules import (
    JoinRules,
    Select,
    all_of,
    conditions,
    first_of_cases,
    in_range,
    lacks_a_watermark,
    popular_keys,
    probe,
    unpopular_rights,
)


def semi_relations(rules: JoinRules) -> list[Select]:
    """``answers``: what is right, and what comes; and ``stored``, the rows that are in the state."""
    return [
        *_of_popular_keys(rules),
        Select("hits", _hits(rules)),
        Select("matches", _matches(rules)),
        Select("answers", _answers(rules)),
        Select("stored", _stored(rules)),
    ]


_HIT = "l.row as l, l.batch as l_batch, l.ending as l_ending, l.gone as l_gone"


def _of_popular_keys(rules: JoinRules) -> list[Select]:
    """The right rows of a batch are a group: of them it matters only whether there is one that a left row matches."""
    if rules.popular is None:
        return []
    first, last = rules.ends_us(RIGHT), rules.ends_us(LEFT)
    reaches = all_of(
        [
            *([f"g.latest_us >= l.time_us - {first}"] if first is not None else []),
            *([f"g.earliest_us <= l.time_us + {last}"] if last is not None else []),
        ]
    )
    return [
        Select("popular", popular_keys(rules)),
        Select("popular_rights", "select r.* from rights r join popular p on r.key = p.key"),
        Select(
            "reaching",
            "select l.*, g.batch as r_batch, g.lasts as r_lasts from lefts l join ("
            "select key, batch, lasts, min(time_us) as earliest_us, max(time_us) as latest_us"
            f" from popular_rights group by key, batch, lasts) g on l.key = g.key where {reaches}",
        ),
        Select("popular_hits", _popular_hits(rules)),
    ]


def _popular_hits(rules: JoinRules) -> str:
    """Which groups have a row that a left row matches."""
    if rules.pushdown.pairs:
        return (
            f"select {_HIT}, l.r_batch, l.r_lasts as lasts from reaching l semi join popular_rights r"
            " on l.key = r.key and l.r_batch = r.batch and l.r_lasts = r.lasts"
            f" and {in_range(rules)}{conditions(rules)}"
        )
    high = rules.ends_us(LEFT)
    return f"""
select row as l, l_batch, l_ending, l_gone, batch as r_batch, lasts
from (
    select row, l_batch, l_ending, l_gone, batch, lasts, is_row, time_us,
        min(case when is_row = 0 then position end) over (
            partition by key, batch, lasts order by position desc, is_row
            rows between unbounded preceding and current row
        ) as next_us
    from (
        select cast(null as bigint) as row, cast(null as bigint) as l_batch, cast(null as bigint) as l_ending,
            cast(null as bigint) as l_gone, key, batch, lasts, time_us as position, cast(null as bigint) as time_us,
            0 as is_row
        from popular_rights
        union all
        select row, batch, ending, gone, key, r_batch, r_lasts, {probe(rules, RIGHT)}, time_us, 1 from reaching
    ) all_positions
) all_rows
where is_row = 1 and {"next_us is not null" if high is None else f"next_us <= time_us + {high}"}
"""


def _hits(rules: JoinRules) -> str:
    """Left rows, and the batches of right rows that they match."""
    found = (
        f"select {_HIT}, r.batch as r_batch, r.lasts from lefts l join {unpopular_rights(rules)} r"
        f" on l.key = r.key where {in_range(rules)}{conditions(rules)}"
    )
    if rules.popular is None:
        return found
    return f"{found} union all select l, l_batch, l_ending, l_gone, r_batch, lasts from popular_hits"


def _matches(rules: JoinRules) -> str:
    """The left rows that match, with the batch of the first match (NULL: Spark sees none).

    ``met``: a right row is in the state when the left row comes. Where left rows come first, a right row of the same
    batch is not yet there, and finds the left row. Where times are equal and a side has no watermark, a left row may
    come when its right row has left the state.
    """
    is_equal_alone = rules.contract.bound.equal and not all(rules.watermarked)
    there = "lasts and coalesce(l_ending >= l_batch, true)" if is_equal_alone else "lasts"
    met = f"(r_batch {'<=' if rules.semi_right_first else '<'} l_batch)"
    if rules.left_first:
        met = f"(r_batch < l_batch or r_batch = l_batch and not {_is_left_first(rules, 'l_batch')})"
    return f"""
select l, l_batch, min(
    case when r_batch > l_batch then case when coalesce(l_gone >= r_batch, true) then r_batch end
    when {met} then case when {there} then l_batch end
    else l_batch end
) as batch, max(case when {met} and {there} then 1 end) as met,
    min(case when r_batch = l_batch and not lasts then 1 else 0 end) = 1 as is_of_same_batch
from hits group by l, l_batch
"""


def _is_left_first(rules: JoinRules, batch: str) -> str:
    """Whether the Spark that ran a batch takes its left rows first."""
    return "(" + " or ".join(f"{batch} between {first} and {last}" for first, last in rules.left_first) + ")"


def _answers(rules: JoinRules) -> str:
    lost = [("batch is null and is_of_same_batch", LEFT_SEMI_LOSES_SAME_BATCH_ROWS)]
    if lacks_a_watermark(rules) and rules.contract.bound.equal:
        lost.append(("batch is null", ONE_SIDED_WATERMARK))
    return (
        "select l, cast(null as bigint) as r, coalesce(batch, l_batch) as batch, true as is_right,"
        f" batch is not null as comes, {first_of_cases(lost)} as defect from matches"
    )


def _stored(rules: JoinRules) -> str:
    """The rows that enter the state, with the batch in which they leave it: of a left row perhaps that of its match."""
    removed = "coalesce(m.batch, w.gone)" if rules.semi_right_first else "w.gone"
    if rules.left_first:  # a row that is emitted there is marked, and stays until it is evicted
        removed = f"case when {_is_left_first(rules, 'm.batch')} then w.gone else {removed} end"
    return f"""
select w.row, w.side, w.batch, {removed} as removed from rows w left join matches m on m.l = w.row
where not w.is_late and w.is_sure and w.may_match and case when w.side = {LEFT} then m.met is null else w.lasts end
"""
