"""Spark's rules once more, as slowly and literally as they can be written down: lists, and a loop for
every question.

Independent of ``tidemark.oracle`` on purpose; that the two agree on random histories is a test of both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from tidemark.formats.contract import Bound

PRESERVED = {"left_outer": "L", "right_outer": "R", "full_outer": "LR"}


@dataclass
class Row:
    side: str
    number: int
    key: str | None
    us: int | None
    matched: bool = False


@dataclass
class Naive:
    """What came out: ``(left or None, right or None, batch)``, the watermark of each batch, who was accepted, and the
    state and its counts after each batch.
    """

    kind: str
    bound: Bound
    delays_ms: tuple[int, int]
    policy: str = "min"
    form: int = 2
    semi_right_first: bool = True
    out: list[tuple[int | None, int | None, int]] = field(default_factory=list)
    watermarks_ms: list[int] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    accepted: list[tuple[Row, int]] = field(default_factory=list)
    kept: list[list[Row]] = field(default_factory=list)
    counts: list[Counter[str]] = field(default_factory=list)

    def run(self, batches: list[tuple[list[Row], list[Row]]], rerun: frozenset[int] = frozenset()) -> Naive:
        state: dict[str, list[Row]] = {"L": [], "R": []}
        seen: dict[str, int] = {}
        ev = 0
        previous = 0
        for number, (left, right) in enumerate(batches):
            self.watermarks_ms.append(ev)
            late = previous if number else 0
            self.counts.append(Counter())
            if number in rerun:
                seen = {}
            sides = {"L": self.pushed(left, "L"), "R": self.pushed(right, "R")}
            for side in ("R", "L") if self.kind == "left_semi" and self.semi_right_first else ("L", "R"):
                for row in sides[side]:
                    self.process(row, state, number, late, ev)
            for side in ("L", "R"):
                for row in list(state[side]):
                    if self.evictable(row, ev):
                        state[side].remove(row)
                        self.counts[-1][f"removed {side}"] += 1
                        if side in PRESERVED.get(self.kind, "") and not row.matched:
                            nulls = (row.number, None) if side == "L" else (None, row.number)
                            self.out.append((*nulls, number))
            self.kept.append([replace(row) for side in ("L", "R") for row in state[side]])
            for side, delay in zip(("L", "R"), self.delays_ms, strict=True):
                if sides[side]:
                    latest = max((row.us or 0) // 1000 for row in sides[side]) - delay
                    seen[side] = max(seen.get(side, latest), latest)
            policy = min if self.policy == "min" else max
            previous, ev = ev, max(ev, policy(seen.get("L", 0), seen.get("R", 0)))
        self.watermarks_ms.append(ev)
        return self

    def pushed(self, rows: list[Row], side: str) -> list[Row]:
        if side in PRESERVED.get(self.kind, ""):
            return rows
        return [row for row in rows if row.key is not None and row.us is not None]

    def process(self, row: Row, state: dict[str, list[Row]], batch: int, late: int, ev: int) -> None:
        if row.us is not None and row.us <= late * 1000:
            self.late.append(row)
            self.counts[-1]["dropped"] += 1
            return
        self.accepted.append((row, batch))
        others = state["R" if row.side == "L" else "L"]
        found = [other for other in others if self.match(row, other)]
        if self.kind == "left_semi":
            if row.side == "R":
                for other in found:
                    if not other.matched:
                        self.out.append((other.number, None, batch))
                    other.matched = True
                    if self.semi_right_first:
                        others.remove(other)
                        self.counts[-1]["removed L"] += 1
            elif found:
                self.out.append((row.number, None, batch))
                return
        else:
            for other in found:
                left, right = (row, other) if row.side == "L" else (other, row)
                self.out.append((left.number, right.number, batch))
                other.matched = True
        if row.side == "R" and self.evictable(row, ev) and (found or "R" not in PRESERVED.get(self.kind, "")):
            return
        row.matched = bool(found)
        state[row.side].append(row)
        self.counts[-1]["stored"] += 1

    def match(self, row: Row, other: Row) -> bool:
        left, right = (row, other) if row.side == "L" else (other, row)
        if (left.key is None and self.kind != "full_outer") or left.us is None or right.us is None:
            return False
        return left.key == right.key and holds(self.bound, left.us - right.us)

    def evictable(self, row: Row, watermark_ms: int) -> bool:
        bound = self.bound
        if row.side == "L":
            edge, strict = bound.lower_ms, bound.lower_strict
        else:
            edge, strict = None if bound.upper_ms is None else -bound.upper_ms, bound.upper_strict
        if edge is None or (row.us is None and self.form < 4):
            return False
        state_watermark_ms = watermark_ms + edge if strict else watermark_ms + edge - 1
        return (row.us or 0) <= state_watermark_ms * 1000


def holds(bound: Bound, us: int) -> bool:
    """Whether a bound holds for ``left - right``."""
    if bound.lower_ms is not None:
        low = bound.lower_ms * 1000
        if us < low or (bound.lower_strict and us == low):
            return False
    if bound.upper_ms is not None:
        high = bound.upper_ms * 1000
        if us > high or (bound.upper_strict and us == high):
            return False
    return True
