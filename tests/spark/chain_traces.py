"""Random chains and random histories for them: times on every boundary, sub-millisecond ones, restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tidemark.formats.chain import (  # fmt: skip
    BIGINT,
    Aggregate,
    Chain,
    Deduplicate,
    Field,
    Join,
    Limit,
    Source,
    Step,
    Value,
    Where,
    Window,
    is_window,
    time_of,
    types_of,
    walk,
)
from tidemark.formats.contract import COMPARISONS, Bound, Filter, JoinKind, Term, WatermarkPolicy

SECOND_MS, SECOND_US = 1000, 1_000_000
KINDS = tuple(JoinKind)


@dataclass(frozen=True)
class Phase:
    """Batches that are there together; ``restart``: the query stops before, ``rerun``: its last batch runs again."""

    batches: list[list[dict[str, Any]]]
    restart: bool = False
    rerun: bool = False


@dataclass(frozen=True)
class History:
    """A chain, and what it is given."""

    chain: Chain
    phases: list[Phase]
    no_data: bool


class _Maker:
    """One random chain."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.number = 0

    def source(self, topic: str, *, watermark: bool = True) -> Source:
        """A source whose names end in a number of its own."""
        self.number += 1
        n, rng = self.number, self.rng
        filters = (Filter(f"v{n}", ">=", rng.randrange(1, 4)),) if rng.random() < 0.2 else ()
        return Source(
            topic, f"t{n}",
            (Field(f"id{n}", "id"), Field(f"k{n}", "k"), Field(f"v{n}", "v", BIGINT)),
            rng.choice((0, 1, 2, 5)) * SECOND_MS if watermark else None,
            (f"k{n}",), filters, "t",
        )  # fmt: skip

    def window(self, step: Step, times: int = 1) -> Window:
        """Windows of 5 s, or of 10."""
        self.number += 1
        return Window(step, f"w{self.number}", self.rng.choice((5, 10)) * SECOND_MS * times)

    def aggregate(self, step: Step, keys: tuple[str, ...], of: str) -> Aggregate:
        """A count, and a sum, the least and the greatest of a field; or the last two, to which copies are one."""
        self.number += 1
        n = self.number
        counts = (Value(f"n{n}", "count"), Value(f"sum{n}", "sum", of))
        ends = (Value(f"min{n}", "min", of), Value(f"max{n}", "max", of))
        return Aggregate(step, keys, ends if self.rng.random() < 0.2 else (*counts, *ends))

    def bound(self) -> Bound:
        """Some range."""
        low, high = -self.rng.choice((0, 1, 3, 8)), self.rng.choice((0, 2, 5))
        strict = self.rng.random() < 0.4
        return Bound(low * SECOND_MS - strict, high * SECOND_MS + strict, strict, strict)

    def kind(self) -> JoinKind:
        """Any of the five."""
        return self.rng.choice(KINDS)

    def join(self, *, kind: JoinKind | None = None, left: Step | None = None, topic: str = "b") -> Join:
        """Two sources, or a step and a source, joined by key and range; the time of the left, or right, goes on."""
        kind = kind or self.kind()
        left = left or self.source("a")
        key = "k1"
        right = self.source(topic)
        times = [_time(left)] if kind is not JoinKind.RIGHT_OUTER else []
        times += [right.time] if kind in (JoinKind.INNER, JoinKind.RIGHT_OUTER) else []
        time = self.rng.choice(times) if kind is not JoinKind.FULL_OUTER else None
        return Join(kind, left, right, ((key, f"k{right.time[1:]}"),), self.bound(), time)


def _time(step: Step) -> str:
    return str(time_of(step))


def _aggregate(m: _Maker) -> Step:
    source = m.source("a")
    step: Step = m.aggregate(m.window(source), ("k1",), "v1")
    return Where(step, (Filter(step.values[-1].name, ">=", 2),)) if m.rng.random() < 0.3 else step


def _aggregate_of_aggregate(m: _Maker) -> Step:
    first = m.aggregate(m.window(m.source("a")), ("k1",), "v1")
    return m.aggregate(m.window(first, 2), (), first.values[0].name)


