"""What ``adteam.paid_orders`` promises: drafted by ``tidemark init``, then read line by line."""

from adteam.paid_orders import paid_orders

from tidemark import Bound, Contract, Field, Filter, JoinKind, Output, Side, Term

ORDERS = Side(
    topic="orders",
    id="order_id",
    keys=("buyer", "order_currency"),
    time="ordered_at",
    time_format="epoch-ms",
    watermark_delay_ms=2 * 60_000,
    fields=(
        Field("order_id", "meta.id"),
        Field("ordered_at", "meta.created_at"),
        Field("buyer", "customer.id"),
        Field("order_currency", "totals.currency"),
        Field("total", "totals.amount", "decimal(12,2)"),
        Field("status", type="string"),
        Field("channel", type="string"),
    ),
    filters=(Filter("status", "=", "placed"), Filter("total", ">=", "0.50")),
)
PAYMENTS = Side(
    topic="payments",
    id="payment_id",
    keys=("payer", "payment_currency"),
    time="paid_at",
    time_format="epoch-ms",
    watermark_delay_ms=5 * 60_000,
    fields=(
        Field("payment_id", "meta.id"),
        Field("paid_at", "meta.created_at"),
        Field("payer", "payer.customer"),
        Field("payment_currency", "currency"),
        Field("paid", "amount", "decimal(12,2)"),
        Field("state", type="string"),
    ),
    filters=(Filter("state", "=", "settled"),),
)
CONTRACT = Contract(
    name="paid_orders",
    kind=JoinKind.LEFT_OUTER,
    left=ORDERS,
    right=PAYMENTS,
    bound=Bound(lower_ms=-15 * 60_000, upper_ms=0),
    condition=(Term(">=", left="total", right="paid"),),
    where=(Term("!=", left="channel", value="internal"),),
    output=Output("order_id", "payment_id"),
)


def build(orders, payments):
    """The join as it runs in production."""
    return paid_orders(orders, payments)
