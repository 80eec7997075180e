"""The fact that sets wrong rows apart from right ones.

Free of everything but words. A row has *facts*: a value for each name. A fact sets rows apart if most of the wrong ones
have one value of it, or values up to or from a limit on, and hardly any right row has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from tidemark.formats.events import write_time

Value = int | float | Decimal | str | bool | None
FEWEST = 3
"""Of fewer rows nothing is said: what two rows have in common is chance."""
_FEWEST_RIGHT = 10
"""With fewer right rows nothing is said that a right row can have, too."""
_MOST_WRONG, _FEW_RIGHT = 0.8, 0.02
"""A fact is named if at least this part of the wrong rows has it, and at most that part of the right ones."""
_US = 1_000_000
_QUARTER_US, _FARTHEST_US = 900 * _US, 14 * 3_600 * _US
"""Zones of time are whole quarter hours from UTC, and up to 14 hours."""
_SHOWN = 60


class Kind(StrEnum):
    """What the values of a fact are, which says how they are written and what is asked of them."""

    VALUE = "value"
    """A value of a record: one that all have, or a limit."""
    DURATION = "duration"
    """Microseconds: a value that all have, or a limit."""
    TIME = "time"
    """Microseconds since 1970: a limit."""
    NUMBER = "number"
    """A number that means nothing but itself, as that of a batch: a value that all have, or a limit."""
    STATEMENT = "statement"
    """Whether the name, which is a sentence, is true."""
    DEVIATION = "deviation"
    """As a statement, of what no right row can have: it takes no right rows to say it."""


class Fact(NamedTuple):
    """The name of a fact, as it is written, and what its values are."""

    name: str
    kind: Kind = Kind.VALUE


Facts = Mapping[Fact, Value]


class Common(NamedTuple):
    """A fact that ``wrong`` of the wrong rows have, and ``right`` of the right ones; ``text`` says it.

    ``is_limit``: it is one of values up to, or from, ``value`` on.
    """

    fact: Fact
    text: str
    wrong: int
    right: int
    value: Value
    is_limit: bool = False


def most_telling(wrong: Sequence[Facts], right: Sequence[Facts]) -> Common | None:
    """The fact that sets the wrong rows apart best; of several the first by the order of their names in a row."""
    if len(wrong) < FEWEST:
        return None
    names = list(dict.fromkeys(fact for facts in wrong for fact in facts))
    found = [one for fact in names for one in _candidates(fact, wrong, right)]
    telling = [one for one in found if _is_telling(one, len(wrong), len(right))]
    return max(telling, key=lambda one: _score(one, len(wrong), len(right)), default=None)


def sentence(common: Common, wrong: int, right: int) -> str:
    """``in all 399, orders.status = 'void'; in none of 5,000 right rows``."""
    of_right = f"none of {right:,}" if common.right == 0 else f"{common.right:,} of {right:,}"
    return f"in {of_all(common.wrong, wrong)}, {common.text}" + (
        f"; in {of_right} right rows" if right else ""
    )


def of_all(some: int, many: int) -> str:
    """``380 of 399``, or ``all 399``."""
    return f"all {many:,}" if some == many else f"{some:,} of {many:,}"


def _is_telling(one: Common, wrong: int, right: int) -> bool:
    is_compared = one.fact.kind is Kind.DEVIATION or right >= _FEWEST_RIGHT
    return is_compared and one.wrong >= _MOST_WRONG * wrong and one.right <= _FEW_RIGHT * right


def _score(one: Common, wrong: int, right: int) -> float:
    return one.wrong / wrong - (one.right / right if right else 0.0)


def _candidates(fact: Fact, wrong: Sequence[Facts], right: Sequence[Facts]) -> Iterator[Common]:
    """What may be said of one fact: a value first, then limits."""
    there = [facts[fact] for facts in wrong if fact in facts]
    others = [facts[fact] for facts in right if fact in facts]
    [(value, many)] = Counter(there).most_common(1)
    if fact.kind in (Kind.STATEMENT, Kind.DEVIATION):
        yield Common(fact, fact.name, there.count(True), others.count(True), True)
        return
    if fact.kind is not Kind.TIME:
        yield Common(fact, f"{fact.name} = {written(value, fact.kind)}", many, others.count(value), value)
    numbers, known = _numbers(there), _numbers(others)
    if len(numbers) != len(wrong) or not known:
        return  # a limit without right rows beyond it says nothing
    low, high = min(numbers), max(numbers)
    for sign, limit, beyond in (
        ("<=", high, sum(number > high for number in known)),
        (">=", low, sum(number < low for number in known)),
    ):
        if beyond >= len(known) - _FEW_RIGHT * len(right):
            text = f"{fact.name} {sign} {written(limit, fact.kind)}"
            yield Common(fact, text, len(numbers), len(known) - beyond, limit, is_limit=True)


def _numbers(values: Sequence[Value]) -> list[int | float | Decimal]:
    return [one for one in values if isinstance(one, int | float | Decimal) and not isinstance(one, bool)]


def written(value: Value, kind: Kind) -> str:
    """A value as people read it."""
    if value is None:
        return "NULL"
    if isinstance(value, int) and not isinstance(value, bool):
        if kind is Kind.DURATION:
            return duration(value)
        if kind is Kind.TIME:
            return write_time(value)
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 2]}…"


def duration(us: int) -> str:
    """``1:00:00.000``: hours, minutes, seconds and as many digits behind them as there are, at least three."""
    sign, us = ("-", -us) if us < 0 else ("", us)
    seconds, rest = divmod(us, _US)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    digits = f"{rest:06d}" if rest % 1000 else f"{rest // 1000:03d}"
    return f"{sign}{hours}:{minutes:02d}:{seconds:02d}.{digits}"


def is_of_zones(us: int) -> bool:
    """Whether times that are so far apart may be one local time in two zones."""
    return us != 0 and us % _QUARTER_US == 0 and abs(us) <= _FARTHEST_US


def read_elsewhere(us: int) -> str:
    """``read 1:00:00.000 later: another time zone``: how times that are too late, or below 0 too early, are read."""
    return f"read {duration(abs(us))} {'later' if us > 0 else 'earlier'}{zone_of(us)}"


def zone_of(us: int) -> str:
    """``: another time zone``, if the distance is one between zones."""
    return ": another time zone" if is_of_zones(us) else ""
