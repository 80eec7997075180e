"""Every departure with the weather at its airport in the hour of its departure, or with NULL without a measurement.

An example for other events: other fields, one key, and a time bound that excludes one of its ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from tidemark import Bound, Contract, JoinKind, Output, Side, read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FLIGHT = "flight_id STRING, carrier STRING, flight INT, origin STRING, dest STRING, flight_time TIMESTAMP"
WEATHER = "weather_id STRING, origin STRING, temp DOUBLE, wind_speed DOUBLE, weather_time TIMESTAMP"

CONTRACT = Contract(
    name="flights_weather",
    kind=JoinKind.LEFT_OUTER,
    left=Side("flights", "flight_id", ("origin",), "flight_time", 7_200_000),
    right=Side("weather", "weather_id", ("origin",), "weather_time", 7_200_000),
    bound=Bound(lower_ms=0, upper_ms=3_600_000, upper_strict=True),
    output=Output(
        "flight_id",
        "weather_id",
        ("flight_partition", "flight_offset"),
        ("weather_partition", "weather_offset"),
    ),
)


def build(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Join two Kafka streams of JSON records."""
    departed = read_json(flights, "flight", FLIGHT, "flight_time")
    measured = read_json(weather, "weather", WEATHER, "weather_time")
    return (
        departed.withWatermark("flight_time", "2 hours")
        .alias("f")
        .join(
            measured.withWatermark("weather_time", "2 hours").alias("w"),
            expr(
                """
                f.origin = w.origin AND
                f.flight_time >= w.weather_time AND
                f.flight_time < w.weather_time + INTERVAL 1 HOUR
                """
            ),
            "leftOuter",
        )
        .select(
            "f.flight_id",
            "f.flight_partition",
            "f.flight_offset",
            "f.flight_time",
            "f.dest",
            "w.weather_id",
            "w.weather_partition",
            "w.weather_offset",
            "w.temp",
            "w.wind_speed",
        )
    )
