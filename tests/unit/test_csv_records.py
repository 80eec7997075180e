"""Records in CSV: what a line says, which values are NULL, and lines that say what was decoded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.codec import _text, as_like
from tidemark.errors import UsageError
from tidemark.formats.contract import Side
from tidemark.formats.csv_records import csv_pair
from tidemark.formats.events import read_event
from tidemark.formats.kafka_record import KafkaRecord
from tidemark.formats.record_fields import Field

COLUMNS = ("id", "who", "at")
FORMS = (
    {},
    {"escape": '"'},
    {"delimiter": "\t", "quote": "", "escape": ""},
    {"delimiter": "|", "quote": "'", "null": "NULL"},
    {"escape": ""},
)


def record(value: str | bytes | None) -> KafkaRecord:
    data = value.encode() if isinstance(value, str) else value
    return KafkaRecord("events", data, key=b"k", headers=(("h", b"1"),))


def read(line: str, **form: str) -> list[str | None]:
    decode, _ = csv_pair(COLUMNS, **form)
    return list(decode(record(line)).values())


def test_a_line_is_read_by_the_names_of_the_contract_and_cast_by_its_fields():
    decode, _ = csv_pair(("id", "n", "amount", "at"))
    fields = (
        Field("n", type="string", cast="bigint"),
        Field("amount", type="string", cast="decimal(12,2)"),
        Field("at", type="string", cast="bigint"),
    )
    side = Side("events", "id", ("n", "amount"), "at", 0, time_format="epoch-ms", fields=fields, decode="decode",
                encode="encode")  # fmt: skip

    found = _text("decode", decode, record('e1," 7 ",12.345,1767268800123'))

    assert json.loads(found) == {"id": "e1", "n": " 7 ", "amount": "12.345", "at": "1767268800123"}
    assert read_event(found, side) == ("e1", ("7", "12.35"), 1_767_268_800_123_000)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", [None, None, None]),
        ("a", ["a", None, None]),
        ("a,b,c,d", ["a", "b", "c"]),
        ("a,,", ["a", None, None]),
        ('"",b,""', [None, "b", None]),
        (" a , b,\tc ", [" a ", " b", "\tc "]),
        ('"a,1" ,b', ["a,1", "b", None]),
        ('"a" 1,b', ['"a" 1', "b", None]),
        (r'"a\"1\\",b\"', ['a"1\\', r"b\"", None]),
        ('"a""1",b', ['"a""1"', "b", None]),
        ('a"b",c', ['a"b"', "c", None]),
        ('a,"b,c', ["a", "b,c", None]),
        ('"a\nb",c\r\n', ["a\nb", "c\r\n", None]),
        ('"a" b"', ['"a" b""', None, None]),
        ('"a" 😀"', ['"a" 😀"', None, None]),
    ],
)
def test_a_line_is_read_as_from_csv_reads_it(line, said):
    """The values are those of Spark 4.2.0; tests/spark/test_csv_lines.py compares thousands more."""
    assert read(line) == said


def test_the_form_of_a_line_can_be_said():
    assert read('"a""b",c', escape='"') == ['a"b', "c", None]
    assert read('"a|b"|NULL|""', delimiter="|", null="NULL") == ["a|b", None, ""]
    assert read('"a"\tb', delimiter="\t", quote="", escape="") == ['"a"', "b", None]


@pytest.mark.parametrize("form", FORMS)
@given(values=st.lists(st.none() | st.text("ab \",\\|'\t\n", max_size=8), min_size=3, max_size=3))
def test_what_is_encoded_is_decoded_as_it_was_or_refused(form, values):
    decode, encode = csv_pair(COLUMNS, **form)
    event = dict(zip(COLUMNS, values, strict=True))
    try:
        made = encode(event, None)
    except ValueError:
        made = None

    if made is not None:
        assert decode(record(made)) == event
    else:  # empty text, the text for NULL, or what would have to be quoted or escaped
        assert "" in values or form.get("null") in values or "" in (form.get("quote"), form.get("escape"))


def test_a_sentinel_is_a_line_like_the_records_of_its_topic():
    decode, encode = csv_pair(COLUMNS)
    like = record('e1,"a, b",2026-01-01T00:00:00Z')
    said = decode(like)

    event = as_like(json.loads(_text("decode", decode, like)), said)

    assert event == said
    assert encode(event, like) == like


def test_values_of_a_topic_without_a_record_are_written_as_text():
    _, encode = csv_pair(("n", "paid", "amount", "at", "none"))
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    event = {"n": 7, "paid": True, "amount": Decimal("0.50"), "at": at}
    assert encode(event, None) == b"7,true,0.50,2026-01-01T12:00:00+00:00,"
    with pytest.raises(ValueError, match="is no value of CSV"):
        encode({"n": [1]}, None)


def test_empty_text_that_would_be_null_is_refused_with_the_column():
    _, encode = csv_pair(COLUMNS)
    with pytest.raises(ValueError, match="who is ''"):
        encode({"id": "a", "who": "", "at": "b"}, None)
    assert csv_pair(COLUMNS, null="-")[1]({"id": "a", "who": "", "at": "b"}, None) == b'a,"",b'


def test_no_value_is_no_record_and_broken_utf_8_is_replaced():
    decode, _ = csv_pair(COLUMNS)
    assert decode(record(None)) is None
    assert decode(record(b"a\xff,b"))["id"] == "a\ufffd"
    assert decode(record(b"\xed\xa0\x80,\xe2\x82"))["id"] == decode(record(b",\xe2\x82"))["who"] == "\ufffd"


@pytest.mark.parametrize("columns", ["abc", (), ("a", "a"), ("a", ""), ("a", 1)])
def test_columns_that_name_no_fields_are_refused(columns):
    with pytest.raises(UsageError, match="columns of CSV"):
        csv_pair(columns)


@pytest.mark.parametrize(
    "form", [{"delimiter": ""}, {"delimiter": "||"}, {"quote": "''"}, {"delimiter": '"'}, {"escape": "\n"}]
)
def test_characters_that_separate_no_fields_are_refused(form):
    with pytest.raises(UsageError, match="cannot be read with"):
        csv_pair(COLUMNS, **form)
