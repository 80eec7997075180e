"""Every order with the payments that came for it within a quarter of an hour, or with NULL where none came."""

from pyspark.sql.functions import expr

from adteam.accounts import masked
from adteam.events import orders_of, payments_of

IN_TIME = """
    buyer = payer AND
    order_currency = payment_currency AND
    paid_at >= ordered_at AND
    paid_at <= ordered_at + INTERVAL 15 MINUTES AND
    paid <= total
"""


def paid_orders(orders, payments):
    """Join the two topics. Orders below half a unit are rounding errors; internal ones are not reported."""
    placed = orders_of(orders).where("status = 'placed' AND total >= 0.50")
    settled = payments_of(payments).where("state = 'settled'")
    joined = placed.join(settled, expr(IN_TIME), "leftOuter")
    return joined.where("channel <> 'internal'").select(
        "order_id", "payment_id", "ordered_at", masked("account").alias("account")
    )
