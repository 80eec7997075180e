"""``EliminateOuterJoin``: which outer joins Spark's optimizer turns into another kind, and which it takes out.

It does two things, in streams as in tables:

* A filter above the join that holds for no row with NULLs makes these rows superfluous: a full outer join becomes a
  left or a right outer one, either of these an inner one (:func:`kind_of_filtered`).
* A left outer join (a right outer one alike) of which nothing above needs a field of the right is removed, if either
  the right has one row for each key (:func:`distinct_keys`), or nothing above tells one row from two: an aggregate of
  ``min`` and ``max`` (:func:`optimized`). The side that is gone has no watermark any more; but ``WatermarkTracker`` has
  it on its list, which it made of the plan as it was analyzed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemark.formats.chain import (
    Aggregate,
    Chain,
    Deduplicate,
    Join,
    Source,
    Step,
    Value,
    Where,
    Window,
    inputs_of,
    is_window,
    time_of,
    types_of,
    walk,
)
from tidemark.formats.contract import PRESERVED, JoinKind, Term

OTHER_SIDE = {JoinKind.LEFT_OUTER: 1, JoinKind.RIGHT_OUTER: 0}
"""The side that such a join can do without."""
BLIND_TO_COPIES = {"min", "max"}
Keys = set[frozenset[str]]
"""Sets of fields of a step; no two of its rows agree in all fields of one of them."""


def kind_of_filtered(kind: JoinKind, where: Sequence[Term]) -> JoinKind:
    """The kind of a join under filters on its rows: a comparison holds for no NULL, so it fails rows of one side."""
    if kind not in PRESERVED:
        return kind
    left_fails = any(term.right is not None for term in where)
    right_fails = any(term.left is not None for term in where)
    fails = left_fails, right_fails
    kinds = {sides: outer for outer, sides in PRESERVED.items()}
    return kinds.get(tuple(side for side in PRESERVED[kind] if not fails[side]), JoinKind.INNER)


@dataclass(frozen=True)
class Optimized:
    """A chain as it is run, the numbers of the described chain's sources that it reads, and the other sources."""

    chain: Chain
    sources: tuple[int, ...]
    unread: tuple[Source, ...] = ()


def as_described(described: Chain) -> Optimized:
    """A chain of which nothing is taken out."""
    return Optimized(described, tuple(range(len(described.sources))))


def as_run(described: Chain, *, drops_sides: bool, waits_for_unread: bool) -> Optimized:
    """A chain as a Spark runs it that ``drops_sides``, and ``waits_for_unread`` ones (``SparkRules``)."""
    if not drops_sides:
        return as_described(described)
    plan = optimized(described)
    return plan if waits_for_unread else replace(plan, unread=())


def optimized(described: Chain) -> Optimized:
    """A chain without the joins that are taken out."""
    numbers = itertools.count()
    kept: list[int] = []

    def visit(step: Step, needed: set[str], *, copies: bool) -> Step:
        if isinstance(step, Source):
            kept.append(next(numbers))
            return step
        if not isinstance(step, Join):
            below = _needed_below(step, needed)
            return replace(step, input=visit(step.input, below, copies=_tells_copies(step, needed, copies)))
        unneeded = _unneeded(step, needed, copies=copies)
        if unneeded is None:
            needed, copies = needed | _of_condition(step), True
        sides: list[Step] = []
        for number, side in enumerate(inputs_of(step)):
            if number != unneeded:
                sides.append(visit(side, needed & types_of(side).keys(), copies=copies))
                continue
            for _ in (one for one in walk(side) if isinstance(one, Source)):
                next(numbers)
        return sides[0] if unneeded is not None else replace(step, left=sides[0], right=sides[1])

    last, sources = visit(described.last, set(described.output), copies=True), described.sources
    if len(kept) == len(sources):
        return as_described(described)
    unread = tuple(source for number, source in enumerate(sources) if number not in kept)
    return Optimized(replace(described, last=last), tuple(kept), unread)


