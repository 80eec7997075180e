"""JSON values as DuckDB reads them, where they are plain; whether a value is plain says a condition of SQL.

Free of I/O. ``tidemark.formats.events`` is what says how a value is read. DuckDB reads a value otherwise where a field
is there twice, or has an escape in its name, where a number is no BIGINT, where a time is not written in full, and
where JSON is nested very deeply. Such a value is *odd*: it is left to ``formats.events``. What is plain is read the
same by both, and tested so.

Most values of a topic are *simple*: their fields have the names of a value seen before, none of them twice, and nothing
is nested. For the others more is asked, which takes longer. Texts are over columns of these names: ``value``;
``is_json``; ``names`` of all fields; ``f``, those that are read, as a list of JSON values; and ``is_simple``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$ -]*")
_DEEPEST = 64
_SHALLOW = 500
"""A text that is not longer than this is not nested too deeply for anybody."""
_ODD = r",\s*[}\]]|[:,\[]\s*-?([nN][aA][nN]|[iI][nN][fF]|[0-9.]+[eE])"
"""``NaN``, ``Infinity`` and a comma behind the last entry, which are no JSON, and numbers with an exponent, which may
be too large.
"""
_CANONICAL = r'"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?Z"'
_NOT_SIMPLE = ("DOUBLE", "OBJECT", "ARRAY")
_MOST_SHAPES = 8
_LOOKED_AT = 5_000
Names = tuple[str, ...]
"""The names of the fields of an object, in order."""


def names_of(values: str) -> str:
    """A query for the names of the fields of some values, the most frequent first; ``values`` selects ``value``."""
    return (
        f"select json_keys(value) as names from ({values} limit {_LOOKED_AT}) v where json_valid(value)"
        f" group by names order by count(*) desc, names limit {_MOST_SHAPES}"
    )


def unique(found: Iterable[tuple[list[str]]]) -> list[Names]:
    """Those of which no name is there twice."""
    return [tuple(names) for (names,) in found if len({*names}) == len(names)]


def is_plain_name(name: str) -> bool:
    """Whether a field of this name can be looked for."""
    return _NAME.fullmatch(name) is not None


def text_of(value: str) -> str:
    """A literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def read_fields(values: str, fields: str, is_simple: str) -> str:
    """A ``select`` of ``value`` and more, with the columns that the other texts are over added."""
    return f"""
select *, coalesce({is_simple}, false) as is_simple
from (
    select *, case when is_json then json_keys(value) end as names, case when is_json then {fields} end as f
    from (select *, coalesce(json_valid(value), false) as is_json from ({values}) given) json_or_not
) extracted
"""


def is_simple(known: Sequence[Names]) -> str:
    """Whether the names are known ones, nothing is nested, and no comma is behind the last entry."""
    same = " or ".join(f"names = {_list_of(names)}" for names in known)
    types = "json_type(value, '$.*')"
    asked = [f"not list_contains({types}, '{kind}')" for kind in _NOT_SIMPLE]
    end = "ends_with(value, '}') and contains('\"0123456789el', substr(value, length(value) - 1, 1))"
    nothing_odd = " and ".join([*asked, "not contains(value, '\\u')", end])
    return f"case when {same or 'false'} then {nothing_odd} end"


def _list_of(texts: Sequence[str]) -> str:
    return "[" + ", ".join(map(text_of, texts)) + "]"


def extracted(names: Sequence[str]) -> str:
    """The fields of a JSON object, as a list of JSON values; fails for what is no JSON."""
    return f"json_extract(value, [{', '.join(text_of(_path(name)) for name in names)}])"


def _path(name: str) -> str:
    return f'$."{name}"'


def is_plain_object(names: Sequence[str]) -> str:
    """Whether a value is a JSON object in which each of these fields is there once, or not at all."""
    opened = "length(value) - length(replace(replace(value, '{', ''), '[', ''))"
    asked = [
        "is_json",
        "left(value, 1) = '{'",
        "not contains(value, '\\u')",
        f"not regexp_matches(value, {text_of(_ODD)})",
        f"case when length(value) > {_SHALLOW} then {opened} <= {_DEEPEST} else true end",
        *map(_is_there_once, dict.fromkeys(names)),
    ]
    return f"case when is_simple then true else {all_hold(asked)} end"


def _is_there_once(name: str) -> str:
    """Whether a text is in a value at most once."""
    quoted = text_of(f'"{name}"')
    return f"not contains(substr(value, strpos(value, {quoted}) + 1), {quoted})"


def all_hold(conditions: Sequence[str]) -> str:
    """Whether all of these are true, and none is NULL."""
    return "coalesce(" + " and ".join(f"({one})" for one in conditions) + ", false)"


def as_text(field: str) -> str:
    """A field that is text or missing, as text."""
    return (
        f"case when {field} is null then null when starts_with({field}, '\"') and not contains({field}, '\\')"
        f" then substr({field}, 2, length({field}) - 2) else {field} ->> '$' end"
    )


def is_text(field: str) -> str:
    """Whether a field is text, NULL or missing."""
    return f"({field} is null or starts_with({field}, '\"') or {field} = 'null')"


def as_number(field: str) -> str:
    """A field that is a whole number or missing, as BIGINT."""
    return f"try_cast(cast({field} as varchar) as bigint)"


def is_number(field: str) -> str:
    """Whether a field is a BIGINT, NULL or missing."""
    return (
        f"({field} is null or {field} = 'null' or {as_number(field)} is not null"
        f" and case when is_simple then true else json_type({field}) in ('BIGINT', 'UBIGINT') end)"
    )


def as_time_us(field: str) -> str:
    """A time that is written in full, in microseconds since the epoch; NULL if there is no such time."""
    return f"epoch_us(try_cast(substr({field}, 2, length({field}) - 2) as timestamp))"


def is_time(field: str) -> str:
    """Whether a field is a time that is written in full."""
    return (
        f"regexp_full_match({field}, {text_of(_CANONICAL)}) and not starts_with({field}, '\"0000')"
        f" and {as_time_us(field)} is not null"
    )
