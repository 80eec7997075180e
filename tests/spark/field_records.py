"""Records with values of all kinds at all kinds of places, broken ones among them: what readers are compared on."""

from __future__ import annotations

import random

from tidemark.formats.record_fields import Field

TYPES = ("string", "bigint", "double", "decimal(12,2)", "decimal(38,10)", "decimal(5,5)", "boolean", "date")
PATHS = ("a", "m.a", "m.n.a", "items[0].s", "items[1].n.a", "tags[1]", "deep[0][1]", "`x.y`", "`x.y`.a")
CASTS = (
    *(("string", kind) for kind in TYPES),
    *(("bigint", kind) for kind in ("string", "double", "decimal(12,2)", "decimal(5,5)", "boolean")),
    *(("double", kind) for kind in ("bigint", "decimal(12,2)", "decimal(38,10)")),
    *(("decimal(38,10)", kind) for kind in ("string", "bigint", "double", "decimal(12,2)")),
    *(("boolean", kind) for kind in ("string", "bigint")),
    ("date", "string"),
)
ROUNDED = (
    ("double", None, 2), ("double", None, 0), ("double", None, -2), ("string", "double", 1),
    ("decimal(12,2)", None, 1), ("decimal(12,2)", None, -1), ("decimal(38,10)", None, 3),
    ("string", "decimal(38,10)", 20),
    ("decimal(5,5)", None, 0),
)  # fmt: skip
FIELDS = [
    *(Field(f"{kind} at {path}", path, kind) for kind in TYPES for path in PATHS),
    *(Field(f"{kind} as {to}", "a", kind, to) for kind, to in CASTS),
    *(Field(f"{kind} as {to} to {digits}", "a", kind, to, digits) for kind, to, digits in ROUNDED),
]
NUMBERS = (
    "0", "-0", "7", "-5", "1767225600", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "123456789012345678901234567890", "1.0", "1.5", "-1.5", "0.5", "1.10", "1.005", "-0.0",
    "1e3", "1.5E10", "1e-7", "12345.678", "99999999999.995", "9999999999.994", "1e400", "-1e400", "1e-400", "0.1",
    "0.1234567890123456789012345", "9007199254740993", "0.00001", "0.000004", "2.5", "3.5", "1e22", "123456.785",
)  # fmt: skip
TEXTS = (
    "", "x", "é€😀", "7", " 7 ", "+7", "-7", "1.5", "1e3", ".5", "5.", "1,000.5", "NaN", "nan", "Infinity", "-Infinity",
    "+Infinity", "INF", "+INF", "-INF", "inf", "1d", "1F", "0x1F", "true", "TRUE", "t", "yes", "no", "0", "1", "on",
    "2026-01-02", "2026-1-2", "2026", "2026-01", " 2026-01-02 ", "2026-01-02T10:00", "2026-01-02 x", "2026-02-30",
    "0000-01-01", "12345-01-01", "-2026-01-01", "+2026-01-01", "123", "-5", "20260102", "today", "2026-01-02Z",
    "99999999999.995", "123456789012345678901234567890", "9223372036854775808", "1.005", "-0.0", "\t7\n", "--7", "1_0",
)  # fmt: skip
ISO_TIMES = (
    "2026-01-01T00:00:00.123Z", "2026-01-01 00:00:00", "2026-01-01T02:00:00+02:00", "2026-07-01T00:00:00.5",
    "2026-03-29T02:30:00", "2026-10-25T02:30:00", "2026-01-01", "2026", "soon", "2026-01-01T00:00:00 Europe/Berlin",
    "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
)  # fmt: skip
PATTERNS = {
    "dd/MM/yyyy HH:mm:ss": ("01/02/2026 03:04:05", "1/2/2026 03:04:05", "31/02/2026 00:00:00", "29/03/2026 02:30:00",
                            "25/10/2026 02:30:00", "01/02/2026 24:00:00", "01/02/02026 03:04:05", "01/02/2026 3:04:05",
                            "01/02/2026 03:04:05 ", " 01/02/2026 03:04:05", "01/13/2026 03:04:05"),
    "yyyyMMddHHmmss": ("20260102030405", "202601020304", "20261302030405", "020260102030405", "20260102030460"),
    "d-MMM-yyyy h:mm a": ("1-Jan-2026 1:00 AM", "01-JAN-2026 12:00 pm", "1-Sep-2026 0:30 AM", "1-Sept-2026 1:30 AM",
                          "1-January-2026 1:00 AM", "31-Jun-2026 1:00 AM", "1-Jan-2026 13:00 PM"),
    "d MMMM yyyy, H.mm 'Uhr'": ("1 January 2026, 3.04 Uhr", "1 january 2026, 03.04 uhr", "1 Jan 2026, 3.04 Uhr"),
    f"yyyy-MM-dd'T'HH:mm:ss[.SSS][{'X' * 3}]": ("2026-01-02T03:04:05.678+02:00", "2026-01-02T03:04:05",
                                         "2026-01-02T03:04:05Z",
                                         "2026-01-02T03:04:05.6", "2026-01-02T03:04:05.6789", "2026-01-02T03:04:05.",
                                         "2026-01-02T03:04:05+0200", "2026-01-02T03:04:05-19:00"),
    "yyyy-MM-dd HH:mm:ss.SSSSSSSSS xx": ("2026-01-02 03:04:05.123456789 +0130", "2026-01-02 03:04:05.1 -0000",
                                         "2026-01-02 03:04:05.1 +01", "2026-01-02 03:04:05 +0130"),
    "M/d/yy H:m:s Z": ("1/2/26 3:4:5 +0000", "01/002/26 3:4:5 +0100", "1/2/2026 3:4:5 +0000", "1/2/26 3:4:5 Z"),
    "yyyy-MM-dd HHX": ("2026-01-02 03Z", "2026-01-02 03z", "2026-01-02 03+02", "2026-01-02 03+0230", "2026-01-02 03"),
}  # fmt: skip
FORMS = [
    ("iso", "UTC"), ("iso", "Europe/Berlin"), ("iso", "+05:30"), ("epoch-s", "UTC"), ("epoch-ms", "UTC"),
    ("epoch-us", "UTC"), ("epoch-ns", "UTC"), ("dd/MM/yyyy HH:mm:ss", "Europe/Berlin"),
    *((pattern, "UTC") for pattern in PATTERNS),
]  # fmt: skip
DECIMAL_TIMES = [("epoch-s", "decimal(20,6)"), ("epoch-ms", "decimal(30,9)"), ("epoch-ns", "decimal(30,2)")]
EPOCHS = (
    "0", "-1", "1767225600", "1767225600123", "1767225600123456", "1767225600123456789", "-62135596800", "-62135596801",
    "253402300799", "253402300800", "253402300799999", "253402300800000", "9223372036854775807", "-9223372036854775808",
    "1767225600.123", "1767225600.1234567", "-0.0000001", "1e9", "-62135596800000", "-62135596800001", "-1001",
)  # fmt: skip


