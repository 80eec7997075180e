"""Unsafe joins that Spark accepts: state that is never removed, a NULL row that can be wrong.

Free of I/O. Read from the plan where there is one (what Spark will clean up is written in it), else from the contract
alone. The rules are those of ``StreamingSymmetricHashJoinHelper.getStateWatermarkPredicates`` and
``StreamingJoinHelper.getStateValueWatermark``: an event time among the join keys gives both sides a state watermark;
else a side has one if it has a watermark, the other side has one too, and a conjunct of the condition that is nothing
but a sum of one column of each side, and of intervals without months, keeps this side's time from lying far back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.formats.contract import PRESERVED, Bound, Contract, JoinKind, WatermarkPolicy
from tidemark.preflight.named_by_paths import named_by_paths
from tidemark.preflight.physical_plan import QueryPlan
from tidemark.preflight.plan_conditions import read_conjuncts
from tidemark.preflight.plan_expressions import ATTRIBUTE, FLIPPED, linear, relation, tidy
from tidemark.preflight.plan_sides import Laid, Paired, lay

SEMI_LOSES_SINCE = (4, 2)
"""The first version whose left semi join drops rows of a batch that are past the state watermark already."""


@dataclass(frozen=True)
class Advice:
    """A join that Spark accepts: what is wrong by ``name``, why, and the change that mends it."""

    name: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class _Cause:
    """Why there is no state watermark, and what gives one."""

    why: str
    remedy: str


@dataclass(frozen=True)
class _Side:
    """What matters of one side: ``cleanup`` is ``key``, ``value`` or ``None``, for which there is a ``cause``."""

    topic: str
    time: str
    preserved: bool
    watermark: bool
    cleanup: str | None
    cause: _Cause
    null_time: bool


def advise(contract: Contract, plan: QueryPlan | None, spark_version: str = "") -> list[Advice]:
    """All that is unsafe about a join. With ``plan`` ``None``, or one of several joins, by the contract alone."""
    contract = named_by_paths(contract)
    is_one = plan is not None and len(plan.joins) == 1 and not contract.is_decoded
    laid = lay(contract, plan, plan.joins[0]) if plan is not None and is_one else None
    sides = _of_contract(contract) if laid is None else tuple(_of_plan(paired, laid) for paired in laid.sides)
    found = [*_state(sides), *_equal_times(sides), *_null_time(sides)]
    if laid is not None:
        found += [
            advice for paired in laid.sides for advice in (*_capped(paired), *_other_column(paired, laid))
        ]
    return [*found, *_of_kind(contract, laid, spark_version)]


def _of_contract(contract: Contract) -> tuple[_Side, ...]:
    bound, given = contract.bound, []
    marked = [side.watermark_delay_ms is not None for side in (contract.left, contract.right)]
    ends = (bound.lower_ms, bound.upper_ms)
    preserved = PRESERVED.get(contract.kind, ())
    for number, side in enumerate((contract.left, contract.right)):
        by_value = all(marked) and ends[number] is not None
        cleanup = ("key" if any(marked) else None) if bound.equal else "value" if by_value else None
        cause = _cause(side.time, marked[number], marked[1 - number], _end_of(bound, number))
        null_time = side.keeps_null_event_time
        given.append(
            _Side(side.topic, side.time, number in preserved, marked[number], cleanup, cause, null_time)
        )
    return tuple(given)


def _end_of(bound: Bound, number: int) -> _Cause | None:
    if bound.equal or (bound.lower_ms, bound.upper_ms)[number] is not None:
        return None
    end = ("lower_ms", "upper_ms")[number]
    return _Cause(f"the bound has no {end}", f"bound the times in the join's condition, and give {end}")


def _of_plan(paired: Paired, laid: Laid) -> _Side:
    other = laid.other(paired)
    own, others = bool(paired.plan.watermarks), bool(other.plan.watermarks)
    cause = _cause(paired.side.time, own, others, _end_in_plan(paired, laid))
    below = read_conjuncts(paired.plan.filters, paired)
    null_time = paired.side.time not in below.not_null and not any(
        paired.side.time in one for one in below.unread
    )
    return _Side(
        paired.side.topic, paired.side.time, paired.preserved, own, paired.plan.cleanup, cause, null_time and own,
    )  # fmt: skip


def _end_in_plan(paired: Paired, laid: Laid) -> _Cause | None:
    """Why the condition gives a side no state watermark."""
    found = ((text, ATTRIBUTE.finditer(text)) for text in laid.both)
    times = [text for text, names in found if any(paired.marks(one[0]) for one in names)]
    rewrite = f"compare {paired.side.time} with the other side's event time plus or minus an INTERVAL, and nothing else"
    if not times:
        return _Cause("the condition does not bound its event time by that of the other side", rewrite)
    for text in times:
        if re.search(r"INTERVAL '[^']*' (YEAR|MONTH)|\d (months|years)", text):
            why = f"{tidy(text)} has an interval of months, which have no length"
            return _Cause(why, "give the interval in days")
    for text in times:
        if not _is_read_by_spark(text):
            why = (
                f"Spark reckons no bound from {tidy(text)}: it is more than one column of each side, compared"
            )
            return _Cause(why, rewrite)
    why = f"{tidy(' AND '.join(times))} does not keep its time from lying as far back as it likes"
    return _Cause(why, f"bound {paired.side.time} from below by the other side's event time, too")


def _is_read_by_spark(text: str) -> bool:
    """Whether each side of a comparison is one column, no field of one, and intervals."""
    asked = relation(text)
    sums = [] if asked is None else [linear(asked.left), linear(asked.right)]
    columns = [list(one.columns) for one in sums if one is not None]
    return len(columns) == 2 and all(len(one) == 1 and "." not in one[0] for one in columns)


def _cause(time: str, own: bool, other: bool, end: _Cause | None) -> _Cause:
    """Why a side has no state watermark, and what gives it one."""
    if not own and not other:
        return _Cause("there is no watermark on either side", "call withWatermark on both sides")
    if not own:
        return _Cause("this side has no watermark of its own", f"call withWatermark on {time} too")
    if not other or end is None:
        return _Cause("the other side has no watermark", "call withWatermark on the other side too")
    return end


def _state(sides: tuple[_Side, ...]) -> Iterator[Advice]:
    """State that is never removed (SPARK-46350 where a watermark is on one side only)."""
    for side in sides:
        if side.cleanup is not None:
            continue
        stays = f"rows of {side.topic} stay in the state for ever, because {side.cause.why}"
        if side.preserved:
            yield Advice(
                "null_rows_never_come",
                f"{stays}; those without a partner never come out with NULL",
                side.cause.remedy,
            )
        else:
            yield Advice("state_never_removed", f"{stays}; the state grows with the input", side.cause.remedy)


def _equal_times(sides: tuple[_Side, ...]) -> Iterator[Advice]:
    """Equal times as keys: one watermark cleans up both sides, but only the side that has it drops late rows."""
    for side in sides:
        if side.cleanup != "key" or side.watermark:
            continue
        reason = (
            f"{side.topic} has no watermark, so its late rows are not dropped, while the rows they match are removed"
            " by the watermark of the other side"
        )
        remedy = f"call withWatermark on {side.time} too"
        if side.preserved:
            yield Advice(
                "false_null_rows", f"{reason}; such a row comes out with NULL though it has a partner", remedy
            )
        else:
            yield Advice(
                "late_rows_are_joined", f"{reason}; whether such a row is joined depends on the batch", remedy
            )


def _null_time(sides: tuple[_Side, ...]) -> Iterator[Advice]:
    for side in sides:
        if side.preserved and side.null_time and side.cleanup is not None:
            yield Advice(
                "null_event_times",
                f"rows of {side.topic} whose {side.time} is NULL reach the join; state formats 2 and 3 never remove"
                " them, so they never come out with NULL",
                f"filter: where {side.time} is not null, before withWatermark",
            )


def _capped(paired: Paired) -> Iterator[Advice]:
    """A conjunct like ``price > 5`` is taken for a bound of the time: 5 us after 1970 is the last that is removed."""
    if paired.plan.cleanup != "value":
        return
    for text in paired.plan.only:
        if not _is_lower_bound(text):
            continue
        out = (
            "and those without a partner never come out with NULL"
            if paired.preserved
            else "and the state grows"
        )
        yield Advice(
            "null_rows_never_come" if paired.preserved else "state_never_removed",
            f"Spark takes {tidy(text)}, a conjunct of the join's condition, for a bound of the event time of"
            f" {paired.side.topic}: the state watermark stands still, rows stay in the state {out}",
            "compute it before the join as a BOOLEAN column, and name that in the condition",
        )


def _is_lower_bound(text: str) -> bool:
    """Whether a conjunct keeps one column above a number."""
    asked = relation(text)
    if asked is None:
        return False
    number = re.compile(r"-?\d+(\.\d+)?")
    for column, op, constant in (
        (asked.left, asked.op, asked.right),
        (asked.right, FLIPPED[asked.op], asked.left),
    ):
        if ATTRIBUTE.fullmatch(column) and number.fullmatch(constant) and op in (">", ">="):
            return True
    return False


def _other_column(paired: Paired, laid: Laid) -> Iterator[Advice]:
    """The state watermark is compared with the column of the watermark, whichever column it was reckoned for."""
    if paired.plan.cleanup != "value":
        return
    is_left = paired is laid.left
    for text in laid.both:
        limit = laid.limit(text)
        if limit is None or (limit.lower if is_left else limit.upper) is None:
            continue
        own, its = (limit.left, limit.right) if is_left else (limit.right, limit.left)
        if laid.other(paired).marks(its) and not paired.marks(own):
            yield Advice(
                "bound_on_another_column",
                f"{tidy(text)} bounds {tidy(own)}, but the plan compares the state watermark of {paired.side.topic}"
                " with another column, that of its watermark",
                f"call withWatermark on {tidy(own)}, or bound the column that the watermark is on",
            )


def _of_kind(contract: Contract, laid: Laid | None, spark_version: str) -> Iterator[Advice]:
    """What the kind of join brings with it."""
    outer = contract.kind in PRESERVED
    if contract.policy is WatermarkPolicy.MAX:
        yield Advice(
            "slow_side_dropped",
            "under the policy max the faster side's watermark makes rows of the slower one late"
            + ("; what they would have matched comes out with NULL" if outer else ""),
            "leave spark.sql.streaming.multipleWatermarkPolicy at min",
        )
    if contract.kind is JoinKind.FULL_OUTER and (laid is None or not all(map(_keys_given, laid.sides))):
        yield Advice(
            "null_keys_match",
            "a full outer join of Spark takes NULL keys for equal, so rows without a key are joined with each other",
            "filter rows whose keys are NULL before the join, or give them keys of their own",
        )
    if contract.kind is JoinKind.LEFT_SEMI and loses_semi_rows(spark_version):
        yield Advice(
            "semi_rows_lost",
            "since 4.2.0 a left semi join loses a row whose only partners arrive in its own batch and are past the"
            " state watermark already; two data batches in a row make that possible, as in a backlog",
            "run it on Spark 4.1, or as an inner join whose rows are deduplicated by the left id",
        )


def loses_semi_rows(spark_version: str) -> bool:
    """Whether its left semi join does; one whose version cannot be read is taken for the newest."""
    version = tuple(int(part) for part in re.findall(r"\d+", spark_version)[:2])
    return not version or version >= SEMI_LOSES_SINCE


def _keys_given(paired: Paired) -> bool:
    """Whether rows without a key are filtered out below the join."""
    return set(paired.side.keys) <= read_conjuncts(paired.plan.filters, paired).not_null
