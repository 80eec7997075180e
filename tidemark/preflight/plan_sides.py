"""A contract's sides laid over those of the plan's join, whichever of them the pipeline put on the left.

Free of I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemark.formats.contract import PRESERVED, Contract, JoinKind, Side
from tidemark.preflight.physical_plan import JoinPlan, QueryPlan, SidePlan
from tidemark.preflight.plan_columns import Column, PlanColumns
from tidemark.preflight.plan_expressions import ATTRIBUTE, FLIPPED, Linear, linear, relation

SPARKS_NAME = {
    JoinKind.INNER: "Inner",
    JoinKind.LEFT_OUTER: "LeftOuter",
    JoinKind.RIGHT_OUTER: "RightOuter",
    JoinKind.FULL_OUTER: "FullOuter",
    JoinKind.LEFT_SEMI: "LeftSemi",
}
MIRRORED = {"LeftOuter": "RightOuter", "RightOuter": "LeftOuter", "LeftSemi": "RightSemi"}
_PRESERVED = {SPARKS_NAME[kind]: sides for kind, sides in PRESERVED.items()}


@dataclass(frozen=True)
class Paired:
    """A side of the contract with the plan's; ``preserved``: its rows come out, with NULL, if nothing matches."""

    side: Side
    plan: SidePlan
    columns: PlanColumns
    preserved: bool

    def owns(self, text: str) -> bool:
        """Whether an expression is about this side alone."""
        ids = {found["id"] for found in ATTRIBUTE.finditer(text)}
        return bool(ids) and ids <= self.plan.ids

    def is_time(self, text: str) -> bool:
        """Whether an expression is the contract's event time, or a window of it."""
        if not self.owns(text):
            return False
        column = self.columns.source(text)
        if column.field is not None:
            return column.field == self.side.time
        marked = [self.columns.source(watermark.column) for watermark in self.plan.watermarks]
        return any(one.field is None and one.id == column.id for one in marked)

    def marks(self, text: str) -> bool:
        """Whether an expression is the column that the watermark is on, or a window of it."""
        column = self.columns.source(text)
        marked = [self.columns.source(watermark.column) for watermark in self.plan.watermarks]
        return self.owns(text) and any((one.field, one.id) == (column.field, column.id) for one in marked)


@dataclass(frozen=True)
class End:
    """One end of a time bound on ``left - right``, in microseconds."""

    us: int
    strict: bool


@dataclass(frozen=True)
class TimeLimit:
    """A conjunct that limits ``left column - right column``, in the contract's order of sides."""

    text: str
    left: str
    right: str
    lower: End | None = None
    upper: End | None = None


@dataclass(frozen=True)
class Laid:
    """The join of a plan in the contract's order of sides; ``kind`` in Spark's words."""

    kind: str
    left: Paired
    right: Paired
    keys: tuple[tuple[str, str], ...]
    both: tuple[str, ...]
    above: tuple[str, ...]

    @property
    def sides(self) -> tuple[Paired, Paired]:
        """Left and right."""
        return self.left, self.right

    def other(self, paired: Paired) -> Paired:
        """The other side."""
        return self.right if paired is self.left else self.left

    def column(self, text: str) -> Column:
        """What an expression of either side is."""
        return self.left.columns.source(text)

    def time_limit(self, text: str) -> TimeLimit | None:
        """A conjunct as a limit to the difference of the contract's event times."""
        limit = self.limit(text, self.left.columns.expand)
        return limit if limit and self.left.is_time(limit.left) and self.right.is_time(limit.right) else None

    def limit(self, text: str, expand: Callable[[Linear], Linear] = lambda found: found) -> TimeLimit | None:
        """A conjunct as a limit to the difference of one column of each side, after ``expand``."""
        found = relation(text)
        if found is None or found.op in ("!=", "<=>"):
            return None
        left, right = linear(found.left), linear(found.right)
        if left is None or right is None:
            return None
        return self._limit(text, found.op, expand(left.minus(right)))

    def _limit(self, text: str, op: str, difference: Linear) -> TimeLimit | None:
        """``difference op 0`` solved for the left column minus the right one."""
        if sorted(difference.columns.values()) != [-1, 1]:
            return None
        plus, minus = sorted(difference.columns, key=lambda name: -difference.columns[name])
        us = -difference.us
        if self.left.owns(minus):
            plus, minus, us, op = minus, plus, -us, FLIPPED[op]
        if not self.left.owns(plus) or not self.right.owns(minus):
            return None
        end = End(us, strict=op in ("<", ">"))
        return TimeLimit(
            text, plus, minus,
            lower=end if op in (">", ">=", "=") else None,
            upper=end if op in ("<", "<=", "=") else None,
        )  # fmt: skip


def lay(contract: Contract, plan: QueryPlan, join: JoinPlan) -> Laid:
    """Find out which side is which by the fields that they read; in doubt the left one is the left one."""
    return lay_as(contract, plan, join, swapped=_is_swapped(contract, plan, join))


def _is_swapped(contract: Contract, plan: QueryPlan, join: JoinPlan) -> bool:
    fields = [plan.columns.fields(side.ids) for side in (join.left, join.right)]
    wanted = [{side.id, side.time} for side in (contract.left, contract.right)]
    straight = len(wanted[0] & fields[0]) + len(wanted[1] & fields[1])
    return len(wanted[0] & fields[1]) + len(wanted[1] & fields[0]) > straight


def lay_as(contract: Contract, plan: QueryPlan, join: JoinPlan, *, swapped: bool) -> Laid:
    """A join whose left side is the contract's right one if it is ``swapped``."""
    left, right = (join.right, join.left) if swapped else (join.left, join.right)
    kind = MIRRORED.get(join.kind, join.kind) if swapped else join.kind
    preserved = _PRESERVED.get(kind, ())
    return Laid(
        kind=kind,
        left=Paired(contract.left, left, plan.columns, 0 in preserved),
        right=Paired(contract.right, right, plan.columns, 1 in preserved),
        keys=tuple(zip(left.keys, right.keys, strict=True)),
        both=join.both,
        above=join.above,
    )
