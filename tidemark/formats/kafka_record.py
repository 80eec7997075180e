"""A record as a pair of functions of a user's file gets it, and gives it: to read what no contract can describe.

Free of everything but the standard library, because it also runs in another interpreter (``--spark PYTHON``). The side
of a contract, or the source of a chain, names two functions. They are in the pipeline's file, or in the file or module
that ``--functions`` names::

    Side("orders", id="order_id", keys=("customer",), time="ordered_at", watermark_delay_ms=10_000,
         decode="decode_order", encode="encode_order")

    def decode_order(record: KafkaRecord) -> dict | None: ...
    def encode_order(event: dict, like: KafkaRecord | None) -> KafkaRecord | bytes | str: ...

``decode`` returns what a record says, by the names (or paths) of the contract: id, keys, time and all that is compared.
Values are what JSON has, and ``datetime``, ``date``, ``Decimal``, ``UUID`` and ``bytes`` (base64 in the contract). A
``datetime`` without an offset is in the time zone of the side. ``None``, or an exception, means that the record is no
event.

``encode`` is the inverse. It makes the sentinels that end a run: ``event`` is what ``decode`` returned for another
record of the topic, with an id, keys, a time and compared values of its own, of the same types; ``like`` is that record
(``None`` if the topic has none). It returns a record, or the bytes or the text of its value alone. What it makes is
decoded again, and has to say the same. Where the event time is Kafka's timestamp, it sets ``timestamp_ms``. An audit
makes no sentinels, and does not call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class KafkaRecord(NamedTuple):
    """An input record; ``topic`` is the logical name of the contract, ``timestamp_ms`` Kafka's timestamp."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    timestamp_ms: int = 0


Decode = Callable[[KafkaRecord], dict[str, Any] | None]
Encode = Callable[[dict[str, Any], KafkaRecord | None], KafkaRecord | bytes]
