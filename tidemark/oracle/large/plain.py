"""JSON values as DuckDB reads them, where they are plain; whether a value is plain says a condition of SQL.

Free of I/O. ``tidemark.formats.events`` is what says how a value is read. DuckDB reads a value otherwise where a field
is there twice, or has an escape in its name, where a number is no BIGINT, where a time is not written in full, and
where JSON is nested very deeply. Such a value is *odd*: it is left to ``formats.events``. What is plain is read the
same by both, and tested so.

Most values of a topic are *simple*: they are, byte by byte, an object of the fields of a value seen before, in the
order and with the blanks of that value, and with the JSON values that DuckDB reads of these fields. So no field is
there twice, nothing else is there, and no number has another form. For the others more is asked, which takes longer.
Texts are over columns of these names: ``value``; ``is_json``; ``f1`` and so on, the fields as JSON values; and
``is_simple``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

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
_NO_NUMBERS = ("NaN", "Infinity")
"""What DuckDB reads as a number, and writes so; it is no JSON."""
_HAS_NUMBERS = " and ".join(f"not contains(value, '{word}')" for word in _NO_NUMBERS)
_OPENED = "length(value) - length(replace(replace(value, '{', ''), '[', ''))"
_IS_SHALLOW = f"case when length(value) > {_SHALLOW} then {_OPENED} <= {_DEEPEST} else true end"
_MOST_SHAPES = 8
_LOOKED_AT = 5_000
_COLON, _COMMA = re.compile(r"\s*:\s*"), re.compile(r"\s*,\s*")


@dataclass(frozen=True)
class WrittenShape:
    """How an object is written: the names of its fields, in order, and what is between them."""

    names: tuple[str, ...]
    colon: str
    comma: str


@dataclass(frozen=True)
class FieldsRead:
    """The fields that are read of the values for which a condition of SQL holds, the columns ``f1`` and so on."""

    condition: str
    fields: Sequence[str]
    shapes: Sequence[WrittenShape]

    @property
    def all_fields(self) -> list[str]:
        """These, and the other fields of the shapes."""
        return list(dict.fromkeys([*self.fields, *(name for shape in self.shapes for name in shape.names)]))

    def column(self, name: str) -> str:
        """The column of a field."""
        return f"f{self.all_fields.index(name) + 1}"


def names_and_example(values: str) -> str:
    """A query for the names of the fields of some values, the most frequent first, with a value each.

    ``values`` selects ``value``.
    """
    return (
        f"select json_keys(value) as names, min(value) as example from ({values} limit {_LOOKED_AT}) v"
        f" where json_valid(value) group by names order by count(*) desc, names limit {_MOST_SHAPES}"
    )


def shapes_of(found: Iterable[tuple[list[str], str]]) -> list[WrittenShape]:
    """The shapes of such values, but for those with names that are not plain, or there twice."""
    return [
        _shape_of(names, example)
        for names, example in found
        if names and len({*names}) == len(names) and all(map(is_plain_name, names))
    ]


def _shape_of(names: Sequence[str], example: str) -> WrittenShape:
    """The shape of a value; one that is written in another way matches no value, which is read all the same."""
    colon = _COLON.match(example, len(names[0]) + 3)
    comma = None
    if colon is not None and len(names) > 1:
        with suppress(ValueError):
            _, end = json.JSONDecoder().raw_decode(example, colon.end())
            comma = _COMMA.match(example, end)
    return WrittenShape(tuple(names), colon[0] if colon else ":", comma[0] if comma else ",")


def is_plain_name(name: str) -> bool:
    """Whether a field of this name can be looked for."""
    return _NAME.fullmatch(name) is not None


def read_fields(values: str, read: Sequence[FieldsRead]) -> str:
    """A ``select`` of ``value`` and more, with the columns that the other texts are over added.

    What is no JSON is read as ``null``.
    """
    columns = range(1, max(len(one.all_fields) for one in read) + 1)
    found = [f"json_extract(json, [{', '.join(map(_path, one.all_fields))}])" for one in read]
    same = [" or ".join(_is_written_as(shape, one) for shape in one.shapes) or "false" for one in read]
    return f"""
select * exclude (f), coalesce({_by_case(read, same)} and {_HAS_NUMBERS} and {_IS_SHALLOW}, false) as is_simple
from (
    select *, {", ".join(f"f[{number}] as f{number}" for number in columns)}
    from (
        select * exclude (json), {_by_case(read, found)} as f
        from (
            select *, case when is_json then value else 'null' end as json
            from (select *, coalesce(json_valid(value), false) as is_json from ({values}) given) json_or_not
        ) texts
    ) lists
) extracted
"""


def _path(name: str) -> str:
    return text_of(f'$."{name}"')


def _by_case(read: Sequence[FieldsRead], texts: Sequence[str]) -> str:
    """What depends on which fields are read."""
    cases = " ".join(f"when {one.condition} then {text}" for one, text in zip(read, texts, strict=True))
    return f"case {cases} end"


def _is_written_as(shape: WrittenShape, read: FieldsRead) -> str:
    """Whether a value is what this shape makes of the fields that were read."""
    written, before = [], "{"
    for name in shape.names:
        written += [text_of(f'{before}"{name}"{shape.colon}'), read.column(name)]
        before = shape.comma
    return f"value = concat({', '.join(written)}, '}}')"


def is_plain_object(names: Sequence[str]) -> str:
    """Whether a value is a JSON object in which each of these fields is there once, or not at all."""
    asked = [
        "is_json",
        "left(value, 1) = '{'",
        "not contains(value, '\\u')",
        f"not regexp_matches(value, {text_of(_ODD)})",
        _IS_SHALLOW,
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
    is_one = f"{number} is not null and cast({number} as varchar) = cast({field} as varchar)"
    return f"({field} is null or {field} = 'null' or {is_one})"


def as_time_us(field: str) -> str:
    """A time that is written in full, in microseconds since the epoch; NULL if there is no such time."""
    return f"epoch_us(try_cast(substr({field}, 2, length({field}) - 2) as timestamp))"


def is_time(field: str, time_us: str) -> str:
    """Whether a field is a time that is written in full; ``time_us`` is what :func:`as_time_us` gives of it."""
    return (
        f"{time_us} is not null and regexp_full_match({field}, {text_of(_CANONICAL)})"
        f" and not starts_with({field}, '\"0000')"
    )
