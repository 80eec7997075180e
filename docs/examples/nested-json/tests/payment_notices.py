"""What ``adteam.payment_notices`` promises: a chain, because a deduplication comes before the join."""

from adteam.payment_notices import payment_notices

from tidemark import Bound, Chain, Deduplicate, Field, Join, JoinKind, Source

ORDERS = Source(
    topic="orders",
    time="ordered_at",
    time_column="meta.created_at",
    time_format="epoch-ms",
    watermark_delay_ms=2 * 60_000,
    fields=(Field("order_id", "meta.id"), Field("buyer", "customer.id")),
    required=("buyer",),
)
PAYMENTS = Source(
    topic="payments",
    time="paid_at",
    time_column="meta.created_at",
    time_format="epoch-ms",
    watermark_delay_ms=5 * 60_000,
    fields=(Field("payment_id", "meta.id"), Field("payer", "payer.customer")),
    required=("payer",),
)
CONTRACT = Chain(
    name="payment_notices",
    last=Join(
        JoinKind.INNER,
        ORDERS,
        Deduplicate(PAYMENTS, ("payment_id",), within_watermark=True),
        keys=(("buyer", "payer"),),
        bound=Bound(lower_ms=-15 * 60_000, upper_ms=0),
    ),
    output=("order_id", "payment_id", "ordered_at", "paid_at"),
)


def build(orders, payments):
    """The join as it runs in production."""
    return payment_notices(orders, payments)
