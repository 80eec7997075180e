"""The redaction of a single join: a contract, input records, output records and state rows without their values.

Free of I/O. A redacted record has the id, the keys and what the contract compares, as pseudonyms and codes
(``value_codes``), and the event time, at the names of the contract; nothing else of it is left. The redacted contract
says how that is read. A record that cannot be read stays one, and keeps the pseudonym of its id where one is seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tidemark.errors import UsageError
from tidemark.formats.contract import Contract, Filter, Side, Term
from tidemark.formats.events import decode_object, field_reader
from tidemark.formats.field_values import as_text, in_order, key_text, value_reader
from tidemark.formats.record_fields import BIGINT, NUMBERS, STRING, Field, text_of_path
from tidemark.oracle.input.compared_values import ComparedValues, Place
from tidemark.oracle.spark.pushdown import as_planned, of_both, place
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT
from tidemark.redaction.pseudonyms import Pseudonyms
from tidemark.redaction.redacted_times import RedactedTime
from tidemark.redaction.value_codes import Identity, Interval, KeptLiterals, Ranked, ValueCode

REDACTED = "redacted"
"""Stands for a value that is no JSON object, and for text that is none of tidemark's own."""
WHOLE = "record"
"""The field of an output record that has a pseudonym of all of it: a copy of a record is still one."""
SIDES = (LEFT, RIGHT)


@dataclass(frozen=True)
class _Name:
    """A name of a side: where its value goes, how it is read, and what stands for it."""

    target: str
    read_text: Callable[[dict[str, Any]], str | None] | None
    identity: Identity
    read_number: Callable[[dict[str, Any]], Any] | None = None
    code: ValueCode | None = None

    def redacted(self, fields: dict[str, Any]) -> Any:
        """What a redacted record has in the place of the value."""
        number = None if self.read_number is None else self.read_number(fields)
        if number is not None and self.code is not None:
            return self.code.code(number)
        return None if self.read_text is None else self.identity.of(self.read_text(fields))


