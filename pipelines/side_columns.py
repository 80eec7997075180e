"""The fields of a side as columns of Spark: each read, cast and rounded as its contract says.

``tidemark.formats.field_values`` and ``time_forms`` have the same rules in Python. Values are read by ``from_json``,
once for all fields whose paths and types fit into one schema. Nothing that a record holds stops the query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import col, from_json

from tidemark.formats.record_fields import DECIMAL, Field, Path
from tidemark.formats.time_forms import FIRST_US, ISO, LAST_US, NS_PER_UNIT, has_offset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from tidemark.formats.contract import Side

TIMESTAMP = "TIMESTAMP"
PLACES = ("partition", "offset")
"""The columns of Kafka's source that are kept."""
_EVENT = "event"
US = 1000
"""Of so many nanoseconds a microsecond is made."""
_MADE_OF = {1_000_000_000: "timestamp_seconds", 1_000_000: "timestamp_millis", US: "timestamp_micros"}
Tree = dict[Any, Any]
"""A schema: the types below each name of an object; below ``None`` that of the entries of an array."""


class ParsedRecords:
    """The JSON values of records, parsed with as few schemas as the fields allow.

    ``zone`` is that of times without an offset.
    """

    def __init__(self, fields: Sequence[tuple[Path, str]], zone: str) -> None:
        self._trees: list[Tree] = []
        self._place = {one: self._put(*one) for one in dict.fromkeys(fields)}
        self._options = None if zone == "UTC" else {"timeZone": zone}

    def _put(self, path: Path, kind: str) -> int:
        for number, tree in enumerate(self._trees):
            if _fits(tree, path, kind):
                _add(tree, path, kind)
                return number
        self._trees.append({})
        _add(self._trees[-1], path, kind)
        return len(self._trees) - 1

    def columns(self) -> list[Column]:
        """One struct for each schema."""
        value = col("value").cast("string")
        return [
            from_json(value, ", ".join(f"{_quoted(name)} {_ddl(below)}" for name, below in tree.items()), self._options)
            .alias(f"{_EVENT}{number}")
            for number, tree in enumerate(self._trees)
        ]  # fmt: skip

    def value(self, path: Path, kind: str) -> str:
        """The expression of a field."""
        text = f"{_EVENT}{self._place[path, kind]}"
        for part in path:
            text = f"get({text}, {part})" if isinstance(part, int) else f"{text}.{_quoted(part)}"
        return text


def parsed(records: DataFrame, side: Side, columns: Mapping[str, Field], time: str) -> DataFrame:
    """The ``columns`` of a side, its event time by the name ``time``, and ``partition`` and ``offset`` of each record.

    ``columns`` has the field of each column; one of the name ``time`` says only where that stands.
    """
    when = side.time_field
    time_type = TIMESTAMP if side.time_format == ISO else str(when.read_as)
    wanted = [(when.path, time_type), *((field.path, str(field.read_as)) for field in columns.values())]
    read = ParsedRecords(wanted, side.time_zone if side.time_format == ISO else "UTC")
    at = read.value(when.path, time_type)
    made = {name: _made(read.value(field.path, str(field.read_as)), field) for name, field in columns.items()}
    made[time] = _time(at if side.time_format == ISO else _made(at, when), side)
    return records.select(*read.columns(), *PLACES).selectExpr(
        *(f"{text} AS {_quoted(name)}" for name, text in made.items()), *PLACES
    )


def _fits(tree: Tree, path: Path, kind: str) -> bool:
    """Whether a field of this type can be read with a schema, too."""
    below: Any = tree
    for part in path:
        name = part if isinstance(part, str) else None
        if not isinstance(below, dict):
            return False
        if below and (None in below) != (name is None):
            return False  # an array and an object
        if name not in below:
            return True
        below = below[name]
    return bool(below == kind)


def _add(tree: Tree, path: Path, kind: str) -> None:
    for part, following in zip(path, [*path[1:], None], strict=True):
        name = part if isinstance(part, str) else None
        tree = tree.setdefault(name, kind if following is None else {})


def _ddl(below: Tree | str) -> str:
    if isinstance(below, str):
        return below
    if None in below:
        return f"ARRAY<{_ddl(below[None])}>"
    return f"STRUCT<{', '.join(f'{_quoted(name)}: {_ddl(more)}' for name, more in below.items())}>"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _made(text: str, field: Field) -> str:
    """What a contract makes of what was read."""
    if field.cast is not None:
        text = f"try_cast({text} AS {field.cast})"
    return text if field.round is None else f"round({text}, {field.round})"


def _time(text: str, side: Side) -> str:
    """An event time as a TIMESTAMP; NULL where the year is none of 0001 to 9999."""
    if side.time_format == ISO:
        return text
    if side.time_format not in NS_PER_UNIT:
        pattern = side.time_format.replace("\\", "\\\\").replace("'", "\\'")
        found = f"try_to_timestamp({text}, '{pattern}')"
        if side.time_zone != "UTC" and not has_offset(side.time_format):
            found = f"to_utc_timestamp({found}, '{side.time_zone}')"
        return f"CASE WHEN unix_micros({found}) BETWEEN {FIRST_US} AND {LAST_US} THEN {found} END"
    ns = NS_PER_UNIT[side.time_format]
    if side.time_field.made.kind != DECIMAL and ns >= US:
        first, last = -(-FIRST_US * US // ns), LAST_US * US // ns
        return f"{_MADE_OF[ns]}(CASE WHEN {text} BETWEEN {first} AND {last} THEN {text} END)"
    us = f"CAST(floor({text} {f'* {ns // US}' if ns >= US else f'/ {US}'}) AS BIGINT)"
    if side.time_field.made.kind == DECIMAL:
        us = f"CASE WHEN {text} BETWEEN {FIRST_US * US // ns - 1} AND {LAST_US * US // ns + 1} THEN {us} END"
    else:
        us = f"({text} div {US} - CASE WHEN {text} % {US} < 0 THEN 1 ELSE 0 END)"
    return f"timestamp_micros(CASE WHEN {us} BETWEEN {FIRST_US} AND {LAST_US} THEN {us} END)"
