"""Records in CSV, a line each, for the contract of a pipeline's file.

Free of Kafka and Spark, and of everything but the standard library. In the file::

    decode_order, encode_order = csv_pair(("order_id", "customer", "ordered_at", "amount"))

A line is read as Spark's ``from_csv`` reads it in the mode ``PERMISSIVE`` with a schema of STRING columns, and with the
same ``sep``, ``quote``, ``escape`` and ``nullValue``:

- values are text, and NULL where nothing is between two delimiters; so is ``""``, unless ``null`` is another text;
- columns that are missing at the end are NULL, fields behind the last column are ignored, an empty line has NULL alone;
- blanks, line ends and quotes inside of a field are kept; blanks behind a closing quote are dropped;
- a quoted field with text behind its closing quote is text up to the next delimiter, its quotes included;
- a quoted field that is not closed is what is left of the line.

Where there is no quote or no escape, Spark's parser takes the character NUL for it, and changes lines that have one;
they are read as they are here. No line is unreadable by itself: where the id or the time is NULL, the contract says
what becomes of the record. Types are made of the text by ``cast``, as a ``CAST`` of the query makes them::

    Field("amount", type="string", cast="decimal(12,2)")
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any
from uuid import UUID

from tidemark.errors import UsageError
from tidemark.formats.kafka_record import Decode, Encode, KafkaRecord

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]").sub
"""A half of a pair in UTF-8: Java replaces it by one character, Python by three."""
_REPLACED = "\ufffd".encode()
_NONE = "\0"
"""Stands for an escape that is not there, in Spark as here."""


def csv_pair(
    columns: Sequence[str], *, delimiter: str = ",", quote: str = '"', escape: str = "\\", null: str = ""
) -> tuple[Decode, Encode]:
    """The functions ``decode`` and ``encode`` for records that are lines of CSV with these columns.

    ``delimiter`` is one character; ``quote`` and ``escape`` are one or none (``""``); a field that is ``null`` is NULL.
    What is encoded has quotes where it needs them; what no line can say raises ``ValueError``, such as empty text where
    that is NULL. Raises ``UsageError`` for columns or characters with which no line can be read.
    """
    names = _checked(columns)
    form = _Form(*_characters(delimiter, quote, escape), null)

    def decode(record: KafkaRecord) -> dict[str, Any] | None:
        if record.value is None:
            return None
        text = _SURROGATE(_REPLACED, record.value).decode("utf-8", "replace")
        return form.event(text, names)

    def encode(event: dict[str, Any], like: KafkaRecord | None) -> bytes | KafkaRecord:
        texts = {name: _text(event.get(name)) for name in names}
        line = form.delimiter.join(map(form.written, texts.values()))
        if (found := form.event(line, names)) != texts:
            name = next(one for one in names if found[one] != texts[one])
            raise ValueError(f"{name} is {texts[name]!r}, which no line of CSV of this form can say")
        return line.encode() if like is None else like._replace(value=line.encode())

    return decode, encode


@dataclass(frozen=True)
class _Form:
    """What a line is written with."""

    delimiter: str
    quote: str
    escape: str
    null: str

    def event(self, line: str, names: Sequence[str]) -> dict[str, str | None]:
        """The values of the columns."""
        fields = map(_characters_of, self._fields(_java_characters(line)))
        found = [None if value == self.null else value for value in fields]
        missing = [None] * (len(names) - len(found))
        return dict(zip(names, [*found, *missing], strict=False))

    def written(self, value: str | None) -> str:
        """A field of a line."""
        if value is None:
            return self.null
        if not self.quote or (value and self.delimiter not in value and value[0] != self.quote):
            return value
        marked = {self.quote, self.escape} - {_NONE}
        inside = "".join(
            self.escape + one if one in marked and self.escape != _NONE else one for one in value
        )
        return self.quote + inside + self.quote

    def _fields(self, line: str) -> list[str | None]:
        found: list[str | None] = []
        at: int | None = 0
        while at is not None:
            value, at = self._field(line, at)
            found.append(value)
        return found

    def _field(self, line: str, at: int) -> tuple[str | None, int | None]:
        """The field at a place, and where the next one is; ``None`` if it is the last."""
        if self.quote and line.startswith(self.quote, at):
            closed = self._is_closed(line, at)
            return (closed[1], closed.end()) if closed else _QuotedField(self, line, at).read()
        end = line.find(self.delimiter, at)
        return (line[at:] or None, None) if end < 0 else (line[at:end] or None, end + 1)

    @property
    def marks(self) -> tuple[str, str, str]:
        """Quote, escape and delimiter."""
        return self.quote, self.escape, self.delimiter

    @cached_property
    def _is_closed(self) -> Callable[[str, int], re.Match[str] | None]:
        """Finds a quoted field without quotes and escapes in it, and its delimiter."""
        quote, escape, delimiter = map(re.escape, self.marks)
        inside = f"[^{quote}]" if self.escape in (_NONE, self.quote) else f"[^{quote}{escape}]"
        return re.compile(f"{quote}({inside}*){quote}{delimiter}").match


def _java_characters(text: str) -> str:
    """A text with two characters for each that has two in Java: behind a closing quote their number counts."""
    if max(text, default="") <= "\uffff":
        return text
    data = text.encode("utf-16-be")
    return "".join(map(chr, struct.unpack(f">{len(data) // 2}H", data)))


def _characters_of(text: str | None) -> str | None:
    """The inverse."""
    return (
        text
        if text is None or text.isascii()
        else text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    )


class _LineEnd(Exception):
    """There is no further character."""


class _QuotedField:
    """A field that begins with a quote, read character by character: where quotes and escapes are, each one counts."""

    def __init__(self, form: _Form, line: str, at: int) -> None:
        self._form = form
        self._escaped_by = _NONE if form.escape == form.quote else form.escape
        self._line = line
        self._at = at
        self._now = ""
        self._before = _NONE
        self._is_broken = False
        self._value: list[str] = []

    def read(self) -> tuple[str, int | None]:
        """Its value, and where the next field is; ``None`` if it is the last."""
        following: int | None = None
        try:
            self._next()
            self._read_content()
            following = self._at
        except _LineEnd:
            if self._now == self._form.quote != self._before and not self._is_broken:
                self._value.append(self._form.quote)
        return "".join(self._value), following

    def _next(self) -> None:
        if self._at >= len(self._line):
            raise _LineEnd
        self._now = self._line[self._at]
        self._at += 1

    def _go_on(self) -> None:
        self._before = self._now
        self._next()

    def _take_until(self, *ends: str) -> None:
        first = self._now
        try:
            while self._now not in ends:
                self._value.append(self._now)
                self._next()
        except _LineEnd:
            self._now = (
                first  # whether the line ends in a quote is asked of the character that was looked at last
            )
            raise

    def _read_content(self) -> None:
        quote, escape, delimiter = self._form.marks
        self._next()
        while self._before != quote or (self._now > " " and self._now != delimiter):
            if self._now in (quote, escape):
                self._read_mark()
            elif self._before == quote:
                self._is_broken = True
                self._read_as_text("")
                return
            else:
                if self._before == escape != _NONE:
                    self._value.append(escape)
                self._take_until(quote, escape, self._escaped_by)
            self._go_on()
        spaces = ""
        while self._now <= " " and self._now != delimiter:
            spaces += self._now
            self._next()
        if self._now != delimiter:
            self._read_as_text(spaces)

    def _read_as_text(self, spaces: str) -> None:
        """Something is behind the closing quote: all up to the delimiter is text, and so are the quotes."""
        quote = self._form.quote
        self._value = [quote, *self._value, quote, spaces, self._now]
        self._go_on()
        self._take_until(self._form.delimiter)

    def _read_mark(self) -> None:
        """A quote or an escape."""
        quote, escape = self._form.quote, self._form.escape
        if self._now == escape and self._before == self._escaped_by != _NONE:
            self._value.append(escape)
            self._now = _NONE
        elif self._before == escape:
            self._value.append(quote if self._now == quote else escape)
            if self._now == quote:
                self._now = _NONE
        elif self._before == quote:
            self._value.append(quote)
            if self._now != quote:
                self._before = self._now
                self._read_behind_quote()

    def _read_behind_quote(self) -> None:
        """An escape is behind a quote: what follows is read as if both were inside, up to the delimiter."""
        quote, escape, delimiter = self._form.marks
        while self._now != delimiter:
            if self._now in (quote, escape):
                self._read_mark()
            elif self._before == quote:
                self._value.append(quote)
                self._before = self._now
                continue
            else:
                self._value.append(self._now)
            self._go_on()


def _checked(columns: Sequence[str]) -> tuple[str, ...]:
    names = () if isinstance(columns, str) else tuple(columns)
    if not names or len({*names}) < len(names) or not all(type(one) is str and one for one in names):
        raise UsageError(
            f"columns of CSV are {columns!r}",
            detail="they are the names of the fields of a line, in their order, each once",
            hint='say for example columns=("order_id", "customer", "ordered_at")',
        )
    return names


def _characters(delimiter: str, quote: str, escape: str) -> tuple[str, str, str]:
    given = {"delimiter": delimiter, "quote": quote, "escape": escape}
    wrong = [
        name
        for name, one in given.items()
        if len(one) > 1 or one in ("\0", "\n", "\r") or (name == "delimiter" and not one)
    ]
    if wrong or delimiter in (quote, escape):
        raise UsageError(
            f"lines of CSV cannot be read with {', '.join(f'{name}={one!r}' for name, one in given.items())}",
            detail="each is one character, no line end, and the delimiter is neither quote nor escape",
            hint='quote="" or escape="" says that there is none',
        )
    return delimiter, quote, escape or _NONE


def _text(value: object) -> str | None:
    """A value of an event as text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, int | float | Decimal | UUID):
        return str(value)
    raise ValueError(f"{value!r} is no value of CSV")