def quoted(text: str) -> str:
    """A text as JSON."""
    return (
        '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n") + '"'
    )


def scalar(rng: random.Random) -> str:
    """A value that is no object and no array."""
    return rng.choice((rng.choice(NUMBERS), rng.choice(NUMBERS), quoted(rng.choice(TEXTS)), quoted(rng.choice(TEXTS)),
                       rng.choice(("true", "false", "null"))))  # fmt: skip


def value(rng: random.Random) -> str:
    """Any value."""
    if rng.random() < 0.93:
        return scalar(rng)
    return rng.choice(('{"x":1.10,"y":["a",null]}', "[1,2.50]", "[]", "{}", "NaN", "-Infinity", '[{"a":1}]'))


def an_object(rng: random.Random, **more: str) -> str:
    """An object with a field ``a`` now and then."""
    parts = [f'"a":{value(rng)}'] if rng.random() < 0.9 else []
    parts += [f'"{name}":{text}' for name, text in more.items()]
    return "{" + ",".join(parts) + "}"


def an_array(rng: random.Random, entry: str, others: str = "") -> str:
    """An array of up to three entries, mostly all alike."""
    kinds = [entry if rng.random() < 0.95 else value(rng) for _ in range(rng.randrange(4))]
    return "[" + ",".join(one if one != others else value(rng) for one in kinds) + "]"


def numbers_or_texts(rng: random.Random) -> str:
    """An array whose entries are mostly of one type."""
    pool = rng.choice(
        (("1", "7", "null"), ("1.5", "2", "1e3"), ('"x"', '"7"', '"2026-01-02"'), ("true", "false"))
    )
    parts = [rng.choice(pool) if rng.random() < 0.95 else value(rng) for _ in range(rng.randrange(4))]
    return "[" + ",".join(parts) + "]"


def a_time(rng: random.Random, form: str) -> str:
    """A time in a form, or nearly."""
    if rng.random() < 0.1:
        return value(rng)
    if form == "iso":
        return quoted(rng.choice(ISO_TIMES))
    return quoted(rng.choice(PATTERNS[form])) if form in PATTERNS else rng.choice(EPOCHS)


def record(rng: random.Random, form: str = "iso") -> str:
    """A record with a field for each path, each of them missing or of another type now and then."""
    parts = {
        "t": a_time(rng, form),
        "a": value(rng),
        "m": an_object(rng, n=an_object(rng)),
        "items": an_array(rng, an_object(rng, s=value(rng), n=an_object(rng))),
        "tags": numbers_or_texts(rng),
        "deep": "[" + ",".join(numbers_or_texts(rng) for _ in range(rng.randrange(3))) + "]",
        "x.y": an_object(rng) if rng.random() < 0.5 else value(rng),
    }
    kept = [
        f'"{name}":{text if rng.random() < 0.97 else value(rng)}'
        for name, text in parts.items()
        if rng.random() < 0.95
    ]
    rng.shuffle(kept)
    return broken(rng, "{" + ", ".join(kept) + "}")


def broken(rng: random.Random, text: str) -> str:
    """A record, broken in one of a hundred."""
    if rng.random() < 0.99:
        return text
    return rng.choice((text + "x", text + text, f" {text}\n", f"[{text}]", text[:-1], text[:-1] + ",}", "not JSON", "",
                       text.replace('"a"', "a", 1), "x" + text))  # fmt: skip