class JoinRedaction:
    """How the records of one join are redacted. What is ranked has to be collected before a record is redacted."""

    def __init__(self, contract: Contract, pseudonyms: Pseudonyms) -> None:
        self._contract = contract
        self._pseudonyms = pseudonyms
        self._compared = ComparedValues(contract)
        self._codes = self._codes_by_place()
        self._sides = [_SideRedaction(self, side) for side in SIDES]
        self._by_topic = {side.topic: at for at, side in enumerate((contract.left, contract.right))}
        output = contract.output
        self._refs = [*(output.left_ref or ()), *(output.right_ref or ())]
        self._ids = [(output.left_id, LEFT), *([(output.right_id, RIGHT)] if output.right_id else [])]
        names = [*(name for name, _ in self._ids), *self._refs]
        self._read_output = field_reader([*names, *names])
        self._output_names = names

    @property
    def needs_all_values(self) -> bool:
        """Whether all input records have to be collected first."""
        return any(isinstance(code, Ranked) for code in self._codes.values())

    def collect(self, topic: str, value: bytes | str | None) -> None:
        """Take note of the values of an input record."""
        at = self._by_topic.get(topic)
        fields = None if at is None else decode_object(value)
        if at is None or fields is None:
            return
        for name in self._sides[at].names:
            number = None if name.read_number is None else name.read_number(fields)
            if number is not None and name.code is not None:
                name.code.add(number)

    def contract(self) -> dict[str, Any]:
        """The contract of the redacted records, as JSON; once all values are collected."""
        left, right = (one.side() for one in self._sides)
        made = replace(
            self._contract, left=left, right=right,
            condition=tuple(map(self._term, self._contract.condition)),
            where=tuple(map(self._term, self._contract.where)),
        )  # fmt: skip
        return made.to_json()

    def input(self, topic: str, value: bytes | str | None) -> str | None:
        """The value of an input record, redacted."""
        if not value:
            return None if value is None else ""
        at = self._by_topic.get(topic)
        return REDACTED if at is None else self._sides[at].redacted(value)

    def output(self, value: str | None, whole: str) -> str | None:
        """The value of an output record, redacted; ``whole`` is a pseudonym of the record."""
        if value is None:
            return None
        found = self._read_output(value)
        if found is None:
            return f"{REDACTED} {whole}"
        fields = dict(zip(self._output_names, found, strict=False))
        shown = {name: self.identity(side).of(as_text(fields[name])) for name, side in self._ids}
        shown |= {name: _place_part(fields[name]) for name in self._refs}
        return msgspec.json.encode(shown | {WHOLE: whole}).decode()

    def state_key(self, side: str, key: tuple[str | None, ...]) -> tuple[str | None, ...]:
        """The key of a row of the state, redacted."""
        at = LEFT if side == "left" else RIGHT
        names = self.side(at).keys
        parts = [self._identity(at, name) for name in names]
        parts += [Identity(self._pseudonyms, None)] * (len(key) - len(names))
        return tuple([one.of(part) for one, part in zip(parts, key, strict=False)])

    def identity(self, at: int) -> Identity:
        """What stands for the ids of a side."""
        return self._identity(at, self.side(at).id)

    def side(self, at: int) -> Side:
        """A side of the contract."""
        return self._contract.right if at == RIGHT else self._contract.left

    def names_of(self, at: int) -> dict[str, _Name]:
        """Each name of a side that a redacted record has, but for its event time."""
        side, compared = self.side(at), self._contract.compared[at]
        found = {}
        for name in dict.fromkeys((side.id, *side.keys, *compared)):
            read_text = _text_reader(side.field(name)) if name in (side.id, *side.keys) else None
            read_number = self._number_reader(at, name) if name in compared else None
            code = self._codes.get((at, name))
            found[name] = _Name(name, read_text, self._identity(at, name), read_number, code)
        return found

    def filters(self, at: int) -> tuple[Filter, ...]:
        """The filters of a side, with codes in the place of values."""
        return tuple(
            replace(one, value=self._literal((at, one.field), one.value)) for one in self.side(at).filters
        )

    def _term(self, term: Term) -> Term:
        if term.value is None:
            return term
        at = (LEFT, term.left) if term.left is not None else (RIGHT, str(term.right))
        return replace(term, value=self._literal(at, term.value))

    def _literal(self, at: Place, value: Any) -> Any:
        return self._codes[at].literal(self._compared.number(at, value), value)

    def _identity(self, at: int, name: str) -> Identity:
        code = self._codes.get((at, name))
        if code is None:
            return Identity(self._pseudonyms, None)
        kind = self._contract.values[at][name].made
        return Identity(self._pseudonyms, (code, kind, self._compared.scale(at, name)))

    def _number_reader(self, at: int, name: str) -> Callable[[dict[str, Any]], Any]:
        field = self.side(at).field(name, BIGINT)
        read, kind, scale = value_reader(field), field.made, self._compared.scale(at, name)
        return lambda fields: in_order(read(fields), kind, scale)

    def _codes_by_place(self) -> dict[Place, ValueCode]:
        codes: dict[Place, ValueCode] = {}
        bounds = _bounds_of_spark(self._contract)
        sides = self._contract.left, self._contract.right
        identities = {(at, name) for at, side in enumerate(sides) for name in (side.id, *side.keys)}
        terms = of_both((*self._contract.condition, *self._contract.where))
        paired = {(LEFT, term.left) for term in terms} | {(RIGHT, term.right) for term in terms}
        for places in self._compared.classes:
            at, name = min(places)
            kind, scale = self._contract.values[at][name].made, self._compared.scale(at, name)
            literals = [
                self._compared.number(one, value) for one in places for value in self._compared.literals(one)
            ]
            is_bound = bool(places & bounds) and kind.kind in NUMBERS
            is_ranked = bool(places & (identities | paired))
            if is_bound and is_ranked:
                raise _not_redacted(self._contract, *min(places & bounds))
            code: ValueCode = (
                KeptLiterals(literals, kind, scale) if is_bound
                else Ranked(literals, kind) if is_ranked
                else Interval(literals, kind)
            )  # fmt: skip
            codes |= dict.fromkeys(places, code)
        return codes