def _deduplicate(m: _Maker) -> Step:
    return Deduplicate(m.source("a"), ("id1",), within_watermark=True)


def _deduplicate_by_time(m: _Maker) -> Step:
    return Deduplicate(m.source("a"), m.rng.choice((("id1", "t1"), ("id1",))))


def _limit(m: _Maker) -> Step:
    return Limit(m.source("a", watermark=False), m.rng.randrange(1, 25))


def _deduplicate_then_join(m: _Maker) -> Step:
    return m.join(left=Deduplicate(m.source("a"), ("id1",), within_watermark=True))


def _windows_joined(m: _Maker) -> Join:
    length = m.rng.choice((5, 10)) * SECOND_MS
    left_source, right_source = m.source("a"), m.source("b")
    left: Step = Window(left_source, "lw", length)
    right: Step = Window(right_source, "rw", length)
    if m.rng.random() < 0.8:
        left = m.aggregate(left, ("k1",), "v1")
    if m.rng.random() < 0.7:
        right = m.aggregate(right, ("k2",), "v2")
    conditions: tuple[Term, ...] = ()
    if isinstance(left, Aggregate) and isinstance(right, Aggregate) and m.rng.random() < 0.5:
        counts = left.values[0], right.values[0]
        if counts[0].function == counts[1].function == "count":
            conditions = (Term(m.rng.choice(tuple(COMPARISONS)), counts[0].name, counts[1].name),)
    kind = m.kind()
    while kind is JoinKind.LEFT_SEMI and isinstance(left, Aggregate) and not conditions:
        kind = m.kind()
    time = {"right_outer": "rw", "full_outer": None}.get(str(kind), "lw")
    return Join(kind, left, right, (("k1", "k2"),), Bound(equal=True), time, conditions)


def _join_then_aggregate(m: _Maker) -> Step:
    kind = m.rng.choice((JoinKind.INNER, JoinKind.LEFT_OUTER, JoinKind.RIGHT_OUTER, JoinKind.LEFT_SEMI))
    joined = m.join(kind=kind)
    side = "2" if joined.time == "t2" else "1"
    return m.aggregate(m.window(joined), (f"k{side}",), f"v{side}")


def _windows_joined_then_aggregate(m: _Maker) -> Step:
    joined = _windows_joined(m)
    while joined.kind in (JoinKind.FULL_OUTER, JoinKind.RIGHT_OUTER):
        joined = _windows_joined(_Maker(m.rng))
    numbers = [name for name, kind in types_of(joined).items() if kind == BIGINT]
    m.number = 7
    return m.aggregate(m.window(joined, 2), ("k1",), m.rng.choice(numbers))


def _windows_joined_twice(m: _Maker) -> Step:
    """A join of windows joined with windows: which joins Spark takes out is up to keys, event times and the output."""
    below = _windows_joined(m)
    while below.kind is JoinKind.FULL_OUTER:
        below = _windows_joined(_Maker(m.rng))
    if below.kind is JoinKind.INNER:
        below = replace(below, time=m.rng.choice(("lw", "rw")))
    m.number = 7
    source = m.source("c")
    number = source.time[1:]
    length_ms = next(step.window_ms for step in walk(below) if isinstance(step, Window))
    other: Step = Window(source, "cw", length_ms)
    if m.rng.random() < 0.8:
        other = m.aggregate(other, (f"k{number}",), f"v{number}")
    own = "k1" if below.time == "lw" else "k2"
    key = m.rng.choice((own, own, "k1", "k2")) if below.kind is JoinKind.INNER else own
    outer = tuple(kind for kind in KINDS if kind is not JoinKind.LEFT_SEMI)
    if m.rng.random() < 0.5:
        kind, left, right = m.rng.choice((JoinKind.LEFT_OUTER, *outer)), other, below
        keys = (f"k{number}", key)
    else:
        kind, left, right = m.rng.choice((JoinKind.RIGHT_OUTER, *outer)), below, other
        keys = (key, f"k{number}")
    time = {JoinKind.RIGHT_OUTER: _time(right), JoinKind.FULL_OUTER: None}.get(kind, _time(left))
    return Join(kind, left, right, (keys,), Bound(equal=True), time)


