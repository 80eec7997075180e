"""Expressions as Spark prints them in a plan: ``(click_time#17-T20000ms >= impression_time#8-T10000ms)``.

Free of I/O. Binary operators stand in parentheses of their own, literals without quotes; so a text is read only as far
as its form is certain, and everything else is ``None``. Times and intervals are integer microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from tidemark.formats import contract

US_PER_MS = 1000
_US = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_UNITS = list(_US)
_CALENDAR = {f"{unit.lower()}s": us for unit, us in _US.items()} | {
    "weeks": 7 * _US["DAY"],
    "milliseconds": 1000,
}
_DAYS_IN_MONTHS = {"months": 31, "years": 12 * 31}
"""How a watermark's delay counts months (``EventTimeWatermark.getDelayMs``); in a time bound they have no length."""

ATTRIBUTE = re.compile(
    r"(?P<name>[^\s()\[\],#]+)#(?P<id>\d+)L?(?:-T(?P<delay>\d+)ms)?(?P<path>(?:\.[^\s()\[\],.#]+|\[\d+\])*)"
)
_PATH = re.compile(r"\.[^\s()\[\],.#]+(?:\.[^\s()\[\],.#]+|\[\d+\])*").fullmatch
_COMPARISONS = (" <=> ", " >= ", " <= ", " > ", " < ", " = ")
FLIPPED = {**contract.FLIPPED, "<=>": "<=>"}
"""Each comparison read from right to left."""


@dataclass(frozen=True)
class Relation:
    """``left op right``, each side the text of an expression; ``op`` as SQL writes it, or ``<=>``."""

    left: str
    op: str
    right: str


@dataclass(frozen=True)
class Linear:
    """A sum of columns, by their text, and a constant in microseconds."""

    columns: dict[str, int] = field(default_factory=dict)
    us: int = 0

    def minus(self, other: Linear, sign: int = -1) -> Linear:
        """The difference (``sign`` 1: the sum)."""
        columns = dict(self.columns)
        for name, times in other.columns.items():
            columns[name] = columns.get(name, 0) + sign * times
        return Linear({name: times for name, times in columns.items() if times}, self.us + sign * other.us)


def tidy(text: str) -> str:
    """An expression for people: fields by their names, without the ids and delays of columns."""
    while (start := text.find("from_json(")) >= 0:
        opened = start + len("from_json")
        closed = (
            next((p for p, depth in depths(text[opened:]) if depth == 0), len(text) - opened - 1) + opened
        )
        text = text[:start] + text[closed + 1 :].removeprefix(".")
    return re.sub(r"#\d+L?(?:-T\d+ms)?", "", text)


def depths(text: str) -> Iterator[tuple[int, int]]:
    """``(position, depth)`` of every character that is no bracket, and of each closing bracket after it."""
    depth = 0
    for position, character in enumerate(text):
        if character in "([":
            depth += 1
        else:
            depth -= character in ")]"
            yield position, depth


def split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand in no bracket."""
    parts, start = [], 0
    for position, depth in depths(text):
        if depth == 0 and position >= start and text.startswith(separator, position):
            parts.append(text[start:position])
            start = position + len(separator)
    return [*parts, text[start:]]


def bare(text: str) -> str:
    """A text without the brackets around all of it."""
    text = text.strip()
    while text.startswith("(") and next((p for p, depth in depths(text) if depth == 0), -1) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def conjuncts(text: str) -> tuple[str, ...]:
    """What has to hold all together; none for ``null``."""
    text = bare(text)
    if text in ("null", "true", ""):
        return ()
    parts = split(text, " AND ")
    return (text,) if len(parts) == 1 else tuple(one for part in parts for one in conjuncts(part))


def call(text: str, function: str) -> str | None:
    """The arguments of ``function(arguments)``, if the text is exactly that."""
    text = bare(text)
    inner = text.removeprefix(function)
    if inner == text or not inner.startswith("(") or bare(inner) == inner or not inner.endswith(")"):
        return None
    return inner[1:-1]


def split_path(text: str) -> tuple[str, str]:
    """``function(arguments)`` and the path behind it; no path if the text has another form."""
    closed = next((at for at, depth in depths(text) if depth == 0 and text[at] == ")"), None)
    rest = "" if closed is None else text[closed + 1 :]
    return (text[: closed + 1], rest[1:]) if closed is not None and _PATH(rest) else (text, "")


def relation(text: str) -> Relation | None:
    """A conjunct as one comparison, if it is one."""
    text = bare(text)
    if text.startswith("NOT "):
        inner = relation(text.removeprefix("NOT "))
        return Relation(inner.left, "!=", inner.right) if inner is not None and inner.op == "=" else None
    found = [(op, parts) for op in _COMPARISONS if len(parts := split(text, op)) > 1]
    if len(found) != 1 or len(found[0][1]) != 2:
        return None
    op, (left, right) = found[0]
    return Relation(left.strip(), op.strip(), right.strip())


def interval_us(text: str, *, days_in_months: bool = False) -> int | None:
    """A literal interval; ``None`` for anything else, and for months unless they are to count 31 days each."""
    day_time = re.fullmatch(r"INTERVAL '(-?)([\d :.]+)' (\w+)(?: TO (\w+))?", text)
    if day_time is not None:
        sign, body, first, last = day_time.groups()
        if first not in _US or (last or first) not in _US:
            return None
        units = _UNITS[_UNITS.index(first) : _UNITS.index(last or first) + 1]
        values = re.split(r"[ :]", body)
        if len(values) != len(units):
            return None
        total = sum(Decimal(value) * _US[unit] for value, unit in zip(values, units, strict=True))
        return int(-total if sign else total)
    words = text.removeprefix("interval ").split()
    if (
        not words
        or len(words) % 2
        or not all(re.fullmatch(r"-?\d+(\.\d+)?", number) for number in words[::2])
    ):
        return None
    lengths = _CALENDAR | (
        {unit: days * _US["DAY"] for unit, days in _DAYS_IN_MONTHS.items()} if days_in_months else {}
    )
    if not set(words[1::2]) <= set(lengths):
        return None
    return int(
        sum(Decimal(number) * lengths[unit] for number, unit in zip(words[::2], words[1::2], strict=True))
    )


def linear(text: str) -> Linear | None:
    """An expression over times as a sum; ``None`` if it holds anything but columns, ``+``, ``-`` and intervals."""
    text = bare(text)
    if ATTRIBUTE.fullmatch(text):
        return Linear({text: 1})
    constant = interval_us(text)
    if constant is not None:
        return Linear(us=constant)
    cast = call(text, "cast")
    if cast is not None and cast.endswith(" as timestamp"):
        return linear(cast.removesuffix(" as timestamp"))
    last = max(
        ((p, s) for p, d in depths(text) if d == 0 for s in (" + ", " - ") if text.startswith(s, p)),
        default=None,
    )
    if last is None:
        return None
    position, operator = last
    left, right = linear(text[:position]), linear(text[position + 3 :])
    return None if left is None or right is None else left.minus(right, 1 if operator == " + " else -1)
