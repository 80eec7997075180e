"""The redaction of a chain: its description, input records and output records without their values.

Free of I/O. Fields that a chain only finds equal or not become pseudonyms, which are text. Numbers that it compares, or
takes the least or the greatest of, become their places among all (``value_codes.Ranked``). Times and counts stay. A
sum cannot be told without what is added up: such a chain is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import msgspec

from tidemark.errors import UsageError
from tidemark.formats import chain
from tidemark.formats.chain import Aggregate, Chain, Join, Source, Step, Value, Where, Window
from tidemark.formats.contract import Filter, Literal
from tidemark.formats.events import decode_object, field_reader, read_time_us, write_time
from tidemark.formats.field_types import LONG
from tidemark.formats.field_values import as_text, value_reader
from tidemark.formats.record_fields import BIGINT, STRING, Field, ValueType, text_of_path
from tidemark.redaction.join_redaction import REDACTED, WHOLE
from tidemark.redaction.pseudonyms import Pseudonyms
from tidemark.redaction.redacted_times import RedactedTime
from tidemark.redaction.value_codes import Ranked

_BIGINT = ValueType(BIGINT)


class ChainRedaction:
    """How the records of a chain are redacted. What is ranked has to be collected before a record is redacted."""

    def __init__(self, described: Chain, pseudonyms: Pseudonyms) -> None:
        self._chain = described
        self._pseudonyms = pseudonyms
        self._fields = _Fields(described)
        self._ranked = self._fields.ranked()
        self._sources = [_SourceRedaction(source, self._code) for source in described.sources]
        types = chain.types_of(described.last)
        self._types = [(name, types[name]) for name in described.output]
        self._read_output = field_reader([*described.output, *described.output])

    @property
    def needs_all_values(self) -> bool:
        """Whether all input records have to be collected first."""
        return bool(self._ranked)

    def collect(self, topic: str, value: bytes | str | None) -> None:
        """Take note of the values of an input record."""
        fields = decode_object(value)
        if fields is None:
            return
        for source in self._sources:
            if source.topic == topic:
                for name, read in source.readers:
                    if name in self._ranked and (found := read(fields)) is not None:
                        self._ranked[name].add(found)

    def contract(self) -> dict[str, Any]:
        """The chain of the redacted records, as JSON; once all values are collected."""
        return replace(self._chain, last=self._step(self._chain.last)).to_json()

    def input(self, topic: str, value: bytes | str | None) -> str | None:
        """The value of an input record, redacted: what each source of its topic reads."""
        if not value:
            return None if value is None else ""
        fields = decode_object(value)
        if fields is None:
            return REDACTED
        shown: dict[str, Any] = {}
        for source in self._sources:
            if source.topic == topic:
                shown |= source.redacted(fields)
        return msgspec.json.encode(shown).decode()

    def output(self, value: str | None, whole: str) -> str | None:
        """The value of an output record, redacted; ``whole`` is a pseudonym of the record."""
        if value is None:
            return None
        found = self._read_output(value)
        try:
            if found is None:
                raise ValueError(REDACTED)
            shown = {name: self._written(name, kind, of)
                     for (name, kind), of in zip(self._types, found, strict=False)}  # fmt: skip
        except ValueError:
            return f"{REDACTED} {whole}"
        return msgspec.json.encode(shown | {WHOLE: whole}).decode()

    def state_key(self, _side: str, key: tuple[str | None, ...]) -> tuple[str | None, ...]:
        """The key of a row of the state; that of a chain is left out."""
        return tuple([self._pseudonyms.or_null(part) for part in key])

    def _code(self, name: str, value: Any) -> Any:
        """What stands for a value that is not NULL."""
        if name in self._ranked:
            return self._ranked[name].code(value)
        return self._pseudonyms.of(str(value))

    def _written(self, name: str, kind: str, value: Any) -> Any:
        """A field of an output record; raises ``ValueError`` if it is not of its type."""
        if value is None:
            return None
        if kind == chain.TIME:
            time_us = read_time_us(value) if type(value) is str else None
            if time_us is None:
                raise ValueError(name)
            return write_time(time_us)
        if kind == STRING:
            return self._code(name, as_text(value))
        if type(value) is not int or value not in LONG:
            raise ValueError(name)
        return value if name in self._fields.counts else self._code(name, value)

    def _step(self, step: Step) -> Step:
        if isinstance(step, Source):
            source = next(one for one in self._sources if one.source is step)
            types = {name: BIGINT if name in self._ranked else STRING for name, _ in source.readers}
            return source.described(types, self._filters(step.filters))
        if isinstance(step, Join):
            return replace(step, left=self._step(step.left), right=self._step(step.right))
        below = replace(step, input=self._step(step.input))
        return replace(below, filters=self._filters(below.filters)) if isinstance(below, Where) else below

    def _filters(self, filters: Iterable[Filter]) -> tuple[Filter, ...]:
        return tuple(
            one if one.field in self._fields.counts
            else replace(one, value=self._ranked[one.field].code(_number(one.value)))
            for one in filters
        )  # fmt: skip


class _SourceRedaction:
    """The records of a topic as one source reads them."""

    def __init__(self, source: Source, code: Callable[[str, Any], Any]) -> None:
        self.source, self.topic = source, source.topic
        self.readers = [(one.name, value_reader(one)) for one in source.fields]
        self._code = code
        self._time = RedactedTime(source.time_field, source.time_format, source.time_zone)

    def redacted(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a redacted record that this source reads."""
        found = {name: read(fields) for name, read in self.readers}
        shown = {name: None if of is None else self._code(name, of) for name, of in found.items()}
        time = self._time.of(fields)
        return shown if time is None else shown | {self.source.time: time}

    def described(self, types: dict[str, str], filters: tuple[Filter, ...]) -> Source:
        """The source of redacted records; ``types`` are those of its fields."""
        fields = tuple(Field(name, text_of_path((name,)), types[name]) for name, _ in self.readers)
        return replace(
            self.source, fields=fields, filters=filters, time_column=text_of_path((self.source.time,)),
            time_format=self._time.format, time_zone="UTC", decode=None, encode=None,
        )  # fmt: skip


