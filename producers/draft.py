"""A record before it is written down: what an event is, when it happens, when it arrives, what is wrong
with it.

Free of I/O. Drafts are plain mutable objects, because a trace has millions of them: each stage of the
generator (streams, lateness, flaws, arrival) fills in its own fields, and ``values`` turns the result into
JSON.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

MOST_PARTITIONS = 10_000


class Flaw(IntEnum):
    """What is wrong with a record on purpose. The last three are *unreadable*: filtered below the
    watermark.
    """

    NONE = 0
    NULL_KEY = 1
    NOT_JSON = 2
    NO_TIME = 3
    NULL_TIME = 4


class Draft(msgspec.Struct, gc=False):
    """One record to be. ``topic`` is an index into ``settings.TOPICS``; ``ad`` and ``page`` are indexes
    into pools.

    ``arrival_ms`` starts as the event time; lateness is added to it. ``sub_us`` are microseconds beyond
    ``event_ms``.
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


def arrival_order(draft: Draft) -> int:
    """The order of a trace: by arrival, then topic, then partition, as one number (a third faster than a tuple).

    ``tidemark record`` merges partitions in the same order, ties included.
    """
    return (draft.arrival_ms * 2 + draft.topic) * MOST_PARTITIONS + draft.partition
