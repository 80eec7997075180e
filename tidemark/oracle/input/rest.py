"""What is known of the rows of a large run that were left out of its history, because SQL shows that they are right.

Free of I/O; decides nothing. Counts are those of rows that were left out; what cannot be added up is of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidemark.oracle.input.state_fields import StateFields
from tidemark.oracle.input.unreadable import Readable


@dataclass(frozen=True)
class Rest:
    """``counts`` have the names that the counts of a verdict have; ``permitted``: batch -> rows that came again.

    Per batch: ``stored`` and ``removed`` are the numbers of rows of each side that enter and leave the state, ``late``
    those that are dropped. Of all rows: the watermark of each batch and of the next (``watermarks_ms``), the latest
    event time of each side in each batch (``latest_ms``, ``None`` without rows), how much of each topic is readable,
    how many batches have data and how many events an id that came before, whether rows must be late (``must_drop``).
    ``keys`` and ``rows`` say how many there are. ``state_fields`` is what the state has of its rows, by batch and side.
    ``first_places``: partition of the output and batch -> the place of the first right row there, of all rows
    (``tidemark.oracle.compare.batch_order``); empty if the output is in the order of its batches.
    """

    watermarks_ms: Sequence[int]
    latest_ms: Sequence[tuple[int | None, int | None]]
    counts: Mapping[str, int]
    permitted: Mapping[int, int]
    stored: tuple[np.ndarray, np.ndarray]
    removed: tuple[np.ndarray, np.ndarray]
    late: np.ndarray
    readable: list[Readable]
    data_batches: int
    duplicate_events: int
    must_drop: bool
    rows: int
    keys: int
    notes: list[str] = field(default_factory=list)
    state_fields: Mapping[tuple[int, int], StateFields] = field(default_factory=dict)
    first_places: Mapping[tuple[int, int], int] = field(default_factory=dict)
