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

from tidemark.formats.scans import text_of

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


def read_fields(values: str, fields: Sequence[str], known: Sequence[Names]) -> str:
    """A ``select`` of ``value`` and more, with the columns that the other texts are over added: ``f`` has ``fields``.

    What is no JSON is read as ``null``. No ``case`` is over lists: DuckDB copies them for each.
    """
    paths = ", ".join(text_of(f'$."{name}"') for name in fields)
    return f"""
select *, coalesce({_is_simple(known)}, false) as is_simple
from (
    select *, json_keys(json) as names, json_type(json, '$.*') as types, json_extract(json, [{paths}]) as f
    from (
        select *, case when is_json then value else 'null' end as json
        from (select *, coalesce(json_valid(value), false) as is_json from ({values}) given) json_or_not
    ) texts
) extracted
"""


def _is_simple(known: Sequence[Names]) -> str:
    """Whether the names are known ones, nothing is nested, and no comma is behind the last entry."""
    same = " or ".join(f"names = [{', '.join(map(text_of, names))}]" for names in known)
    asked = [f"not list_contains(types, '{kind}')" for kind in _NOT_SIMPLE]
    end = "ends_with(value, '}') and contains('\"0123456789el', substr(value, length(value) - 1, 1))"
    return " and ".join([f"({same or 'false'})", *asked, "not contains(value, '\\u')", end])


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


def is_text(field: str, _text: str) -> str:
    """Whether a field is text, NULL or missing."""
    return f"({field} is null or starts_with({field}, '\"') or {field} = 'null')"


def as_number(field: str) -> str:
    """A field that is a whole number or missing, as BIGINT."""
    return f"try_cast(cast({field} as varchar) as bigint)"


def is_number(field: str, number: str) -> str:
    """Whether a field is a BIGINT, NULL or missing; ``number`` is what :func:`as_number` gives of it."""
    is_one = f"case when is_simple then true else json_type({field}) in ('BIGINT', 'UBIGINT') end"
    return f"({field} is null or {field} = 'null' or {number} is not null and {is_one})"


def as_time_us(field: str) -> str:
    """A time that is written in full, in microseconds since the epoch; NULL if there is no such time."""
    return f"epoch_us(try_cast(substr({field}, 2, length({field}) - 2) as timestamp))"


def is_time(field: str, time_us: str) -> str:
    """Whether a field is a time that is written in full; ``time_us`` is what :func:`as_time_us` gives of it."""
    return (
        f"{time_us} is not null and regexp_full_match({field}, {text_of(_CANONICAL)})"
        f" and not starts_with({field}, '\"0000')"
    )
