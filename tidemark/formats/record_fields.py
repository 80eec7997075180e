"""The fields of a record that a contract names: where each is, as what it is read, and what is made of it.

Free of everything but the standard library, as the contract is. A *path* leads through JSON objects and arrays::

    meta.id            the field ``id`` of the object ``meta``
    items[0].sku       the field ``sku`` of the first entry of the array ``items``
    `order.id`.text    the field ``text`` of the object that is named ``order.id``; in such a name `` is one backtick

A name of a contract (an id, a key, a time, what a filter compares) is a path itself, unless the side has a *field* of
that name::

    "fields": [{"name": "amount", "column": "totals.amount", "type": "decimal(12,2)"},
               {"name": "weight", "type": "string", "cast": "double", "round": 1}]

``column`` is its path (default: the name). ``type`` is the type that Spark's JSON reader is asked for (default: what
its use asks for: ``bigint`` of what is compared and of a time that is a number, else ``string``), ``cast`` a further
one, as ``try_cast`` makes it, and ``round`` the digits that are kept, as Spark's ``round`` keeps them. What cannot be
read, cast or rounded is NULL, as what is missing is. Where the columns of a query have the names of the fields, its
state is compared by them, too.

==================  ==================================================================================================
``string``          Text; anything else as its JSON text. Compared by its bytes in UTF-8.
``bigint``          A whole number of 64 bits.
``double``          A number, or ``"NaN"``, ``"Infinity"``, ``"-Infinity"``. NaN is equal to itself and greater than all
                    others, -0.0 is equal to 0.0. It is no join key: of doubles Spark joins NULL with NULL.
``decimal(P,S)``    A number, or text that is one, rounded half up to ``S`` digits; NULL if it has more than ``P``.
                    It is compared exactly.
``boolean``         ``true`` or ``false``; false is less than true.
``date``            Text, as Spark casts it to a date.
==================  ==================================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass

STRING, BIGINT, DOUBLE, DECIMAL, BOOLEAN, DATE = "string", "bigint", "double", "decimal", "boolean", "date"
KINDS = (STRING, BIGINT, DOUBLE, DECIMAL, BOOLEAN, DATE)
NUMBERS = (BIGINT, DOUBLE, DECIMAL)
MOST_DIGITS = 38
"""Of a decimal of Spark."""

_CASTS = {
    STRING: KINDS,
    BIGINT: (STRING, BIGINT, DOUBLE, DECIMAL, BOOLEAN),
    DOUBLE: (DOUBLE, BIGINT, DECIMAL),
    DECIMAL: (STRING, BIGINT, DOUBLE, DECIMAL),
    BOOLEAN: (STRING, BOOLEAN, BIGINT),
    DATE: (STRING, DATE),
}
"""The casts that are known, by the type that is cast."""
_TYPE = re.compile(
    r"decimal\((\d+), ?(\d+)\)|(" + "|".join(one for one in KINDS if one != DECIMAL) + ")"
).fullmatch
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.\[\]]+)|\[(\d+)\]")

Path = tuple[str | int, ...]
"""Names of fields, and places in arrays, counted from 0."""


@dataclass(frozen=True)
class ValueType:
    """A type: its kind, and of a decimal how many digits there are, and how many of them behind the point."""

    kind: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"{DECIMAL}({self.precision},{self.scale})" if self.kind == DECIMAL else self.kind


@dataclass(frozen=True)
class Field:
    """A field of a record, by a name of the contract's own; ``column`` is its path in the record (default: ``name``).

    ``type`` is what it is read as (default: what its use asks for, or ``string``), ``cast`` what that is cast to,
    ``round`` the digits to which a number is rounded.
    """

    name: str
    column: str | None = None
    type: str | None = None
    cast: str | None = None
    round: int | None = None

    @property
    def path(self) -> Path:
        """Where it is; raises ``ValueError``."""
        return path_of(self.column or self.name)

    @property
    def read_as(self) -> ValueType:
        """The type that it is read as; raises ``ValueError``."""
        return type_of(self.type or STRING)

    @property
    def made(self) -> ValueType:
        """The type that it has in the end; raises ``ValueError``."""
        made = type_of(self.cast or self.type or STRING)
        if made.kind != DECIMAL or self.round is None:
            return made
        scale = min(max(self.round, 0), made.scale)
        whole = max(made.precision - made.scale, -self.round) + 1
        return ValueType(DECIMAL, min(whole + scale, MOST_DIGITS), scale)

    @property
    def is_plain(self) -> bool:
        """Whether it is read as it is from the top of a record."""
        return len(self.path) == 1 and self.cast is None and self.round is None


def path_of(text: str) -> Path:
    """The parts of a path; raises ``ValueError`` if it is none."""
    parts: list[str | int] = []
    at = 0
    while at < len(text) or not parts:
        is_next = bool(parts)
        if is_next and text[at] == ".":
            at += 1
        elif is_next and text[at] != "[":
            raise ValueError(_no_path(text))
        found = _PART.match(text, at)
        if found is None or (found[3] is not None) != (is_next and text[found.start() - 1] != "."):
            raise ValueError(_no_path(text))
        quoted, plain, place = found.groups()
        parts.append(
            int(place) if place is not None else plain if quoted is None else quoted.replace("``", "`")
        )
        at = found.end()
    return tuple(parts)


def _no_path(text: str) -> str:
    return f"{text!r} is no path: write `meta.id`, `items[0].sku`, or a name that has dots in backticks"


def text_of_path(path: Path) -> str:
    """A path as a contract writes it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = _PART.fullmatch(part)
            name = part if plain is not None and plain[2] is not None else "`" + part.replace("`", "``") + "`"
            text += f".{name}" if text else name
    return text


def type_of(text: str) -> ValueType:
    """The type of this name; raises ``ValueError`` if there is none."""
    found = _TYPE(text)
    if found is None:
        raise ValueError(
            f"{text!r} is no type: there are {', '.join(KINDS)}, with the digits of a decimal: decimal(12,2)"
        )
    precision, scale, kind = found.groups()
    if kind is not None:
        return ValueType(kind)
    if not 0 < int(precision) <= MOST_DIGITS or int(scale) > int(precision):
        raise ValueError(
            f"{text!r} is no type: a decimal has up to {MOST_DIGITS} digits, the second number of them behind the point"
        )
    return ValueType(DECIMAL, int(precision), int(scale))


def field_problem(field: Field) -> str:
    """What is wrong with a field; empty: nothing."""
    try:
        _, read, made = field.path, field.read_as, field.made
    except ValueError as error:
        return f"field {field.name!r}: {error}"
    if made.kind not in _CASTS[read.kind]:
        return f"field {field.name!r}: a {read} is cast to {', '.join(_CASTS[read.kind])}, not to {made}"
    if field.round is not None and (made.kind not in (DOUBLE, DECIMAL) or abs(field.round) > MOST_DIGITS):
        return f"field {field.name!r}: round is {field.round}: of a double or decimal, up to {MOST_DIGITS} digits"
    return ""