class _SideRedaction:
    """One side: its records, and what the contract says of them."""

    def __init__(self, join: JoinRedaction, at: int) -> None:
        self._join, self._at = join, at
        side = join.side(at)
        self._old, self._by_name = side, join.names_of(at)
        self._is_plain = side.is_plain and all(
            one.code is None or (one.code.type == BIGINT and side.field(name, BIGINT).is_plain)
            for name, one in self._by_name.items()
        )
        if self._is_plain:
            targets = {name: str(side.field(name).path[0]) for name in self._by_name}
            self._by_name = {name: replace(one, target=targets[name]) for name, one in self._by_name.items()}
        self.names = list(self._by_name.values())
        time = str(side.time_field.path[0]) if self._is_plain else side.time
        self._is_plain &= time not in {one.target for one in self.names}
        self._time_name = time if time not in {one.target for one in self.names} else f"{time} (time)"
        self._time = RedactedTime(side.time_field, side.time_format, side.time_zone)
        last = re.escape(str(side.field(side.id).path[-1]))
        self._id_in_text = re.compile(rf'"{last}"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",}}\]]+))')

    def side(self) -> Side:
        """This side of the redacted contract."""
        filters = self._join.filters(self._at)
        if self._is_plain:
            return replace(self._old, filters=filters, decode=None, encode=None)
        fields = [
            Field(name, text_of_path((one.target,)), None if self._is_read_twice(name) else _type_of(one))
            for name, one in self._by_name.items()
        ]
        time = Field(self._time_name, text_of_path((self._time_name,)))
        return replace(
            self._old, filters=filters, fields=(*fields, time), time=self._time_name,
            time_format=self._time.format, time_zone="UTC", decode=None, encode=None,
        )  # fmt: skip

    def redacted(self, value: bytes | str) -> str:
        """The value of an input record."""
        fields = decode_object(value)
        if fields is None:
            return self._unreadable(value)
        shown = {one.target: one.redacted(fields) for one in self.names}
        time = self._time.of(fields)
        return msgspec.json.encode(shown if time is None else shown | {self._time_name: time}).decode()

    def _is_read_twice(self, name: str) -> bool:
        """Whether it is read as text and as a number, because the contract compares it and says no type."""
        one = self._by_name[name]
        return one.code is not None and one.read_text is not None and self._old.field(name, "").type == ""

    def _unreadable(self, value: bytes | str) -> str:
        """What stands for a value without an object: text that is no JSON, with the id if one is seen."""
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        seen = self._id_in_text.search(text)
        if seen is None:
            return REDACTED
        name = self._by_name[self._old.id].target
        return f'{REDACTED} "{name}": "{self._join.identity(self._at).of(seen[1] or seen[2])}"'


def _text_reader(field: Field) -> Callable[[dict[str, Any]], str | None]:
    read, kind = value_reader(field), field.made
    return lambda fields: key_text(read(fields), kind)


def _type_of(name: _Name) -> str:
    return STRING if name.code is None else name.code.type


def _place_part(value: Any) -> Any:
    """A partition or an offset in the output; what is neither stays none."""
    return value if value is None or isinstance(value, int | float) else REDACTED


def _bounds_of_spark(contract: Contract) -> set[Place]:
    """The fields of which Spark takes a lower bound for one of the event time."""
    pushdown = place(as_planned(contract))
    return {
        (side, one.field)
        for side in SIDES
        if pushdown.limits_ms[side]
        for one in pushdown.early[side]
        if one.op in (">", ">=")
    }


def _not_redacted(contract: Contract, at: int, name: str) -> UsageError:
    topic = (contract.right if at == RIGHT else contract.left).topic
    return UsageError(
        f"the contract {contract.name!r} cannot be redacted",
        detail=f"{name!r} of {topic} is an id, a key, or compared with the other side, and has a lower bound, which"
        " Spark takes for one of the event time: when rows are evicted hangs on its value",
        hint="put the bound on a field of its own, which is neither a key nor compared with the other side",
    )