class _Fields:
    """The fields of a chain in classes: those that are equal in pairs, compared, or made of each other."""

    def __init__(self, described: Chain) -> None:
        self._chain = described
        self._class_of: dict[str, set[str]] = {}
        self.counts: set[str] = set()
        self._kinds: dict[str, str] = {}
        self._in_order: set[str] = set()
        self._literals: list[tuple[str, int]] = []
        for step in described.steps:
            self._see(step)

    def ranked(self) -> dict[str, Ranked]:
        """The ranks of each field whose order the chain asks for. Raises ``UsageError`` for what cannot be redacted."""
        found: dict[str, Ranked] = {}
        for names in {id(one): one for one in self._class_of.values()}.values():
            if not names & self._in_order or names <= self.counts:
                if len({self._kinds[name] for name in names}) > 1:
                    raise self._refused(min(names), "is joined with a field of another type")
                continue
            if mixed := names & self.counts:
                raise self._refused(min(mixed), "is a count, and compared with a field of a record")
            literals = [value for name, value in self._literals if name in names]
            found |= dict.fromkeys(names, Ranked(literals, _BIGINT))
        return found

    def _see(self, step: Step) -> None:
        if isinstance(step, Source):
            for one in step.fields:
                self._add(one.name, one.made.kind)
            self._add(step.time, chain.TIME)
            self._compare(step.filters)
        elif isinstance(step, Window):
            self._add(step.name, chain.TIME)
        elif isinstance(step, Aggregate):
            for value in step.values:
                self._see_value(value)
        elif isinstance(step, Where):
            self._compare(step.filters)
        elif isinstance(step, Join):
            pairs = [(str(term.left), str(term.right)) for term in step.conditions]
            self._in_order |= {name for names in pairs for name in names}
            for names in (*step.keys, *pairs):
                self._join(*names)

    def _see_value(self, value: Value) -> None:
        self._add(value.name, BIGINT)
        if value.field is None:
            self.counts.add(value.name)
            return
        if value.function == "sum":
            raise self._refused(value.field, "is added up, and no sum is known without what is added")
        self._join(value.name, value.field)
        self._in_order.add(value.name)

    def _compare(self, filters: Iterable[Filter]) -> None:
        self._in_order |= {one.field for one in filters}
        self._literals += [(one.field, _number(one.value)) for one in filters]

    def _add(self, name: str, kind: str) -> None:
        self._class_of[name] = {name}
        self._kinds[name] = kind

    def _join(self, one: str, other: str) -> None:
        whole = self._class_of[one] | self._class_of[other]
        self._class_of |= dict.fromkeys(whole, whole)

    def _refused(self, field: str, why: str) -> UsageError:
        return UsageError(
            f"the contract {self._chain.name!r} cannot be redacted",
            detail=f"the field {field!r} {why}",
            hint="only a chain without it can be redacted: leave it out of query and contract, and run it again",
        )


def _number(value: Literal) -> int:
    """What a chain compares a number with; it is one, too."""
    return cast("int", value)
