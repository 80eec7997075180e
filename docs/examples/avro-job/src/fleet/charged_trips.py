"""Every trip with the charges for it in the ten minutes after its end, or with NULL where nothing was charged."""

from pyspark.sql.functions import expr

from fleet.cities import city_name
from fleet.records import charges_of, trips_of

FOR_THE_TRIP = """
    passenger = rider AND
    charged_at >= ended_at AND
    charged_at <= ended_at + INTERVAL 10 MINUTES AND
    amount <= fare
"""


def charged_trips(trips, charges):
    """Join the two topics. Test trips are left out, and so is the city of our demonstrations."""
    ended = trips_of(trips).where("kind <> 'TEST'")
    captured = charges_of(charges).where("state = 'CAPTURED'")
    joined = ended.join(captured, expr(FOR_THE_TRIP), "leftOuter").where("city <> 'demo'")
    return joined.select("trip_id", "charge_id", "ended_at", city_name("city").alias("city"))
