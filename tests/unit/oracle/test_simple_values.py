"""A value is simple if it is written as one that was seen before: which values are, and that others are read anyway."""

from __future__ import annotations

import duckdb
import pytest

from tidemark.oracle.large.plain import FieldsRead, names_and_example, read_fields, shapes_of


def read(seen: str, value: str) -> tuple[bool, list[str | None]]:
    """Whether a value is simple where the first one was ``seen``, and its fields ``a`` and ``b`` as JSON."""
    with duckdb.connect(":memory:") as sql:
        sql.execute("create table first_values as select $1 as value", [seen])
        sql.execute("create table some_values as select $1 as value", [value])
        shapes = shapes_of(sql.execute(names_and_example("select value from first_values")).fetchall())
        fields = FieldsRead("true", ["a", "b"], shapes)
        text = read_fields("select value from some_values", [fields])
        columns = f"is_simple, {fields.column('a')}, {fields.column('b')}"
        ((is_simple, *found),) = sql.execute(f"select {columns} from ({text}) read").fetchall()
        return is_simple, found


@pytest.mark.parametrize(
    ("seen", "value"),
    [
        ('{"a":"x","b":1}', '{"a":"longer text","b":-20}'),
        ('{"a":"x","b":1}', '{"a":null,"b":"text"}'),
        ('{"a":"x","b":1}', '{"a":"a \\n line","b":true}'),
        ('{"a": "x", "b": 1}', '{"a": "y, z", "b": 2}'),
        ('{"a" : [1, 2] ,"b" : 1}', '{"a" : "" ,"b" : 1}'),
        ('{"b":"x","more":{},"a":1}', '{"b":"\u00e9","more":{"b":1},"a":2.5}'),
        ('{"b":1}', '{"b":2}'),
    ],
)
def test_a_value_that_is_written_as_one_seen_before_is_simple(seen: str, value: str) -> None:
    """Whatever its values are."""
    assert read(seen, value)[0]


@pytest.mark.parametrize(
    "value",
    [
        '{"a":"x","b":1,"b":2}',
        '{"a":"x","b":1,"c":2}',
        '{"b":1,"a":"x"}',
        '{"a":"x"}',
        '{"a":"x", "b":1}',
        '{"a":"x","b":1,}',
        '{"a":"x","b":1e5}',
        '{"a":"x","b":-0}',
        '{"a":"x","b":NaN}',
        '{"a":"x","b":-Infinity}',
        '{"a":"\\u0041","b":1}',
        '{"\\u0061":"x","b":1}',
        '{"a":"x","b":1} ',
        '["a","b"]',
        '{"a":' + "[" * 300 + "]" * 300 + ',"b":1}',
        "{",
        "",
    ],
)
def test_a_value_that_is_written_otherwise_is_not_simple(value: str) -> None:
    """It may be read the same; that is for other conditions to say."""
    assert not read('{"a":"x","b":1}', value)[0]


def test_fields_are_read_whether_a_value_is_simple_or_not() -> None:
    """What is no JSON, and a field that is not there, has no value."""
    assert read('{"a":"x","b":1}', '{"a":"y","b":2}') == (True, ['"y"', "2"])
    assert read('{"a":"x","b":1}', '{ "b": 2, "a": "y" }') == (False, ['"y"', "2"])
    assert read('{"a":"x","b":1}', '{"b":null}') == (False, [None, "null"])
    assert read('{"a":"x","b":1}', "no JSON") == (False, [None, None])


@pytest.mark.parametrize("seen", ["[1]", "{}", '{"a":1,"a":2}', '{"a\\"":1}', "none"])
def test_nothing_is_simple_if_what_was_seen_shows_no_fields(seen: str) -> None:
    """An empty object, too, asks for nothing."""
    assert not read(seen, seen)[0]
