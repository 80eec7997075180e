"""Whether the fields of a dataclass have the types that they are declared with; numbers, and values in messages.

Free of everything but the standard library, as the contract is. JSON has no types of its own: ``"keys": "user"`` would
be a list of letters, and ``true`` the name of a column.
"""

from __future__ import annotations

import functools
import types
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

LONG = range(-(1 << 63), 1 << 63)
"""What Spark's BIGINT, and so each number of a contract, can be."""


def wrong_type(value: Any) -> str:
    """What is wrong with the first field of a dataclass that has another type than declared; ``""``: nothing.

    Fields that are dataclasses, or tuples of them, are looked into.
    """
    hints = _hints_of(value.__class__)
    for field in fields(value):
        if problem := _wrong(getattr(value, field.name), hints[field.name]):
            return f"{field.name}{problem}"
    return ""


@functools.cache
def _hints_of(kind: type[Any]) -> dict[str, Any]:
    """The types of the fields of a dataclass; to evaluate them takes longer than to check a contract."""
    return get_type_hints(kind)


def _wrong(value: Any, hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        problems = [_wrong(value, one) for one in get_args(hint)]
        return "" if "" in problems else max(problems, key=lambda problem: problem.startswith("."))
    if get_origin(hint) is tuple:
        return _wrong_tuple(value, get_args(hint))
    if hint is type(None):
        return "" if value is None else _told(value)
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, hint):
            return _told(value)
        problem = wrong_type(value)
        return f".{problem}" if problem else ""
    if hint is int:
        return "" if type(value) is int and value in LONG else _told(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "" if isinstance(value, hint) else _told(value)
    return "" if type(value) is hint else _told(value)


def _wrong_tuple(value: Any, parts: tuple[Any, ...]) -> str:
    if not isinstance(value, tuple):
        return _told(value)
    hints = [parts[0]] * len(value) if len(parts) == 2 and parts[1] is Ellipsis else list(parts)
    if len(hints) != len(value):
        return f" has {len(value)} parts in place of {len(hints)}"
    for number, (one, hint) in enumerate(zip(value, hints, strict=True)):
        if problem := _wrong(one, hint):
            return f"[{number}]{problem}"
    return ""


def _told(value: Any) -> str:
    return f" is {short(value)}"


def short(value: object) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_plain_number(text: str, end: int) -> bool:
    """Whether a text is a number from 0 to below ``end``, as a program writes it: no sign, no zero in front."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(end))
    return is_number and str(int(text)) == text and int(text) < end
