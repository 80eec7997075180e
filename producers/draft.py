"""The draft: a record of a trace before it is encoded, with event time, arrival time and deliberate flaws.

Pure, without I/O. Drafts are plain mutable objects, because a trace has millions of them; some hundred thousands are in
memory at a time. Each stage of the generator (streams, lateness, flaws, arrival) sets its own fields, and ``values``
encodes the result as JSON.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from tidemark.formats.trace import Absent

MOST_PARTITIONS = 10_000


class Flaw(IntEnum):
    """A deliberate flaw of a record. The last three make it *unreadable*: it is filtered out below the watermark."""

    NONE = 0
    NULL_KEY = 1
    NOT_JSON = 2
    NO_TIME = 3
    NULL_TIME = 4


UNREADABLE = (Flaw.NOT_JSON, Flaw.NO_TIME, Flaw.NULL_TIME)


class Draft(msgspec.Struct, array_like=True, gc=False):
    """A future record. ``topic`` is an index into ``settings.TOPICS``; ``ad`` and ``page`` are indexes into pools.

    ``arrival_ms`` starts as the event time; the lateness models add to it. ``sub_us`` is the rest of the event time
    beyond ``event_ms``, in microseconds. ``order`` is the sort key of a trace: it is set once the arrival is final.
    ``skew_ms`` is how far the clock of its producer is ahead: Kafka's timestamp is later by it than the arrival.
    ``transaction``, ``absent`` and ``key`` are what the record of a trace has of these names; an empty key is the user.
    """

    topic: int
    number: int
    event_ms: int
    user: str
    ad: int
    page: int
    partition: int
    arrival_ms: int
    flaw: Flaw = Flaw.NONE
    is_edge: bool = False
    sub_us: int = 0
    order: int = 0
    skew_ms: int = 0
    transaction: int | None = None
    absent: Absent | None = None
    key: str = ""


def arrival_order(draft: Draft) -> int:
    """Arrival, then topic, then partition, in one number, for ``order`` (a third faster to sort by than a tuple).

    ``tidemark record`` merges partitions in the same order, also for equal arrivals.
    """
    return (draft.arrival_ms * 2 + draft.topic) * MOST_PARTITIONS + draft.partition
