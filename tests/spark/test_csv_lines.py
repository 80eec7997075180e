"""``csv_pair`` reads lines as Spark's ``from_csv`` does: thousands of each form, most of them broken somewhere."""

from __future__ import annotations

import random

import pytest

from tidemark.formats.csv_records import csv_pair
from tidemark.formats.events import time_reader
from tidemark.formats.field_values import value_reader, value_text
from tidemark.formats.kafka_record import KafkaRecord
from tidemark.formats.record_fields import Field

COLUMNS = ("id", "n", "amount", "at", "text", "last")
FORMS = {
    "default": {},
    "doubled quotes": {"escape": '"'},
    "no quotes": {"delimiter": "\t", "quote": "", "escape": ""},
    "text for NULL": {"delimiter": "|", "quote": "'", "null": "NULL"},
    "no escape": {"escape": ""},
}
OPTIONS = {"delimiter": "sep", "null": "nullValue"}
CASTS = {"n": "bigint", "amount": "decimal(12,2)"}
PARTS = ("a", "b", " ", "é", "😀", "NULL", "{quote}", "{quote}", "{quote}{quote}", "\\", "\\{quote}", "{delimiter}",
         "\n", "\r\n", "\t", "{quote} ", "{quote}{delimiter}{quote}", "a" * 130, "\ufeff")  # fmt: skip
VALUES = {
    "n": ("7", "-1", " 8 ", "9223372036854775808", "1.5", "1e2", "x", "+3"),
    "amount": ("12.345", "0.005", "-1", "1e3", "99999999999.99", "  2.50", ".5", "1,5"),
    "at": (
        "2026-01-01T00:00:00.123Z",
        "2026-01-01 12:00",
        "2026-02-30",
        "2026",
        "soon",
        " 2026-01-01",
        "2026-01-01T25:00Z",
    ),
}


def lines(name: str, count: int) -> list[bytes | None]:
    """Lines of a form: a half whole, the others of parts that mean something."""
    rng = random.Random(f"csv {name}")
    form = {"delimiter": ",", "quote": '"', **FORMS[name]}
    encode = csv_pair(COLUMNS, **FORMS[name])[1]
    parts = [part.format(**form) for part in PARTS]
    parts += ["\x00"] * (name in ("default", "text for NULL"))
    found: list[bytes | None] = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.5:
            event = {column: rng.choice((*VALUES.get(column, ("a", "é b")), None)) for column in COLUMNS}
            found.append(encode(event, None))
        elif kind < 0.98:
            fields = (
                "".join(rng.choices(parts, k=rng.randrange(5))) for _ in range(rng.choice((1, 3, 5, 6, 7)))
            )
            quoted = (
                rng.choice((one, form["quote"] + one, form["quote"] + one + form["quote"])) for one in fields
            )
            found.append(form["delimiter"].join(quoted).encode())
        else:
            found.append(rng.choice((None, b"", b"\xff\xfe,a", b"\xc3", b'"\xe2\x82",b', b"\xed\xa0\x80|b")))
    return found


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", list(FORMS))
def test_lines_are_read_as_from_csv_reads_them(name, count, session):
    from pyspark.sql.functions import expr, from_csv

    decode, _ = csv_pair(COLUMNS, **FORMS[name])
    options = {OPTIONS.get(option, option): value for option, value in FORMS[name].items()}
    made = lines(name, count)

    rows = session.createDataFrame(list(enumerate(made)), "n INT, value BINARY")
    schema = ", ".join(f"{column} STRING" for column in COLUMNS)
    read = rows.select(
        "n", from_csv(expr("CAST(value AS STRING)"), schema, {"mode": "PERMISSIVE", **options}).alias("e")
    )
    casts = [f"CAST(try_cast(e.{column} AS {kind}) AS STRING)" for column, kind in CASTS.items()]
    time = "unix_micros(try_cast(e.at AS TIMESTAMP))"
    sparks = sorted(
        read.selectExpr("n", "e IS NULL", *(f"e.{one}" for one in COLUMNS), *casts, time).collect()
    )

    readers = [value_reader(Field(column, type="string", cast=kind)) for column, kind in CASTS.items()]
    types = [Field(column, type="string", cast=kind).made for column, kind in CASTS.items()]
    read_time = time_reader(Field("at"), "iso", "UTC")
    wrong = []
    for value, (_, is_null, *spark) in zip(made, sparks, strict=True):
        said = decode(KafkaRecord("topic", value))
        ours: list[object] = [None] * len(spark)
        if said is not None:
            values = [read(said) for read in readers]
            shown = [
                None if one is None else value_text(one, kind)
                for one, kind in zip(values, types, strict=True)
            ]
            ours = [*said.values(), *shown, read_time(said)]
        if ours != spark or is_null != (said is None):
            wrong.append((value, ours, spark))
    assert not wrong, (len(wrong), wrong[:3])
    assert sum(spark[2] is not None and spark[-1] is not None for spark in sparks) > count * 0.1
    assert len({value for value in made if value}) > count * 0.4