def _needed_below(step: Step, needed: set[str]) -> set[str]:
    """The fields of its input that a step with one input needs for some of its own (``ColumnPruning``)."""
    time = {str(time_of(inputs_of(step)[0]))} - {"None"}
    match step:
        case Window():
            return needed - {step.name} | (time if step.name in needed else set())
        case Aggregate():
            return {*step.keys, *time} | {str(one.field) for one in _values(step, needed) if one.field}
        case Where():
            return needed | {one.field for one in step.filters}
        case Deduplicate():
            return needed | {*step.keys, *time}
        case _:
            return set(needed)


def _tells_copies(step: Step, needed: set[str], copies: bool) -> bool:
    """Whether what is needed of a step depends on how often a row of its input comes, as far as Spark sees it.

    It looks through one projection: a window of a time is one, a window of a window two.
    """
    if isinstance(step, Aggregate):
        return any(one.function not in BLIND_TO_COPIES for one in _values(step, needed))
    return copies or not isinstance(step, Window) or is_window(step.input)


def _values(step: Aggregate, needed: set[str]) -> list[Value]:
    return [one for one in step.values if one.name in needed]


def _unneeded(step: Join, needed: set[str], *, copies: bool) -> int | None:
    """The side that a join can do without, if it is there for nothing else."""
    number = OTHER_SIDE.get(step.kind)
    if number is None:
        return None
    side = inputs_of(step)[number]
    if needed & types_of(side).keys():
        return None
    if copies and not _has_one_row_for_each(distinct_keys(side), _equal_fields(step, number)):
        return None
    return number


def distinct_keys(step: Step) -> Keys:
    """The keys of a step that Spark knows: the same in a stream as in a table, and in 3.5 to 4.3.

    ``DistinctKeyVisitor.scala``, by lines of 4.3.0: ``visitAggregate`` (69; smaller keys of its input take the place of
    the groups, 54-61), ``visitProject`` (129), ``visitFilter`` (80), ``visitJoin`` (102-121). A source or a watermark
    has none (65), nor has a deduplication, which in a stream is no aggregate (``Optimizer.scala:3117``). Names are
    compared: where a join has ``a = b``, a key with ``b`` is none with ``a``. No step is above a limit.
    """
    match step:
        case Source() | Deduplicate():
            return set()
        case Window():
            return {key for key in distinct_keys(step.input) if str(time_of(step.input)) not in key}
        case Aggregate():
            groups = frozenset((*step.keys, str(time_of(step))))
            return {key for key in distinct_keys(step.input) if key <= groups} or {groups}
        case Join():
            return _distinct_keys_of_join(step)
        case _:
            return distinct_keys(step.input)


def _distinct_keys_of_join(step: Join) -> Keys:
    """The keys of a side stay if none of its rows can come twice, and none of the other comes unmatched.

    The event time that does not go on (``Join.time``) is computed anew, to be an ordinary field: it is no key.
    """
    left, right = map(distinct_keys, inputs_of(step))
    one_left = _has_one_row_for_each(left, _equal_fields(step, 0))
    one_right = _has_one_row_for_each(right, _equal_fields(step, 1))
    kept: Keys = set()
    if step.kind is JoinKind.LEFT_SEMI or (one_right and step.kind in (JoinKind.INNER, JoinKind.LEFT_OUTER)):
        kept |= left
    if one_left and step.kind in (JoinKind.INNER, JoinKind.RIGHT_OUTER):
        kept |= right
    ended = {str(time_of(side)) for side in inputs_of(step)} - {str(step.time)}
    return {key for key in kept if not key & ended}


def _has_one_row_for_each(known: Keys, fields: set[str]) -> bool:
    """Whether no two rows agree in these fields, as far as keys are known."""
    return any(key <= fields for key in known)


def _equal_fields(step: Join, number: int) -> set[str]:
    """The fields of a side that equal one of the other (``ExtractEquiJoinKeys``, ``patterns.scala:187-225``)."""
    time = {str(time_of(inputs_of(step)[number]))} if step.bound.equal else set()
    conditions = {str((one.left, one.right)[number]) for one in step.conditions if one.op == "="}
    return time | conditions | {pair[number] for pair in step.keys}


def _of_condition(step: Join) -> set[str]:
    times = {str(time_of(side)) for side in inputs_of(step)}
    keys = {name for pair in step.keys for name in pair}
    return times | keys | {str(name) for one in step.conditions for name in (one.left, one.right)}
