"""Events of a topic: records that are JSON and have a time, with the columns that joins use."""

from pyspark.sql.functions import col, from_json, timestamp_millis

from adteam.schemas import ORDER, PAYMENT

ORDERS_LATE = "2 minutes"
PAYMENTS_LATE = "5 minutes"
"""How late a service may write an event; later ones are dropped."""


def parsed(records, schema):
    """The value of each record of a Kafka source, as the columns of a schema."""
    return records.select(from_json(col("value").cast("string"), schema).alias("record")).select("record.*")


def orders_of(records):
    """Orders that say when they were made."""
    return (
        parsed(records, ORDER)
        .select(
            col("meta.id").alias("order_id"),
            timestamp_millis("meta.created_at").alias("ordered_at"),
            col("customer.id").alias("buyer"),
            col("customer.account").alias("account"),
            col("totals.amount").alias("total"),
            col("totals.currency").alias("order_currency"),
            col("status"),
            col("channel"),
        )
        .where("ordered_at IS NOT NULL")
        .withWatermark("ordered_at", ORDERS_LATE)
    )


def payments_of(records):
    """Notices of payments, settled or not, that say when the payment was made."""
    return (
        parsed(records, PAYMENT)
        .select(
            col("meta.id").alias("payment_id"),
            timestamp_millis("meta.created_at").alias("paid_at"),
            col("payer.customer").alias("payer"),
            col("amount").alias("paid"),
            col("currency").alias("payment_currency"),
            col("state"),
        )
        .where("paid_at IS NOT NULL")
        .withWatermark("paid_at", PAYMENTS_LATE)
    )