def _join_then_deduplicate(m: _Maker) -> Step:
    joined = m.join(kind=m.rng.choice((JoinKind.INNER, JoinKind.LEFT_OUTER, JoinKind.LEFT_SEMI)))
    return Deduplicate(joined, tuple(types_of(joined)), within_watermark=True)


def _join_of_join(m: _Maker) -> Step:
    first = m.join(kind=m.rng.choice((JoinKind.INNER, JoinKind.LEFT_OUTER, JoinKind.LEFT_SEMI)))
    outer = tuple(kind for kind in KINDS if kind is not JoinKind.LEFT_SEMI)
    return m.join(kind=m.rng.choice(outer), left=first, topic=m.rng.choice("abc"))


def _join_then_limit(m: _Maker) -> Step:
    kind = m.rng.choice((JoinKind.INNER, JoinKind.FULL_OUTER, JoinKind.LEFT_SEMI))
    return Limit(m.join(kind=kind), m.rng.randrange(1, 40))


SHAPES = {
    make.__name__.strip("_"): make
    for make in (
        _aggregate, _aggregate_of_aggregate, _deduplicate, _deduplicate_by_time, _limit, _deduplicate_then_join,
        _windows_joined, _join_then_aggregate, _windows_joined_then_aggregate, _join_then_deduplicate, _join_of_join,
        _join_then_limit, _windows_joined_twice,
    )
}  # fmt: skip


def make_history(rng: Random, shape: str | None = None) -> History:
    """A random chain and what happens to it."""
    name = shape or rng.choice(list(SHAPES))
    last = SHAPES[name](_Maker(rng))
    fields = tuple(types_of(last))
    one_sided = 0.7 if name == "windows_joined_twice" else 0.3
    if isinstance(last, Join) and is_window(last.left) and rng.random() < one_sided:  # nothing of one side
        sides = (last.left, last.left if last.kind is JoinKind.LEFT_SEMI else last.right)
        fields = tuple(types_of(rng.choice(sides)))
    described = Chain(
        name, last, fields, rng.choice((WatermarkPolicy.MIN, WatermarkPolicy.MIN, WatermarkPolicy.MAX))
    )
    rows = _Rows(rng, described.topics)
    phases = []
    for number in range(rng.randrange(3, 7)):
        restart = number > 0 and rng.random() < 0.35
        together = restart or number == 0
        batches = [rows.batch() for _ in range(rng.randrange(1, 4) if together else 1)]
        phases.append(Phase(batches, restart, rerun=restart and rng.random() < 0.5))
    rows.now_s += 100
    phases.append(Phase([rows.batch(every=True)]))
    return History(described, phases, no_data=rng.random() < 0.75)


class _Rows:
    """Rows whose times go on from batch to batch, some of them back. A second row with an id is a copy of the first."""

    def __init__(self, rng: Random, topics: tuple[str, ...]) -> None:
        self.rng = rng
        self.topics = topics
        self.now_s = rng.choice((0, 0, 3, 1000))
        self.made: list[dict[str, Any]] = []

    def batch(self, *, every: bool = False) -> list[dict[str, Any]]:
        """The rows of all topics; of one that pauses, none."""
        self.now_s += self.rng.choice((0, 1, 3, 5, 10))
        rows = []
        for topic in self.topics:
            if every or self.rng.random() < 0.8:
                rows += [self._row(topic) for _ in range(self.rng.randrange(1 if every else 0, 8))]
        return rows

    def _row(self, topic: str) -> dict[str, Any]:
        rng = self.rng
        again = [row for row in self.made if row["topic"] == topic]
        if again and rng.random() < 0.2:
            return rng.choice(again)
        time_us = (self.now_s + rng.choice((0, 0, 0, -1, -2, -5, -10, 2))) * SECOND_US
        time_us += rng.choice((0, 0, 0, 1, -1, 1000, -1000, 999, 500_000))
        row = {
            "topic": topic, "id": f"{topic}{len(self.made)}", "k": rng.choice(("x", "y", "z", None, "x")),
            "v": rng.choice((0, 1, 2, 3, 7, None)), "t": time_us,
        }  # fmt: skip
        self.made.append(row)
        return row
