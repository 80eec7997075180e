"""Records of our topics: Avro in the wire format of the schema registry, read with the schemas of this package."""

from importlib.resources import files

from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import col, expr, timestamp_millis

TRIPS_LATE = "1 minute"
CHARGES_LATE = "3 minutes"
"""How late a service may write a record; later ones are dropped."""


def records_of(source, schema):
    """The records of a Kafka source. A byte 0 and the four bytes of the schema's ID are in front of each."""
    reader = files("fleet").joinpath("schemas", schema).read_text()
    body = expr("substring(value, 6)")
    return source.select(from_avro(body, reader, {"mode": "PERMISSIVE"}).alias("record")).select("record.*")


def trips_of(source):
    """Trips that have ended."""
    return (
        records_of(source, "trip.avsc")
        .select(
            "trip_id",
            col("rider.id").alias("passenger"),
            col("rider.city").alias("city"),
            timestamp_millis("ended_at").alias("ended_at"),
            "fare",
            "kind",
        )
        .where("ended_at IS NOT NULL")
        .withWatermark("ended_at", TRIPS_LATE)
    )


def charges_of(source):
    """Charges to a rider's card, captured or not."""
    return (
        records_of(source, "charge.avsc")
        .where("charged_at IS NOT NULL")
        .withWatermark("charged_at", CHARGES_LATE)
    )
