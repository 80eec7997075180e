"""Two hours of trips and charges as the services write them, made anew for each test session: ``write_trace``.

The records are Avro in the wire format of the registry, with the IDs that it gives to the schemas. The same seed gives
the same events. Each sort of record that decides about a row is among them: charges at both ends of the ten minutes and
just beyond, of a cent too much, failed, of another rider's card, twice; trips that nobody pays, test trips, the city of
our demonstrations; late records, and bytes that are no record.
"""

import base64
import json
import os
import random
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from tidemark import avro_pair

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEN_MINUTES = timedelta(minutes=10)
TRIPS = 240
EVERY = timedelta(seconds=30)
SLICES = 3
LATE = timedelta(minutes=30)
MICROSECOND = timedelta(microseconds=1)
DELAYS = (timedelta(0), MICROSECOND, TEN_MINUTES, TEN_MINUTES - 400_000 * MICROSECOND, TEN_MINUTES + MICROSECOND,
          TEN_MINUTES + timedelta(seconds=50), -MICROSECOND, timedelta(seconds=-50))  # fmt: skip
SCHEMAS = Path(__file__).parents[1] / "src" / "fleet" / "schemas"


def write_trace(path, registry, seed=11):
    """Write the trace to a path, with the schemas registered at this registry, and return the path."""
    written = {
        topic: avro_pair(str(SCHEMAS / f"{name}.avsc"), registry=registry, subject=f"{topic}-value")[1]
        for topic, name in (("trips", "trip"), ("charges", "charge"))
    }
    chance = random.Random(seed)
    records = [one for number in range(TRIPS) for one in _of_trip(number, chance)]
    records.sort(key=lambda one: one[2])
    topics = {topic: {"partitions": 2} for topic in written}
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"tidemark_trace": 2, "pace": "stepped", "slices": SLICES, "topics": topics}
    with path.open("w") as file:
        print(json.dumps(header), file=file)
        for topic, event, arrival in records:
            value = event if isinstance(event, bytes) else written[topic](event, None)
            number = int((arrival - START) / (TRIPS * EVERY / SLICES))
            print(json.dumps(_record(topic, value, arrival, max(0, min(number, SLICES - 1)))), file=file)
    return path


def _record(topic, value, arrival, slice_number):
    return {
        "topic": topic,
        "partition": sum(value) % 2,
        "arrival_ms": int(arrival.timestamp() * 1000),
        "slice": slice_number,
        "value_base64": base64.b64encode(value).decode(),
    }


def _of_trip(number, chance):
    """A trip, and what is charged for it."""
    ended, rider = START + number * EVERY, f"r-{100 + chance.randrange(40)}"
    trip = {
        "trip_id": f"t-{number:06}",
        "rider": {"id": rider, "city": chance.choice(["berlin ", "Paris", "lyon"])},
        "ended_at": int(ended.timestamp() * 1000),
        "fare": Decimal(chance.randrange(350, 9_000)) / 100,
        "kind": chance.choice(["REGULAR", "REGULAR", "POOL"]),
    }
    charge = {
        "charge_id": f"c-{number:06}",
        "rider": rider,
        "card_holder": rider,
        "charged_at": ended + timedelta(milliseconds=chance.randrange(600_000)),
        "amount": trip["fare"],
        "state": "CAPTURED",
    }
    _make_odd(number, ended, trip, charge)
    yield "trips", trip, ended + (LATE if number % 29 == 3 else timedelta(0))
    if number % 5 != 4:  # nobody pays the fifth
        for _ in range(2 if number % 13 == 7 else 1):
            yield "charges", charge, charge["charged_at"]
    if number % 60 == 59:
        yield "charges", b"\x00\x00\x00\x00\x01no record", ended


def _make_odd(number, ended, trip, charge):
    """Every sort of record that is not the ordinary one."""
    if number % 4 == 1:
        charge["charged_at"] = ended + DELAYS[number // 4 % len(DELAYS)]
    if number % 10 == 2:
        trip["kind"] = "TEST"
    if number % 10 == 6:
        trip["rider"]["city"] = "demo"
    if number % 11 == 5:
        charge["state"] = "FAILED"
    if number % 7 == 3:
        charge["card_holder"] = f"company-{number % 3}"
    if number % 16 == 12:
        charge["amount"] = trip["fare"] + Decimal("0.01")


if __name__ == "__main__":
    write_trace(Path(sys.argv[1]), os.environ["TIDEMARK_REGISTRY"])
