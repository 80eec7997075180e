"""Which field of the input record a column of a plan is: names are followed through aliases down to the JSON.

Free of I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidemark.preflight.plan_expressions import (
    ATTRIBUTE,
    Linear,
    bare,
    call,
    depths,
    linear,
    split,
    split_path,
    tidy,
)

_WINDOW_END = re.compile(r"\+ (\d+)\), LongType, TimestampType\)+$")
_WINDOW_SLIDE = re.compile(r"% (\d+)\)")
_PATH = re.compile(r"(?:\.[^\s()\[\],.#]+|\[\d+\])+")
EPOCH_FORMS = {"timestamp_seconds": "epoch-s", "timestamp_millis": "epoch-ms", "timestamp_micros": "epoch-us"}
"""The form of a time, as a contract names it, by the function that makes a time of a number."""
TIME_PARSER = "gettimestamp"
"""The function that makes a time of text, of which a plan prints pattern and zone."""
TO_UTC = "to_utc_timestamp"
"""The function that takes a time for one of a zone."""
_OF_TEXT = f"{TIME_PARSER}|{TO_UTC}"
_IS_TIME = re.compile(
    rf"(?:{'|'.join(EPOCH_FORMS)}|{_OF_TEXT}|CASE WHEN \(*unix_micros|CASE WHEN .* THEN (?:{_OF_TEXT}))\("
)
"""How an expression begins that makes a time of a number or of text."""


@dataclass(frozen=True)
class Column:
    """A column as far as it could be followed.

    ``field`` is the path in the record, ``None`` where something else than renaming, casting and JSON was done to it;
    ``id`` the number of the last column on the way, with the path in it where that is a struct; ``window_us`` the
    length of the tumbling window of it; ``constant`` says that nothing of the record is in it.
    """

    text: str
    field: str | None = None
    id: str | None = None
    window_us: int | None = None
    constant: bool = False


class PlanColumns:
    """The columns of one plan, by their ids."""

    def __init__(self, projections: Iterable[str], relations: Iterable[str]) -> None:
        self._inputs = {found["id"] for text in relations for found in ATTRIBUTE.finditer(text)}
        self._definitions: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for text in projections:
            definition, alias, name = text.rpartition(" AS ")
            attribute = ATTRIBUTE.fullmatch(name)
            if alias and attribute is not None:
                self._definitions[attribute["id"]] = definition
                self._names[attribute["id"]] = attribute["name"]

    def fields(self, ids: Iterable[str]) -> set[str]:
        """The fields of the record that columns with these ids are."""
        found = (self.source(f"_#{number}").field for number in ids if number in self._definitions)
        return {field for field in found if field is not None}

    def is_input(self, column: Column) -> bool:
        """Whether a column is one of a relation, as the ``partition`` of Kafka's source is, and not of the record."""
        return column.id in self._inputs

    def names(self, ids: Iterable[str]) -> dict[str, str]:
        """The columns with these ids that projections made: name -> the column, ``name#id``."""
        return {self._names[one]: f"{self._names[one]}#{one}" for one in self._definitions if one in set(ids)}

    def below(self, text: str, ids: Collection[str]) -> str:
        """A column that a projection above a join made, as an expression of columns below it, which have ``ids``."""
        attribute = ATTRIBUTE.fullmatch(text)
        while attribute is not None and attribute["id"] not in ids and attribute["id"] in self._definitions:
            text = bare(self._definitions[attribute["id"]])
            attribute = ATTRIBUTE.fullmatch(text)
        return text

    def expression(self, text: str) -> str:
        """What a column was made of, without the names that it was given on the way."""
        text = bare(text)
        attribute = ATTRIBUTE.fullmatch(text)
        definition = None if attribute is None else self._definitions.get(attribute["id"])
        if attribute is None or definition is None:
            return text
        if attribute["path"]:
            made = self.expression(definition)
            return f"{made}{attribute['path']}" if call(made, "from_json") is not None else text
        return self.expression(definition)

    def source(self, text: str) -> Column:
        """Follow an expression down to the record."""
        text = bare(text)
        attribute = ATTRIBUTE.fullmatch(text)
        if attribute is not None:
            return self._attribute(text, attribute)
        cast = call(text.removeprefix("try_"), "cast")
        if cast is not None:
            return self.source(cast.rpartition(" as ")[0])
        nullable = call(text, "knownnullable")
        if nullable is not None:
            return self.source(nullable)
        path = call(text, "get_json_object")
        if path is not None:
            return Column(tidy(text), field=path.rpartition("$.")[2] or None)
        parsed, name = split_path(text)
        if name and call(parsed, "from_json") is not None:
            return Column(name, field=name)
        if _IS_TIME.match(text) is not None:
            return Column(tidy(text), field=self._only_field(text))
        struct = call(text, "named_struct")
        if struct is not None:
            return self._window(text, struct)
        return Column(tidy(text), constant=ATTRIBUTE.search(text) is None)

    def _only_field(self, text: str) -> str | None:
        """The field of the record that is all that an expression is made of; ``None`` if it is made of others, too."""
        fields: set[str | None] = set()
        while (start := text.find("from_json(")) >= 0:
            end = (
                start
                + 1
                + next(at for at, depth in depths(text[start:]) if depth == 0 and text[start + at] == ")")
            )
            path = _PATH.match(text, end)
            fields.add(path[0].removeprefix(".") if path is not None else None)
            text = text[:start] + text[end:]
        fields |= {self.source(found[0]).field for found in ATTRIBUTE.finditer(text)}
        return fields.pop() if len(fields) == 1 else None

    def expand(self, found: Linear) -> Linear:
        """A sum, with columns that are sums of others taken apart: ``latest`` of ``time + INTERVAL … AS latest``."""
        total = Linear(us=found.us)
        for text, times in found.columns.items():
            attribute = ATTRIBUTE.fullmatch(text)
            definition = None if attribute is None else self._definitions.get(attribute["id"])
            made = None
            if definition is not None and self.source(text).field is None:
                made = linear(definition)
            total = total.minus(Linear({text: 1}) if made is None else self.expand(made), times)
        return total

    def _attribute(self, text: str, attribute: re.Match[str]) -> Column:
        name, number, path = attribute["name"], attribute["id"], attribute["path"]
        definition = self._definitions.get(number)
        if definition is None:
            if number in self._inputs:
                return Column(tidy(text), field=path.rpartition(".")[2] or name, id=number)
            return Column(tidy(text), id=f"{number}{path}")  # what a Python function returns
        if call(definition, "from_json") is not None:
            return Column(tidy(text), field=path.removeprefix(".") or None, id=number)
        found = self.source(definition)
        if path and (found.window_us is None or path != ".end"):
            return Column(tidy(text), id=f"{number}{path}")
        return Column(tidy(text), found.field, found.id or number, found.window_us, found.constant)

    def _window(self, text: str, struct: str) -> Column:
        """A tumbling window; of any other struct nothing is known."""
        parts = split(struct, ", ")
        ends = _WINDOW_END.search(parts[3]) if len(parts) == 4 and parts[0::2] == ["start", "end"] else None
        times = {self.source(found[0]) for found in ATTRIBUTE.finditer(text)}
        if ends is None or len(times) != 1 or {ends[1]} != set(_WINDOW_SLIDE.findall(text)):
            return Column(tidy(text))
        [time] = times
        return Column(tidy(text), time.field, time.id, int(ends[1]))
