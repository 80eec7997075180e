"""The forms in which records say their event time, read and written as Spark does.

Free of everything but the standard library, as the contract is. ``time_format`` of a side is one of these:

``iso``                  what Spark's JSON reader reads as a TIMESTAMP (``tidemark.formats.events``): the default.
``epoch-ms``             milliseconds since 1970-01-01T00:00:00Z, and so ``epoch-s``, ``epoch-us`` and ``epoch-ns``: a
                         BIGINT, or a field that is made a BIGINT or a DECIMAL of up to 30 digits. What is less than a
                         microsecond is rounded down.
``dd/MM/yyyy HH:mm:ss``  or another datetime pattern of Spark, as ``try_to_timestamp`` reads text by it. Of its letters
                         there are y (yyyy, yy), M (M, MM, MMM, MMMM), d, H, h with a, m, s, S, X, x and Z, text in
                         quotes, and optional parts in brackets.

``time_zone`` is the zone of a time that names none: ``UTC``, ``Europe/Berlin``, ``+02:00``. Years are 0001 to 9999: any
other time is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_FLOOR, Context, Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

ISO = "iso"
NS_PER_UNIT = {"epoch-s": 1_000_000_000, "epoch-ms": 1_000_000, "epoch-us": 1_000, "epoch-ns": 1}
"""The forms that are numbers, by the length of one."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""0001-01-01T00:00:00Z, and the last microsecond of the year 9999."""
MOST_DIGITS = 30
"""Of a decimal that is a time: Spark multiplies it without a loss."""
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), timedelta(milliseconds=1)
_EXACT = Context(prec=100)
_OFFSET = re.compile(r"(?:Z|(?:UTC|GMT|UT)?(?:([+-])(\d\d?)(?::?(\d\d)(?::?(\d\d))?)?)?)", re.ASCII).fullmatch
_WIDEST_OFFSET = timedelta(hours=18)
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_TOKEN = re.compile(r"'((?:[^']|'')*)'|(\[)|(\])|([A-Za-z])\4*|([^A-Za-z\[\]'{}#])")
_NUMBER_OF = {"M": "month", "d": "day", "H": "hour", "h": "hour12", "m": "minute", "s": "second"}
_WRITTEN = {
    "yyyy": "%Y", "yy": "%y", "MM": "%m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M",
    "ss": "%S", "a": "%p",
}  # fmt: skip
_HOURS = r"[+-]\d\d(?:\d\d)?", r"[+-]\d{4}", r"[+-]\d\d:\d\d"
_OFFSETS = {
    **{"x" * length: regex for length, regex in enumerate(_HOURS, 1)},
    **{"X" * length: f"Z|{regex}" for length, regex in enumerate(_HOURS, 1)},
    **{"Z" * length: _HOURS[1] for length in (1, 2, 3)},
}
"""The regular expression of each run of letters that is an offset."""
_OFFSET_IN = "X"
"""Stands for the letter of any offset."""
Read = Callable[[str], int | None]


def zone_of(name: str) -> tzinfo:
    """The time zone of this name in Java's ``ZoneId``; raises ``ValueError`` if there is none."""
    found = _OFFSET(name)
    if found is None:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, OSError) as error:
            raise ValueError(f"there is no time zone {name!r}") from error
    sign, *numbers = found.groups()
    hours, minutes, seconds = [int(number or 0) for number in numbers]
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or offset > _WIDEST_OFFSET:
        raise ValueError(f"there is no time zone {name!r}")
    return timezone(-offset if sign == "-" else offset)


def is_pattern(form: str) -> bool:
    """Whether a form is neither ISO nor a number."""
    return form != ISO and form not in NS_PER_UNIT


def has_offset(pattern: str) -> bool:
    """Whether a pattern has an offset in it."""
    return any(found[0] in _OFFSETS for found in _tokens(pattern))


def form_problem(form: str, zone: str) -> str:
    """What is wrong with a form and its time zone; empty: nothing."""
    try:
        zone_of(zone)
        if not is_pattern(form):
            return ""
        _regex(form)
        inside = _brackets(form)
    except ValueError as error:
        return str(error)
    if form.startswith("epoch"):
        return f"{form!r} is none of {', '.join(NS_PER_UNIT)}"
    if inside.get("y") != () or inside.get("h") != inside.get("a") or {"h", "H"} <= inside.keys():
        return f"{form!r} says no time: there is a year, and hours as H, or as h with a"
    if inside.get(_OFFSET_IN) and zone != "UTC":
        return f"{form!r} has an offset in brackets: a time zone can be given for times that all lack one"
    return ""


def epoch_us(number: int | Decimal, form: str) -> int | None:
    """A number of a form in microseconds since the epoch; ``None`` if the year is none of 0001 to 9999."""
    ns = NS_PER_UNIT[form]
    if isinstance(number, Decimal):
        us = int(_EXACT.divide(_EXACT.multiply(number, ns), 1000).to_integral_value(ROUND_FLOOR, _EXACT))
    else:
        us = number * ns // 1000
    return us if FIRST_US <= us <= LAST_US else None


def pattern_reader(pattern: str, zone: str) -> Read:
    """A function that reads text by a pattern, in microseconds since the epoch; ``None`` for what does not fit."""
    matches, default = re.compile(_regex(pattern), re.ASCII | re.IGNORECASE).fullmatch, zone_of(zone)

    def read(text: str) -> int | None:
        found = matches(text)
        if found is None:
            return None
        try:
            moment = _moment(
                {name: part for name, part in found.groupdict().items() if part is not None}, default
            )
            us = (moment - EPOCH) // _MICROSECOND
        except (ValueError, OverflowError):
            return None
        return us if FIRST_US <= us <= LAST_US else None

    return read


