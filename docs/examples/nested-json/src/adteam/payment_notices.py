"""Every notice of a payment with its order, once, although the payment service sends some notices again."""

from pyspark.sql.functions import expr

from adteam.events import orders_of, payments_of

IN_TIME = """
    buyer = payer AND
    paid_at >= ordered_at AND
    paid_at <= ordered_at + INTERVAL 15 MINUTES
"""


def payment_notices(orders, payments):
    """Join the two topics; of a notice that comes again within five minutes the first one counts."""
    once = payments_of(payments).where("payer IS NOT NULL").dropDuplicatesWithinWatermark(["payment_id"])
    joined = orders_of(orders).join(once, expr(IN_TIME))
    return joined.select("order_id", "payment_id", "ordered_at", "paid_at")
