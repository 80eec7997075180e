"""The repositories of ``docs/examples``, and the mistakes of each: what is changed in its code, and what must be said.

Each mistake changes the production code and leaves the contract alone. The first line of the verdict has to say what to
change.
"""

from __future__ import annotations

from tests.support.broken_job import AVRO_JOB
from tests.support.example_repository import Break, Example

PAID = "tests/paid_orders.py --trace runs/traffic.jsonl"
NOTICES = "tests/payment_notices.py --trace runs/traffic.jsonl"
JOIN, EVENTS = "adteam/paid_orders.py", "adteam/events.py"

NESTED_JSON = Example(
    "nested-json",
    ("tests/traffic.py", "runs/traffic.jsonl"),
    {
        "a bound a second shorter": Break(
            JOIN,
            (("INTERVAL 15 MINUTES", "INTERVAL 899 SECONDS"),),
            PAID,
            ("differ in bound", "contract says -900000 ms <= orders", "plan says -899000 ms <= orders"),
        ),
        "a strict end of the bound": Break(
            JOIN,
            (("paid_at <= ordered_at", "paid_at < ordered_at"),),
            PAID,
            ("differ in bound", "contract says -900000 ms <= orders", "plan says -900000 ms < orders"),
        ),
        "a shorter delay": Break(
            EVENTS,
            (('PAYMENTS_LATE = "5 minutes"', 'PAYMENTS_LATE = "30 seconds"'),),
            PAID,
            ("differ in watermark of payments", "contract says 300000 ms", "plan says 30000 ms (30 seconds)"),
        ),
        "an inner join": Break(
            JOIN,
            (('"leftOuter"', '"inner"'),),
            PAID,
            ("differ in kind", "contract says left_outer", "plan says Inner"),
        ),
        "a filter before the join left out": Break(
            JOIN,
            (("status = 'placed' AND ", ""),),
            PAID,
            ("differ in filters of orders", "contract says status = placed", "plan says nothing of it"),
        ),
        "a filter before the join that is strict": Break(
            JOIN,
            (("total >= 0.50", "total > 0.50"),),
            PAID,
            ("differ in filters of orders", "says totals.amount >= 0.50", "says totals.amount > 0.50"),
        ),
        "a filter before the join that no plan is read for": Break(
            JOIN,
            (("status = 'placed'", "status IN ('placed', 'draft')"),),
            PAID,
            ("rows came that no rule gives: in all", "orders.status = 'draft'; in none of"),
        ),
        "a filter after the join left out": Break(
            JOIN,
            (("joined.where(\"channel <> 'internal'\").select", "joined.select"),),
            PAID,
            ("differ in filters of orders", "contract says channel != internal", "plan says nothing of it"),
        ),
        "no deduplication": Break(
            "adteam/payment_notices.py",
            (('.dropDuplicatesWithinWatermark(["payment_id"])', ""),),
            NOTICES,
            ("rows came once more", "more than one record of payments with its payment_id", "a deduplication"),
        ),
        "rows that are made twice": Break(
            JOIN,
            (
                (
                    '"order_id", "payment_id",',
                    'explode(expr("array(order_id, order_id)")).alias("order_id"), "payment_id",',
                ),
                ("import expr", "import explode, expr"),
            ),
            PAID,
            ("rows came once more", "in all", "its batch, which ran once, wrote it more than once"),
        ),
        "a similar field as key": Break(
            EVENTS,
            (('col("payer.customer")', 'col("payer.paid_by")'),),
            PAID,
            ("differ in keys", "says customer.id = payer.customer", "says customer.id = payer.paid_by"),
        ),
        "a key left out": Break(
            JOIN,
            (("    order_currency = payment_currency AND\n", ""),),
            PAID,
            ("differ in keys", "and totals.currency = currency; the plan says customer.id = payer.customer"),
        ),
        "seconds for milliseconds": Break(
            EVENTS,
            (
                (
                    'timestamp_millis("meta.created_at").alias("paid_at")',
                    'timestamp_seconds("meta.created_at").alias("paid_at")',
                ),
                ("from_json, timestamp_millis", "from_json, timestamp_millis, timestamp_seconds"),
            ),
            PAID,
            ("differ in event time of payments", "says meta.created_at is read as milliseconds", "read as seconds"),
        ),
        "sides swapped in the bound": Break(
            JOIN,
            (
                ("paid_at >= ordered_at", "ordered_at >= paid_at"),
                ("paid_at <= ordered_at +", "ordered_at <= paid_at +"),
            ),
            PAID,
            ("differ in bound", "contract says -900000 ms <= orders", "plan says 0 ms <= orders", "<= 900000 ms"),
        ),
        "a function that throws": Break(
            "adteam/accounts.py",
            (('account.replace(" ", "")', 'account["number"].replace(" ", "")'),),
            PAID,
            (
                "error: the query under test failed: TypeError: string indices must be integers",
                "src/adteam/accounts.py:11 in digits: return account[\"number\"]",
            ),
            fails=True,
        ),
    },
)  # fmt: skip

EXAMPLES = {example.name: example for example in (NESTED_JSON, AVRO_JOB)}