def write_form(time_us: int, form: str, zone: str) -> str:
    """A time that is a multiple of a millisecond, as text of a pattern, or as the text of a number."""
    if form in NS_PER_UNIT:
        return f"{Decimal(time_us) * 1000 / NS_PER_UNIT[form]:f}"
    moment = (EPOCH + timedelta(microseconds=time_us)).astimezone(zone_of(zone))
    return "".join(_written(found, moment) for found in _TOKEN.finditer(form))


def _moment(parts: dict[str, str], default: tzinfo) -> datetime:
    """The moment that the parts of a pattern say; raises ``ValueError`` if there is none."""
    month = parts.get("month", "1")
    if not month.isdecimal():
        month = str(next(at for at, name in enumerate(_MONTHS, 1) if name.lower().startswith(month.lower())))
    hour = int(parts.get("hour", 0))
    if "hour12" in parts:
        hour = int(parts["hour12"])
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        hour = hour % 12 + 12 * (parts["half"].upper() == "PM")
    year = int(parts["year"]) if "year" in parts else 2000 + int(parts["year2"])
    zone = default
    if offset := parts.get("offset"):
        zone = zone_of(offset.upper())
    return datetime(
        year, int(month), int(parts.get("day", 1)), hour, int(parts.get("minute", 0)), int(parts.get("second", 0)),
        int((parts.get("fraction", "") + "000000")[:6]), zone,
    )  # fmt: skip


def _tokens(pattern: str) -> Iterator[re.Match[str]]:
    at = 0
    for found in _TOKEN.finditer(pattern):
        if found.start() != at:
            break
        at = found.end()
        yield found
    if at != len(pattern):
        raise ValueError(f"the pattern {pattern!r} cannot be read from {pattern[at:]!r} on")


def _letter(found: re.Match[str]) -> str:
    """The letter of a token, the same for all offsets; empty: it has none."""
    return _OFFSET_IN if found[0] in _OFFSETS else found[4] or ""


def _brackets(pattern: str) -> dict[str, tuple[int, ...]]:
    """The brackets that each letter of a pattern is in."""
    inside: dict[str, tuple[int, ...]] = {}
    opened: list[int] = []
    for at, found in enumerate(_tokens(pattern)):
        if found[2]:
            opened.append(at)
        elif found[3]:
            opened.pop()
        elif letter := _letter(found):
            inside[letter] = tuple(opened)
    return inside


def _regex(pattern: str) -> str:
    """The regular expression of a pattern; raises ``ValueError`` for one that is not known."""
    parts: list[str] = []
    depth, is_open, seen = 0, False, set[str]()
    for found in _tokens(pattern):
        part = _part(pattern, found)
        letter = _letter(found)
        if letter in seen or (is_open and r"\d" in part and found[0] not in _OFFSETS):
            raise ValueError(
                f"the pattern {pattern!r}: {found[0]} is there twice, or follows a number of any length"
            )
        depth += bool(found[2]) - bool(found[3])
        if depth < 0:
            break
        if not (found[2] or found[3]):
            is_open = part.endswith(r"+)")
        seen |= {letter} - {""}
        parts.append(part)
    if depth:
        raise ValueError(f"the pattern {pattern!r} has a bracket without the other one")
    return "".join(parts)


def _part(pattern: str, found: re.Match[str]) -> str:
    run, letter = found[0], found[4]
    if found[1] is not None:
        return re.escape(found[1].replace("''", "'") or "'")
    if found[2] or found[3]:
        return "(?>" if found[2] else ")?+"
    if not letter:
        return re.escape(run)
    if run in _OFFSETS:
        return f"(?P<offset>{_OFFSETS[run]})"
    if run == "yyyy":
        return r"(?P<year>\d{4})"
    if run == "yy":
        return r"(?P<year2>\d{2})"
    if run == "a":
        return "(?P<half>AM|PM)"
    if run in ("MMM", "MMMM"):
        return f"(?P<month>{'|'.join(name[:3] if run == 'MMM' else name for name in _MONTHS)})"
    if letter == "S" and len(run) <= 9:
        return rf"(?P<fraction>\d{{1,{len(run)}}}+)"
    if letter in _NUMBER_OF and len(run) <= 2:
        digits = r"\d{2}" if len(run) == 2 else r"\d{1,19}+"
        return f"(?P<{_NUMBER_OF[letter]}>{digits})"
    raise ValueError(f"the pattern {pattern!r}: {run} is not known here")


def _written(found: re.Match[str], moment: datetime) -> str:
    run = found[0]
    if found[1] is not None:
        return found[1].replace("''", "'") or "'"
    if found[2] or found[3]:
        return ""
    if not found[4]:
        return run
    if run in _WRITTEN:
        return moment.strftime(_WRITTEN[run]) if run != "yyyy" else f"{moment.year:04}"
    if run in _OFFSETS:
        text = moment.strftime("%z")
        return f"{text[:3]}:{text[3:5]}" if len(run) == 3 and run != "ZZZ" else text[:5]
    if run[0] == "S":
        return f"{moment.microsecond:06}000"[: len(run)]
    return str(int(moment.strftime(_WRITTEN[run * 2])))


def moment_ms(moment: datetime) -> int:
    """A moment in milliseconds since 1970; one without a zone is of UTC."""
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round((moment - EPOCH) / _MILLISECOND)


def journal_ms(text: str) -> int:
    """A time as the journal of faults and Spark's reports have it (ISO), likewise; raises ``ValueError`` for none."""
    return moment_ms(datetime.fromisoformat(text))
