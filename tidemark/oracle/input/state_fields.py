"""Which fields a state has of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidemark.formats.evidence import StateRow


class StateFields(NamedTuple):
    """What the state of one side after one batch has of its rows; what it has of none is not compared."""

    key: bool
    time: bool
    ref: bool


def fields_of(found: Sequence[StateRow]) -> StateFields:
    """What these rows have; no rows lack nothing."""
    if not found:
        return StateFields(key=True, time=True, ref=True)
    return StateFields(
        key=any(row.key is not None for row in found),
        time=any(row.time_us is not None for row in found),
        ref=any(row.ref is not None for row in found),
    )
