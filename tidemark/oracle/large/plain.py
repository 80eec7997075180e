"""JSON values as DuckDB reads them, where they are plain; whether a value is plain says a condition of SQL.

Free of I/O. ``tidemark.formats.events`` is what says how a value is read. DuckDB reads a value otherwise where a field
is there twice, or has an escape in its name, where a number is no BIGINT, where a time is not written in full, and
where JSON is nested very deeply. Such a value is *odd*: it is left to ``formats.events``. What is plain is read the
same by both, and tested so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$ -]*")
_DEEPEST = 64
_SHALLOW = 500
"""A text that is not longer than this is not nested too deeply for anybody."""
_ODD = r",\s*[}\]]|[:,\[]\s*-?([nN][aA][nN]|[iI][nN][fF]|[0-9.]+[eE])"
"""``NaN``, ``Infinity`` and a comma behind the last entry, which are no JSON, and numbers with an exponent, which may
be too large.
"""
_CANONICAL = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?Z"


def is_plain_name(name: str) -> bool:
    """Whether a field of this name can be looked for."""
    return _NAME.fullmatch(name) is not None


def text_of(value: str) -> str:
    """A literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def extracted(names: Sequence[str], value: str = "value") -> str:
    """The fields of a JSON object, as a list of JSON values; NULL for what is no JSON."""
    paths = ", ".join(text_of(f'$."{name}"') for name in names)
    return f"case when json_valid({value}) then json_extract({value}, [{paths}]) end"


def plain_object(names: Sequence[str], value: str = "value") -> str:
    """Whether a text is a JSON object in which each of these fields is there once, or not at all.

    ``f`` is what :func:`extracted` gives of it, NULL where it is no JSON.
    """
    opened = f"length({value}) - length(replace(replace({value}, '{{', ''), '[', ''))"
    asked = [
        "f is not null",
        f"left({value}, 1) = '{{'",
        f"not contains({value}, '\\u')",
        f"not regexp_matches({value}, {text_of(_ODD)})",
        f"case when length({value}) > {_SHALLOW} then {opened} <= {_DEEPEST} else true end",
    ]
    for name in dict.fromkeys(names):
        quoted = text_of(f'"{name}"')
        asked.append(f"length({value}) - length(replace({value}, {quoted}, '')) <= {len(name) + 2}")
    return " and ".join(f"({one})" for one in asked)


def as_text(field: str) -> str:
    """A field that is text or missing, as text."""
    return f"({field} ->> '$')"


def is_text(field: str) -> str:
    """Whether a field is text, NULL or missing."""
    return f"coalesce(json_type({field}), 'NULL') in ('NULL', 'VARCHAR')"


def as_number(field: str) -> str:
    """A field that is a whole number or missing, as BIGINT."""
    return f"try_cast({as_text(field)} as bigint)"


def is_number(field: str) -> str:
    """Whether a field is a BIGINT, NULL or missing."""
    kind = f"coalesce(json_type({field}), 'NULL')"
    return f"({kind} = 'NULL' or {kind} in ('BIGINT', 'UBIGINT') and {as_number(field)} is not null)"


def as_time_us(field: str) -> str:
    """A time that is written in full, in microseconds since the epoch; NULL if there is no such time."""
    text = f"replace(replace({as_text(field)}, 'Z', ''), 'T', ' ')"
    return f"epoch_us(try_cast({text} as timestamp))"


def is_time(field: str) -> str:
    """Whether a field is a time that is written in full."""
    text = as_text(field)
    return (
        f"json_type({field}) = 'VARCHAR' and regexp_full_match({text}, {text_of(_CANONICAL)})"
        f" and {text} >= '0001' and {as_time_us(field)} is not null"
    )
