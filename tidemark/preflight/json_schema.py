"""The schema that a plan asks Spark's JSON reader for, and the types and forms of the values that it makes of them.

Free of I/O. A plan prints ``from_json(StructField(meta,StructType(StructField(at,LongType,true)),true), ..., value)``.
"""

from __future__ import annotations

import re

from tidemark.formats.record_fields import BIGINT, BOOLEAN, DATE, DECIMAL, DOUBLE, STRING, path_of
from tidemark.formats.time_forms import ISO, has_offset, is_pattern
from tidemark.preflight.plan_columns import EPOCH_FORMS, TIME_PARSER, TO_UTC, PlanColumns
from tidemark.preflight.plan_expressions import bare, call, split, split_path

_TYPES = {
    "StringType": STRING,
    "LongType": BIGINT,
    "IntegerType": BIGINT,
    "ShortType": BIGINT,
    "ByteType": BIGINT,
    "DoubleType": DOUBLE,
    "FloatType": DOUBLE,
    "BooleanType": BOOLEAN,
    "DateType": DATE,
    "TimestampType": "timestamp",
}
_SQL_TYPES = {
    "string": STRING,
    "bigint": BIGINT,
    "int": BIGINT,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "date": DATE,
}


def type_in_plan(columns: PlanColumns, text: str) -> str | None:
    """The type that an expression is read as from the record, by its name in a contract; ``None``: not known.

    A time of Spark is ``timestamp``, which no contract has.
    """
    text = columns.expression(text)
    cast = call(text.removeprefix("try_"), "cast")
    if cast is not None:
        inner, _, kind = cast.rpartition(" as ")
        made = _SQL_TYPES.get(kind) or (kind if kind.startswith(DECIMAL) else None)
        return made if made is not None else type_in_plan(columns, inner)
    if call(text, "get_json_object") is not None:
        return STRING
    parsed, path = split_path(text)
    schema = call(parsed, "from_json")
    return None if schema is None or not path else _type_at(schema, path)


def time_form(columns: PlanColumns, text: str) -> tuple[str, str] | None:
    """The form of an event time in the record and its zone, as a contract names them; ``None``: it cannot be read."""
    text = columns.expression(text)
    for function, form in EPOCH_FORMS.items():
        if call(text, function) is not None:
            return form, "UTC"
    parsed = call(text, TIME_PARSER)
    if parsed is not None:
        _, pattern, *rest = split(parsed, ", ")
        zone = next((found[1] for one in rest if (found := re.fullmatch(r"Some\((.+)\)", one))), "UTC")
        return pattern, zone
    shifted = call(text, TO_UTC)
    if shifted is not None:
        inner, _, zone = shifted.rpartition(", ")
        read = time_form(columns, inner)
        is_local = read is not None and is_pattern(read[0]) and read[1] == "UTC" and "#" not in zone
        return (read[0], zone) if is_local and read is not None and not has_offset(read[0]) else None
    cast = call(text.removeprefix("try_"), "cast")
    if cast is not None and cast.endswith(" as timestamp"):
        kind = type_in_plan(columns, cast.removesuffix(" as timestamp"))
        return {STRING: (ISO, "UTC"), BIGINT: ("epoch-s", "UTC")}.get(kind or "")
    return (ISO, "UTC") if type_in_plan(columns, text) == "timestamp" else None


def number_of_time(columns: PlanColumns, text: str) -> str | None:
    """The type of the number that an event time is made of, by its name in a contract; ``None``: it is none."""
    text = columns.expression(text)
    numbers = (call(text, function) for function in EPOCH_FORMS)
    return next((type_in_plan(columns, one) for one in numbers if one is not None), None)


def _type_at(schema: str, path: str) -> str | None:
    """The type of the value at a path of ``StructField(...), StructField(...), options, value``."""
    kind = f"StructType({schema})"
    try:
        parts = path_of(path)
    except ValueError:  # a name that only quotes could tell from a path, which a plan does not print
        return None
    for name in parts:
        is_entry = isinstance(name, int)
        inner = call(kind, "ArrayType" if is_entry else "StructType")
        if inner is None:
            return None
        if is_entry:
            kind = split(inner, ",")[0]
            continue
        fields = (call(one, "StructField") for part in split(inner, ", ") for one in split(part, ","))
        kinds = {
            found[0]: ",".join(found[1:-1])
            for one in fields
            if one is not None and len(found := split(one, ",")) > 2
        }
        if name not in kinds:
            return None
        kind = kinds[name]
    kind = bare(kind)
    decimal = call(kind, "DecimalType")
    return f"{DECIMAL}({decimal})" if decimal is not None else _TYPES.get(kind)
