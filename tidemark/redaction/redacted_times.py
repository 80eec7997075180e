"""Event times in redacted records: the same moment, in one form.

Free of I/O. Times stay. What is read as ISO stays ISO, written in full; all other forms are microseconds since the
epoch. A time that is none is left out, as the text that it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemark.formats.events import time_reader, write_time
from tidemark.formats.field_values import path_reader
from tidemark.formats.record_fields import Field
from tidemark.formats.time_forms import FIRST_US, ISO, LAST_US

EPOCH_US = "epoch-us"


class RedactedTime:
    """The event time of the records of one topic."""

    def __init__(self, field: Field, form: str, zone: str) -> None:
        self._read: Callable[[dict[str, Any]], int | None] = time_reader(field, form, zone)
        self._read_number = path_reader(field.path, lambda value: value if type(value) is int else None)
        self.format = ISO if form == ISO else EPOCH_US

    def of(self, fields: dict[str, Any]) -> str | int | None:
        """The time of a decoded object, as a redacted record has it."""
        time_us = self._read(fields)
        if time_us is None:
            return None
        if self.format == EPOCH_US:
            return time_us
        if FIRST_US <= time_us <= LAST_US:
            return write_time(time_us)
        number: int | None = self._read_number(fields)
        return number  # a number of seconds outside of the years 1 to 9999
