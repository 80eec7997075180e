"""The text of a physical plan, read into what a contract can be compared with.

Free of I/O. Every line is an operator, indented under the one that reads it; a join is printed as::

    StreamingSymmetricHashJoin [left keys], [right keys], LeftOuter, condition = [ leftOnly = …, rightOnly = …,
    both = …, full = … ], state info […], …, state cleanup [ left value predicate: (…), right = null ], 2, Append

Before the query runs the watermark in the predicates of the cleanup is that of no batch, so their numbers mean nothing;
whether there is one, and on what, is as it will be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidemark.preflight.plan_columns import PlanColumns
from tidemark.preflight.plan_expressions import ATTRIBUTE, US_PER_MS, conjuncts, interval_us, split

JOIN = "StreamingSymmetricHashJoin"
_HEADING = "== Physical Plan =="
_LINE = re.compile(r"^(?P<indent>(?:[: ] {2})*)(?:[:+]- )?(?:\*\(\d+\) )?(?P<text>\S.*)$")
_JOIN = re.compile(
    rf"{JOIN} (?P<keys>\[.*\]), (?P<kind>\w+), condition = \[ leftOnly = (?P<left>.*?), rightOnly = (?P<right>.*?),"
    r" both = (?P<both>.*?), full = .*? \], state info .*?"
    r"state cleanup \[ left(?P<left_cleanup>.*?), right(?P<right_cleanup>.*?) \](?:,|$)",
    re.DOTALL,
)
_WATERMARK = re.compile(r"EventTimeWatermark (?:[0-9a-f-]{36}, )?(?P<column>\S+): timestamp, (?P<delay>.+)$")
_LATE_BY = re.compile(r"#\d+L?-T\d+ms$")
"""How Spark ends the name of a column that carries a watermark's delay."""
_PASSING_ALL = ("Exchange", "Filter")
"""Operators that pass on the columns that they get."""
_STATEFUL = re.compile(
    r"^(StateStoreSave|SessionWindowStateStoreSave|Streaming\w+|FlatMapGroups\w+|\w*TransformWith\w+)"
)
_PARTS = ("StreamingRelation", "StreamingLocalLimit")
"""Operators that look like one with state: what a query reads, and the part of a limit that is within a partition."""


class UnreadablePlan(ValueError):
    """The text has not the form that is known; its message says where."""


@dataclass(frozen=True)
class Watermark:
    """``withWatermark`` on one column, as the plan names it; ``delay_ms`` is ``None`` where it cannot be read."""

    column: str
    delay: str
    delay_ms: int | None


@dataclass(frozen=True)
class SidePlan:
    """One input of a join.

    ``filters`` are the conjuncts of all filters below the join, ``only`` those of the join's condition that name this
    side alone, ``cleanup`` is ``key`` or ``value`` (what the state watermark is compared with) or ``None`` where state
    is never removed, ``ids`` the ids of all columns of this side, ``stateful`` the other stateful operators in it,
    ``leaves`` the relations that it reads.
    ``time_left_out``: it has a watermark, and no column that reaches the join carries it. Neither the join nor what is
    above it reads the time, so the optimizer took it away below; and a join drops late rows by such a column only
    (``StreamingSymmetricHashJoinExec`` looks for it among its ``inputAttributes``).
    """

    keys: tuple[str, ...]
    watermarks: tuple[Watermark, ...]
    filters: tuple[str, ...]
    only: tuple[str, ...]
    cleanup: str | None
    ids: frozenset[str]
    stateful: tuple[str, ...]
    time_left_out: bool
    leaves: tuple[str, ...] = ()


@dataclass(frozen=True)
class JoinPlan:
    """A join: ``kind`` in Spark's words, the conjuncts on ``both`` sides, and those of filters ``above`` it."""

    kind: str
    left: SidePlan
    right: SidePlan
    both: tuple[str, ...]
    above: tuple[str, ...]


