"""What the relations of a join are made of: its rules, and pieces of SQL that several of them need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidemark.formats.contract import PRESERVED, Contract, Filter, JoinKind, Side
from tidemark.oracle.spark.pushdown import Pushdown
from tidemark.oracle.spark.time_ranges import FOREVER_US, LEFT, RIGHT, US_PER_MS

DUCKDB = "unnest(range({first}, {last} + 1))"
SPARK = "explode(sequence({first}, {last}))"
"""How an engine makes a row for each number of a range, both ends in it."""
_OTHER = re.compile(r"[^a-z0-9_]")


class Select(NamedTuple):
    """A ``select`` with a name. ``of_all``: of all keys together; of any other each key has its own rows, and that of
    some keys is made of the rows of these alone.
    """

    name: str
    text: str
    of_all: bool = False


@dataclass(frozen=True)
class JoinRules:
    """Of which join, and of which Spark: ``by_time`` if its state is ordered by time, ``misses_rows`` if that is wrong.

    ``semi_right_first``: a left semi join takes the right rows of a batch first (``SparkRules``), but in the batches
    ``left_first``, which another Spark ran.
    ``by_checkpoint``: the watermarks are those that the checkpoint names. ``popular``: a key that more right rows have
    than this is popular: a left row meets only those that its bound reaches; ``None``: no key is. ``bucket_us``: times
    within so many microseconds are a bucket, so that no window has all rows of a side; ``None``: one window has them.
    """

    contract: Contract
    pushdown: Pushdown
    by_time: bool = False
    misses_rows: bool = False
    by_checkpoint: bool = False
    popular: int | None = None
    bucket_us: int | None = None
    semi_right_first: bool = True
    left_first: tuple[tuple[int, int], ...] = ()

    @property
    def sides(self) -> tuple[Side, Side]:
        """Left and right."""
        return self.contract.left, self.contract.right

    @property
    def is_semi(self) -> bool:
        """Whether it is a left semi join."""
        return self.contract.kind is JoinKind.LEFT_SEMI

    @property
    def nulls_match(self) -> bool:
        """Whether Spark joins rows with equal keys of which a part is NULL."""
        return self.contract.kind is JoinKind.FULL_OUTER

    @property
    def watermarked(self) -> tuple[bool, bool]:
        """Which sides have a watermark."""
        return (
            self.contract.left.watermark_delay_ms is not None,
            self.contract.right.watermark_delay_ms is not None,
        )

    def preserves(self, side: int) -> bool:
        """Whether rows of a side come with NULLs if they match nothing."""
        return side in PRESERVED.get(self.contract.kind, ())

    @property
    def is_boundless(self) -> bool:
        """Whether times do not matter for a match."""
        bound = self.contract.bound
        return not bound.equal and bound.lower_ms is None and bound.upper_ms is None

    def end_ms(self, side: int) -> tuple[int | None, bool]:
        """How far the other side's time may lie ahead of a row's, and whether less than that; ``None``: no end."""
        bound = self.contract.bound
        if side == RIGHT:
            return bound.upper_ms, bound.upper_strict
        return None if bound.lower_ms is None else -bound.lower_ms, bound.lower_strict

    def ends_us(self, side: int) -> int | None:
        """The same in whole microseconds, inclusive, and 0 at most where times are equal."""
        ahead_ms, strict = self.end_ms(side)
        is_equal = self.contract.bound.equal
        if ahead_ms is None:
            return 0 if is_equal else None
        ahead_us = ahead_ms * US_PER_MS - strict
        return min(ahead_us, 0) if is_equal else ahead_us


def column_of(field: str) -> str:
    """The column of a field: its name with ``_`` behind it, so that it is none of the other columns.

    Engines ignore the case of a name, even of a quoted one. So all but small letters, digits and ``_`` is written as
    the number of the character: ``price`` is ``price_``, ``Price`` is ``$50$rice_``.
    """
    return _OTHER.sub(lambda found: f"${ord(found[0]):x}$", field) + "_"


def quoted(field: str) -> str:
    """The column of a field, as SQL quotes it."""
    return f'"{column_of(field)}"'


def passes_filter(what: Filter) -> str:
    """Whether a field passes a filter; NULL passes none."""
    return f"coalesce({quoted(what.field)} {what.op} {what.value}, false)"


def all_of(conditions: Sequence[str]) -> str:
    """Whether all of these hold."""
    return " and ".join(conditions) or "true"


def by_side(left: str, right: str) -> str:
    """What depends on the side of a row; a column named ``side`` has it."""
    return f"({left})" if left == right else f"(case when side = {LEFT} then {left} else {right} end)"


def fields_of(rules: JoinRules) -> str:
    """The fields that are compared, as a tail of a ``select``; a row has NULL in those of the other side."""
    every = dict.fromkeys([*rules.pushdown.fields[LEFT], *rules.pushdown.fields[RIGHT]])
    return "".join(f", {quoted(field)}" for field in every)


def popular_keys(rules: JoinRules) -> str:
    """The keys that are popular."""
    return f"select key from rights group by key having count(*) > {rules.popular}"


def unpopular_rights(rules: JoinRules) -> str:
    """The right rows of all other keys."""
    if rules.popular is None:
        return "rights"
    return "(select a.* from rights a left join popular p on a.key = p.key where p.key is null)"


def milliseconds(us: str) -> str:
    """Microseconds as milliseconds, rounded down.

    A product of decimal numbers is exact. ``/`` is of DOUBLE in both engines, which far times do not fit into.
    """
    return f"cast(cast({rounded_down(us, US_PER_MS)} as decimal(19, 0)) * 0.001 as bigint)"


def rounded_down(value: str, step: int) -> str:
    """The multiple of a step that is at or below a number; ``%`` has the sign of what is divided."""
    return f"{value} - (({value} % {step}) + {step}) % {step}"


def in_range(rules: JoinRules, left: str = "l.time_us", right: str = "r.time_us") -> str:
    """Whether two times match."""
    lower, upper = rules.ends_us(LEFT), rules.ends_us(RIGHT)
    ends = [f"{left} - {right} >= {-lower}"] if lower is not None else []
    return all_of(ends + ([f"{left} - {right} <= {upper}"] if upper is not None else []))


def conditions(rules: JoinRules) -> str:
    """The conditions over both sides, as a tail of a ``where``."""
    return "".join(
        f" and l.{quoted(term.left or '')} {term.op} r.{quoted(term.right or '')}"
        for term in rules.pushdown.pairs
    )


def probe(rules: JoinRules, side: int) -> str:
    """The time of the first right row that a left row reaches (``RIGHT``), or of the last one."""
    end = rules.ends_us(side)
    if end is None:
        return str(-FOREVER_US if side == RIGHT else FOREVER_US)
    return f"time_us - {end}" if side == RIGHT else f"time_us + {end}"


def value_us(rules: JoinRules, side: int, watermark: str) -> str:
    """The last time at which a row of a side matches no row past a watermark; empty: it always may."""
    if rules.contract.bound.equal:
        return f"{watermark} * 1000"
    ahead_ms, strict = rules.end_ms(side)
    return "" if ahead_ms is None else f"({watermark} - {ahead_ms + (not strict)}) * 1000"


def first_of_cases(cases: Sequence[tuple[str, str]]) -> str:
    """The first of these names whose condition holds."""
    whens = " ".join(f"when {condition} then '{name}'" for condition, name in cases)
    return f"case {whens} end" if whens else "cast(null as string)"


def lacks_a_watermark(rules: JoinRules) -> bool:
    """Whether just one side has a watermark."""
    return any(rules.watermarked) and not all(rules.watermarked)
