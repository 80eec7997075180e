"""What stands in redacted evidence for a value: for one that is only equal or not, and for one that is compared.

Free of I/O. A *class* are the fields that a contract compares with each other, and what it compares them with. The
judge needs of a value no more than how it compares:

* equal or not: its pseudonym (``pseudonyms``);
* compared with values of the contract alone: between which of them it lies (``Interval``). Of ``price >= 5`` there are
  three numbers: below, equal, above. The contract's 5 is replaced by the number for equal;
* compared with other fields, or an id or a key, too: its place among all values of its class (``Ranked``);
* compared with a number that Spark takes for a bound on the event time, a known defect (``KeptLiterals``): the number
  of the contract stays, because it decides when rows are evicted. A value is replaced by another that lies between the
  same numbers.

Values here are what has their order (``field_values.in_order``): whole numbers, or bytes for text. A *code* is what is
written to JSON. Numbers have numbers as codes; text, dates and booleans have text, which Spark takes for no time.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from tidemark.formats.contract import Literal
from tidemark.formats.field_values import cast, double_text, in_order, value_text
from tidemark.formats.record_fields import BIGINT, DECIMAL, DOUBLE, NUMBERS, STRING, ValueType
from tidemark.redaction.pseudonyms import Pseudonyms

Ordered = int | bytes
"""A value as what has its order."""
_TEXT = ValueType(STRING)
_DIGITS = 12
"""Of a code that is text: all have the same length, so that their bytes have the order of the numbers."""
_MOST_DIGITS = 38


class ValueCode(Protocol):
    """Gives the codes of the values of one class; ``type`` is theirs in the redacted contract."""

    type: str

    def add(self, value: Ordered) -> None:
        """Take note of a value, before the first code is asked for."""

    def code(self, value: Ordered) -> Any:
        """The code of a value."""

    def literal(self, value: Ordered, written: Literal) -> Literal:
        """The code of what a contract compares with; ``written`` is what it says."""


class Interval:
    """The place of a value among those that the contract compares with; even numbers are between them."""

    def __init__(self, literals: Iterable[Ordered], kind: ValueType) -> None:
        self._bounds: Sequence[Any] = sorted(set(literals))
        self.type = _type_of(kind)

    def add(self, value: Ordered) -> None:
        """Nothing: the contract has all that is needed."""

    def code(self, value: Ordered) -> Any:
        """Which of the intervals, as a number or as text."""
        return _written(_place(self._bounds, value), self.type)

    def literal(self, value: Ordered, written: Literal) -> Literal:  # noqa: ARG002 (of the protocol)
        """The number of the interval that has this value alone."""
        code: Literal = self.code(value)
        return code


class Ranked:
    """The place of a value among all of its class."""

    def __init__(self, literals: Iterable[Ordered], kind: ValueType) -> None:
        self._found = set(literals)
        self._ranks: Mapping[Ordered, int] = {}
        self._sorted: Sequence[Any] = []
        self.type = _type_of(kind)

    def add(self, value: Ordered) -> None:
        """Take note of a value."""
        self._found.add(value)

    def code(self, value: Ordered) -> Any:
        """Its place; a value that nobody took note of is between two others."""
        if self._found:
            self._sorted = sorted(self._found)
            self._ranks = {one: 2 * rank + 1 for rank, one in enumerate(self._sorted)}
            self._found = set()
        rank = self._ranks.get(value)
        return _written(2 * bisect_left(self._sorted, value) if rank is None else rank, self.type)

    def literal(self, value: Ordered, written: Literal) -> Literal:  # noqa: ARG002 (of the protocol)
        """The place of what the contract compares with."""
        code: Literal = self.code(value)
        return code


class KeptLiterals:
    """A number that lies as the value does, between numbers of the contract, which stay."""

    def __init__(self, literals: Iterable[Ordered], kind: ValueType, scale: int) -> None:
        self._bounds: Sequence[Any] = sorted(set(literals))
        self._kind, self._scale = kind.kind, scale
        self.type = f"{DECIMAL}({_MOST_DIGITS},{scale})" if kind.kind == DECIMAL else kind.kind

    def add(self, value: Ordered) -> None:
        """Nothing: the contract has all that is needed."""

    def code(self, value: Ordered) -> Any:
        """The number beside the first or the last of the contract, or in the middle between two."""
        place, bounds = _place(self._bounds, value), self._bounds
        if place % 2:
            number = int(bounds[place // 2])
        elif place == 0:
            number = int(bounds[0]) - 1
        elif place == 2 * len(bounds):
            number = int(bounds[-1]) + 1
        else:
            number = (int(bounds[place // 2 - 1]) + int(bounds[place // 2])) // 2
        if self._kind == DECIMAL:
            return f"{Decimal(number).scaleb(-self._scale):f}"
        return _double(number) if self._kind == DOUBLE else number

    def literal(self, value: Ordered, written: Literal) -> Literal:  # noqa: ARG002 (of the protocol)
        """What the contract says."""
        return written


class Identity:
    """Ids and keys of one field, as text: pseudonyms, or codes of its class if the contract compares it."""

    def __init__(self, pseudonyms: Pseudonyms, compared: tuple[ValueCode, ValueType, int] | None) -> None:
        self._pseudonyms = pseudonyms
        self._compared = compared

    def of(self, text: str | None) -> str | None:
        """What stands for an id or a key, which is text in output and state."""
        if text is None or self._compared is None:
            return self._pseudonyms.or_null(text)
        code, kind, scale = self._compared
        value = cast(text, _TEXT, kind)
        number = in_order(value, kind, scale)
        if number is None or value_text(value, kind) != text:
            return self._pseudonyms.of(text)
        return str(code.code(number))


def _place(bounds: Sequence[Any], value: Any) -> int:
    at = bisect_left(bounds, value)
    return 2 * at + 1 if at < len(bounds) and bounds[at] == value else 2 * at


def _type_of(kind: ValueType) -> str:
    return BIGINT if kind.kind in NUMBERS else STRING


def _written(number: int, kind: str) -> int | str:
    return number if kind == BIGINT else f"{number:0{_DIGITS}d}"


def _double(number: int) -> float | str:
    """The double that has this place in the order of all (``in_order``), as JSON has it."""
    size: float = struct.unpack(">d", struct.pack(">q", abs(number)))[0]
    found = size if number >= 0 else -size
    return found if abs(found) < float("inf") else double_text(found)
