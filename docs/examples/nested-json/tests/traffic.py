"""An hour of orders and payments as the services write them: ``python tests/traffic.py PATH``, or ``write_trace``.

The same seed gives the same records. Each sort of record that decides about a row is among them: payments at both ends
of the quarter of an hour and just beyond, in another currency, by an agency, of a cent too much, failed, sent again;
orders that nobody pays, drafts, orders of 49 cents, our own; records without a customer, late ones, and no JSON.
"""

import json
import random
import sys
from pathlib import Path

START_MS = 1_772_366_400_000  # 2026-03-01T12:00:00Z
QUARTER_MS = 15 * 60_000
ORDERS = 240
EVERY_MS = 15_000
SLICES = 3
LATE_MS = 40 * 60_000
DELAYS_MS = (0, 1, QUARTER_MS, QUARTER_MS - 400, QUARTER_MS + 1, QUARTER_MS + 60_000, -1, -60_000)


def write_trace(path, seed=7):
    """Write the trace to a path, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    records = [one for number in range(ORDERS) for one in _of_order(number, chance)]
    records.sort(key=lambda one: one["arrival_ms"])
    span_ms = ORDERS * EVERY_MS // SLICES
    header = {
        "tidemark_trace": 2,
        "pace": "stepped",
        "slices": SLICES,
        "topics": {"orders": {"partitions": 2}, "payments": {"partitions": 2}},
    }
    with path.open("w") as file:
        print(json.dumps(header), file=file)
        for one in records:
            number = (one["arrival_ms"] - START_MS) // span_ms
            print(json.dumps({**one, "slice": max(0, min(number, SLICES - 1))}), file=file)
    return path


def _of_order(number, chance):
    """An order, and what is paid for it."""
    at_ms, buyer = START_MS + number * EVERY_MS, f"c-{1000 + chance.randrange(40)}"
    order = {
        "meta": {"id": f"o-{number:06}", "created_at": at_ms, "trace": f"{chance.getrandbits(32):08x}"},
        "customer": {"id": buyer, "account": f"DE89 3704 0044 0532 {chance.randrange(10_000):04} 00"},
        "totals": {"amount": chance.randrange(50, 90_000) / 100, "currency": "EUR"},
        "status": "placed",
        "channel": chance.choice(["web", "web", "app", "phone"]),
        "lines": [{"sku": f"banner-{chance.choice([300, 728])}", "count": chance.randrange(1, 5)}],
    }
    paid = {
        "meta": {"id": f"p-{number:06}", "created_at": at_ms + chance.randrange(QUARTER_MS)},
        "payer": {"customer": buyer, "paid_by": buyer},
        "amount": f"{order['totals']['amount']:.2f}",
        "currency": "EUR",
        "state": "settled",
    }
    _make_odd(number, order, paid)
    yield _record("orders", order, at_ms + (LATE_MS if number % 29 == 3 else 0))
    if number % 5 != 4:  # nobody pays the fifth
        for _ in range(2 if number % 13 == 7 else 1):
            yield _record("payments", paid, paid["meta"]["created_at"])
    if number % 60 == 59:
        yield {"topic": "payments", "arrival_ms": at_ms, "value": "no JSON"}


def _make_odd(number, order, paid):
    """Every sort of record that is not the ordinary one."""
    if number % 4 == 1:
        paid["meta"]["created_at"] = order["meta"]["created_at"] + DELAYS_MS[number // 4 % len(DELAYS_MS)]
    if number % 10 == 2:
        order["status"] = "draft"
    if number % 10 == 6:
        order["channel"] = "internal"
    if number % 12 == 8:
        order["totals"]["amount"] = 0.49 if number % 24 == 8 else 0.5
        paid["amount"] = f"{order['totals']['amount']:.2f}"
    if number % 11 == 5:
        paid["state"] = "failed"
    if number % 7 == 3:
        paid["payer"]["paid_by"] = f"a-{number % 3}"
    if number % 14 == 10:
        paid["currency"] = "USD"
    if number % 16 == 12:
        paid["amount"] = f"{order['totals']['amount'] + 0.01:.2f}"
    if number % 80 == 15:
        order["customer"] = None


def _record(topic, value, arrival_ms):
    key = value["meta"]["id"].encode()
    return {
        "topic": topic,
        "partition": sum(key) % 2,
        "key": key.decode(),
        "arrival_ms": arrival_ms,
        "value": json.dumps(value),
    }


if __name__ == "__main__":
    write_trace(Path(sys.argv[1]))