@dataclass(frozen=True)
class QueryPlan:
    """All joins of a query, the last first; ``stateful``: other stateful operators, wherever they are.

    ``selected`` are the expressions of the last projection, if nothing else is above it.
    """

    joins: tuple[JoinPlan, ...]
    stateful: tuple[str, ...]
    columns: PlanColumns
    selected: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanStep:
    """An operator of a query that keeps state, or a watermark; ``inputs`` are the next ones below it.

    ``operator`` is Spark's name, ``columns`` what stands in its first brackets: the keys of a deduplication or of an
    aggregate. Of a join they are in ``join``, of a watermark its column and delay in ``watermark``.
    """

    operator: str
    columns: tuple[str, ...] = ()
    join: JoinPlan | None = None
    watermark: Watermark | None = None
    inputs: tuple[PlanStep, ...] = ()


@dataclass
class _Node:
    text: str
    children: list[_Node] = field(default_factory=list)

    @property
    def operator(self) -> str:
        return self.text.partition(" ")[0]

    def walk(self) -> Iterator[_Node]:
        yield self
        for child in self.children:
            yield from child.walk()


def read_plan(text: str) -> QueryPlan:
    """Read what ``explain()`` prints. Raises ``UnreadablePlan``."""
    root = _root(text)
    nodes = list(root.walk())
    projections = [item for node in nodes if node.operator == "Project" for item in _items(node)]
    return QueryPlan(
        joins=tuple(_join(node, root) for node in nodes if node.operator == JOIN),
        stateful=_stateful(root),
        columns=PlanColumns(projections, (node.text for node in nodes if not node.children)),
        selected=tuple(_items(root)) if root.operator == "Project" else (),
    )


def read_steps(text: str) -> tuple[PlanStep, ...]:
    """The last operators with state, or watermarks, of what ``explain()`` prints; each has those below it.

    Raises ``UnreadablePlan``.
    """
    root = _root(text)
    return tuple(_steps(root, root))


def _root(text: str) -> _Node:
    """The last operator of what ``explain()`` prints."""
    _, heading, body = text.partition(_HEADING)
    if not heading:
        raise UnreadablePlan(f"the text has no {_HEADING!r}")
    return _tree(body.partition("\n== ")[0])


def _steps(node: _Node, root: _Node) -> Iterator[PlanStep]:
    """The first steps at or below an operator."""
    sides = [tuple(_steps(child, root)) for child in node.children]
    inputs = tuple(step for side in sides for step in side)
    stateful = _STATEFUL.match(node.operator)
    if node.operator == "EventTimeWatermark":
        yield PlanStep(node.operator, watermark=_watermark(node), inputs=inputs)
    elif node.operator == JOIN:
        if any(len(side) > 1 for side in sides):
            raise UnreadablePlan(f"{node.text[:120]!r} has a side of several inputs")
        yield PlanStep(node.operator, join=_join(node, root), inputs=inputs)
    elif stateful is not None and stateful[1] not in _PARTS:
        found = re.match(r"\S+ \[(.*?)\], state info", node.text, re.DOTALL)
        columns = tuple(split(found[1], ", ")) if found is not None and found[1] else ()
        yield PlanStep(stateful[1], columns, inputs=inputs)
    else:
        yield from inputs


def _tree(body: str) -> _Node:
    """The operators by their indentation; a line that is none belongs to a literal of the line before."""
    path: list[_Node] = []
    for line in body.strip("\n").splitlines():
        found = _LINE.match(line)
        connected = re.match(r"^(?:[: ] {2})*[:+]- ", line) is not None
        if path and not connected:
            path[-1].text += f"\n{line}" if line.strip() else ""
            continue
        if found is None:
            raise UnreadablePlan(f"{line[:80]!r} is no operator")
        depth = len(found["indent"]) // 3 + connected
        if depth > len(path):
            raise UnreadablePlan(f"{line[:80]!r} is indented under nothing")
        node = _Node(found["text"].strip())
        del path[depth:]
        if path:
            path[-1].children.append(node)
        path.append(node)
    if not path:
        raise UnreadablePlan("the plan is empty")
    return path[0]


