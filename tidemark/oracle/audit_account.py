"""What an audit could judge, and what it could not: ``audit`` of the verdict.

Free of everything.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["batches", "rows", "ids"]
"""What the output says of a row: its batch and its input records; its input records; the ids of its input only."""


class RowOfTable(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """A line of a table that an audit writes: a row, where it is, and why it is in the table.

    ``row`` has the ids, ``written`` the places of its input records (``topic/partition/offset``), ``read`` its place in
    the output, ``late_by_ms`` how far it is behind the watermark ``watermark`` (both of late rows only).
    """

    row: dict[str, str | None]
    written: list[str] = []
    read: str | None = None
    batch: int | None = None
    late_by_ms: int | None = None
    watermark: str | None = None
    why: str = ""


class AuditAccount(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``audit`` of the verdict.

    ``level`` is that at which the output was judged. ``first_batch`` is the first that the log lets one judge,
    ``from_batch`` to ``to_batch`` is what was judged, ``owed_to`` the last batch that owes its rows. ``restarts`` are
    batches at which a restart of the query explains its watermark. ``notes`` say what could not be known, and did not
    have to be for this verdict; what had to be is ``inconclusive``. ``undetermined`` and ``repeated`` are examples of
    rows that cannot be judged, and of rows that came again; the tables beside the verdict have more of them.
    """

    level: Level
    first_batch: int
    from_batch: int
    to_batch: int
    owed_to: int
    restarts: list[int] = []
    notes: list[str] = []
    undetermined: list[RowOfTable] = []
    repeated: list[RowOfTable] = []
