"""Spark's rules for any contract, as literally as they can be written down: dictionaries, and a loop for all.

Independent of ``tidemark.oracle`` on purpose. It reads the JSON of the records by itself, and follows a contract from
what a user wrote to rows per batch.
"""

from __future__ import annotations

import json
import operator
from datetime import datetime
from typing import Any

OPS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
OUTER = {"left_outer": "L", "right_outer": "R", "full_outer": "LR"}


def holds(left: Any, op: str, right: Any) -> bool:
    return left is not None and right is not None and OPS[op](left, right)


class Literal:
    """``run`` takes the batches, each a list of ``(side, number, JSON)``, and says what comes out, and when.

    ``states`` has the state after each batch: number, time, key and flag of each row of a side.

    ``form``: the state format; 4 has rules of its own in Spark 4.2. ``spark``: its version; before 4.2 a left semi join
    has an order of its own.
    """

    def __init__(self, contract: dict[str, Any], form: int = 2, spark: str = "4.2.0") -> None:
        self.c = contract
        self.form = form
        self.is_old = spark < "4.2"
        self.side = {"L": contract["left"], "R": contract["right"]}
        self.kind = contract["kind"]
        self.preserved = OUTER.get(self.kind, "")
        for term in contract["where"]:
            if term["left"] is not None:
                self.preserved = self.preserved.replace("R", "")
            if term["right"] is not None:
                self.preserved = self.preserved.replace("L", "")
        if self.kind in OUTER:
            kinds = {"": "inner", **{sides: kind for kind, sides in OUTER.items()}}
            self.kind = kinds[self.preserved]
        self.out: list[tuple[int | None, int | None, int]] = []
        self.late: set[tuple[str, int]] = set()
        self.watermarks: list[int] = []
        self.states: list[dict[str, list[tuple[int, int, tuple[Any, ...], bool]]]] = []

    def run(self, batches: list[list[tuple[str, int, str]]], restarts: set[int]) -> None:
        state: dict[str, list[dict[str, Any]]] = {"L": [], "R": []}
        seen: dict[str, int] = {}
        now = before = 0
        for number, records in enumerate(batches):
            self.watermarks.append(now)
            if number in restarts:
                seen = {}
            rows = [row for record in records for row in [self.row(*record)] if row is not None]
            for side in "RL" if self.kind == "left_semi" and not self.is_old else "LR":
                for row in rows:
                    if row["side"] == side:
                        self.take(row, state, number, (before, now))
            for side in "LR":
                for row in [one for one in state[side] if self.evictable(one, now) and not one["stays"]]:
                    state[side].remove(row)
                    if side in self.preserved and not row["matched"]:
                        self.emit_alone(row, number)
            self.states.append(
                {
                    side: [(one["number"], one["stamp"], one["key"], one["matched"]) for one in kept]
                    for side, kept in state.items()
                }
            )
            for side in "LR":
                delay = self.side[side]["watermark_delay_ms"]
                times = [row["us"] for row in rows if row["side"] == side]
                if delay is not None and times:
                    seen[side] = max(seen.get(side, -(10**18)), max(times) // 1000 - delay)
            policy = min if self.c["policy"] == "min" else max
            known = [seen.get(s, 0) for s in "LR" if self.side[s]["watermark_delay_ms"] is not None]
            before, now = now, max([now, policy(known)] if known else [now])

    def row(self, side: str, number: int, text: str) -> dict[str, Any] | None:
        """A row that reaches the watermark, or ``None``."""
        try:
            value = json.loads(text)
        except ValueError:
            return None
        about, n = self.side[side], value.get("n")
        us = round(datetime.fromisoformat(value["t"]).timestamp() * 1_000_000)
        key = tuple(value[name] for name in about["keys"])
        row = {"side": side, "number": number, "us": us, "stamp": us, "key": key, "n": n, "matched": False}
        if self.c["bound"]["window_ms"]:
            length = self.c["bound"]["window_ms"] * 1000
            row["stamp"] = us - us % length + length
        if not all(holds(n, one["op"], one["value"]) for one in about["filters"]):
            return None
        mine, other = ("left", "right") if side == "L" else ("right", "left")
        for term in self.c["where"]:
            if term[mine] is not None and term[other] is None and not self.own_term(term, side, n):
                return None
        if side not in self.preserved:
            if None in key:
                return None
            for term in self.c["condition"] + [one for one in self.c["where"] if one["value"] is None]:
                if term[mine] is None:
                    continue
                if n is None or (term[other] is None and not self.own_term(term, side, n)):
                    return None
        return row

    def own_term(self, term: dict[str, Any], side: str, n: int | None) -> bool:
        return holds(n, term["op"], term["value"]) if side == "L" else holds(term["value"], term["op"], n)

    def take(self, row: dict[str, Any], state: dict[str, Any], batch: int, marks: tuple[int, int]) -> None:
        late, now = marks
        side = row["side"]
        if self.side[side]["watermark_delay_ms"] is not None and row["stamp"] <= late * 1000:
            self.late.add((side, row["number"]))
            return
        if side in self.preserved:
            mine, other = ("left", "right") if side == "L" else ("right", "left")
            for term in self.c["condition"]:
                if term[mine] is not None and term[other] is None and not self.own_term(term, side, row["n"]):
                    self.emit_alone(row, batch)
                    return
        others = state["R" if side == "L" else "L"]
        found = [one for one in others if self.match(row, one)]
        if self.kind == "left_semi":
            if side == "R":
                for one in found:
                    if not one["matched"]:
                        self.out.append((one["number"], None, batch))
                    one["matched"] = True
                    if not self.is_old:
                        others.remove(one)
            elif found:
                self.out.append((row["number"], None, batch))
                return
        else:
            for one in found:
                pair = (row, one) if side == "L" else (one, row)
                self.out.append((pair[0]["number"], pair[1]["number"], batch))
                one["matched"] = True
        if side == "R" and self.evictable(row, now) and ("R" not in self.preserved or found):
            return
        row["matched"] = bool(found)
        row["stays"] = self.form == 4 and batch > 0 and self.evictable(row, late)
        state[side].append(row)

    def match(self, row: dict[str, Any], one: dict[str, Any]) -> bool:
        left, right = (row, one) if row["side"] == "L" else (one, row)
        if left["key"] != right["key"] or (None in left["key"] and self.kind != "full_outer"):
            return False
        bound, away = self.c["bound"], left["stamp"] - right["stamp"]
        low, high = bound["lower_ms"], bound["upper_ms"]
        if bound["equal"] and away != 0:
            return False
        if self.form == 4 and not bound["equal"] and None not in self.delays():
            ends = (low, away, self.limits("L")), (high, -away, self.limits("R"))
            if any(end is None and limits and over <= min(limits) * 1000 for end, over, limits in ends):
                return False
        if low is not None and not (away > low * 1000 or (away == low * 1000 and not bound["lower_strict"])):
            return False
        if high is not None and not (
            away < high * 1000 or (away == high * 1000 and not bound["upper_strict"])
        ):
            return False
        both = [term for term in self.c["condition"] + self.c["where"] if term["value"] is None]
        return all(holds(left["n"], term["op"], right["n"]) for term in both)

    def evictable(self, row: dict[str, Any], now: int) -> bool:
        bound, delays = self.c["bound"], self.delays()
        if bound["equal"]:
            return delays != [None, None] and row["stamp"] <= now * 1000
        if None in delays:
            return False
        if row["side"] == "L":
            end, strict = bound["lower_ms"], bound["lower_strict"]
        else:
            end, strict = bound["upper_ms"], bound["upper_strict"]
            end = None if end is None else -end
        rules = [] if end is None else [now + end - (0 if strict else 1)]
        rules += self.limits(row["side"])
        return bool(rules) and row["stamp"] <= min(rules) * 1000

    def delays(self) -> list[int | None]:
        return [self.side[s]["watermark_delay_ms"] for s in "LR"]

    def limits(self, side: str) -> list[int]:
        """Conditions that are taken for a bound on the event time."""
        mine, other = ("left", "right") if side == "L" else ("right", "left")
        lower = {">": 0, ">=": 1} if side == "L" else {"<": 0, "<=": 1}
        return [
            term["value"] * 1000 - lower[term["op"]]
            for term in self.c["condition"]
            if side in self.preserved and term[mine] and not term[other] and term["op"] in lower
        ]

    def emit_alone(self, row: dict[str, Any], batch: int) -> None:
        number = row["number"]
        self.out.append((number, None, batch) if row["side"] == "L" else (None, number, batch))