def _join(node: _Node, root: _Node) -> JoinPlan:
    found = _JOIN.match(node.text)
    if found is None or len(node.children) != 2:
        raise UnreadablePlan(f"{node.text[:120]!r} is no join that is known")
    lists = split(found["keys"], ", ")
    if len(lists) != 2 or not all(one.startswith("[") and one.endswith("]") for one in lists):
        raise UnreadablePlan(f"{found['keys'][:120]!r} are not the keys of two sides")
    left_keys, right_keys = (split(one[1:-1], ", ") for one in lists)
    if len(left_keys) != len(right_keys):
        raise UnreadablePlan(f"{found['keys'][:120]!r} do not pair up")
    left, right = node.children
    return JoinPlan(
        kind=found["kind"],
        left=_side(left, left_keys, found["left"], found["left_cleanup"]),
        right=_side(right, right_keys, found["right"], found["right_cleanup"]),
        both=conjuncts(found["both"]),
        above=tuple(_filters(_above(root, node))),
    )


def _side(node: _Node, keys: list[str], only: str, cleanup: str) -> SidePlan:
    nodes = list(node.walk())
    ids = {found["id"] for one in nodes for found in ATTRIBUTE.finditer(one.text)}
    return SidePlan(
        keys=tuple(keys),
        watermarks=tuple(_watermark(one) for one in nodes if one.operator == "EventTimeWatermark"),
        filters=tuple(_filters(nodes)),
        only=conjuncts(only),
        cleanup=_cleanup(cleanup),
        ids=frozenset(ids),
        stateful=_stateful(node),
        time_left_out=_leaves_time_out(node),
        leaves=tuple(one.text for one in nodes if not one.children),
    )


def _leaves_time_out(side: _Node) -> bool:
    """Whether the last projection above a watermark has no column that carries it; in doubt it has one."""
    if not any(node.operator == "EventTimeWatermark" for node in side.walk()):
        return False
    node = side
    while node.operator in _PASSING_ALL and len(node.children) == 1:
        [node] = node.children
    items = _items(node) if node.operator == "Project" else []
    return bool(items) and not any(_LATE_BY.search(item) for item in items)


def _above(root: _Node, wanted: _Node) -> list[_Node]:
    """The operators between the root and one below it."""
    if root is wanted:
        return []
    for child in root.children:
        if any(node is wanted for node in child.walk()):
            return [root, *_above(child, wanted)]
    return []


def _filters(nodes: Iterable[_Node]) -> Iterator[str]:
    for node in nodes:
        if node.operator == "Filter":
            yield from conjuncts(node.text.removeprefix("Filter "))


def _watermark(node: _Node) -> Watermark:
    found = _WATERMARK.match(node.text)
    if found is None:
        raise UnreadablePlan(f"{node.text[:120]!r} is no watermark that is known")
    delay_us = interval_us(found["delay"].strip(), days_in_months=True)
    delay_ms = None if delay_us is None else delay_us // US_PER_MS
    return Watermark(found["column"], found["delay"].strip(), delay_ms)


def _cleanup(text: str) -> str | None:
    """`` = null``, or `` value predicate: (…)``, or `` key predicate: (…)``."""
    if text.strip() == "= null":
        return None
    found = re.match(r" (key|value) predicate: ", text)
    if found is None:
        raise UnreadablePlan(f"{text[:80]!r} is no state cleanup that is known")
    return found[1]


def _stateful(root: _Node) -> tuple[str, ...]:
    found = (_STATEFUL.match(node.operator) for node in root.walk())
    return tuple(one[1] for one in found if one is not None and one[1] not in (JOIN, "StreamingRelation"))


def _items(node: _Node) -> list[str]:
    """The expressions of ``Project [a, b AS c]``."""
    text = node.text.removeprefix("Project ").strip()
    return split(text[1:-1], ", ") if text.startswith("[") and text.endswith("]") else []
