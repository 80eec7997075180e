"""A row of a chain: its values, and the input records that it is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidemark.formats.contract import COMPARISONS, Filter

NOTHING: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class Row:
    """``made_of`` are the input records behind it, ``is_null`` says that an outer join filled a side with NULLs."""

    values: dict[str, Any]
    made_of: frozenset[int] = NOTHING
    is_null: bool = False

    def get(self, names: Iterable[str]) -> tuple[Any, ...]:
        """Some of its values."""
        return tuple([self.values[name] for name in names])


def passes(values: dict[str, Any], filters: Iterable[Filter]) -> bool:
    """Whether some fields pass all filters."""
    return all(
        values[one.field] is not None and COMPARISONS[one.op](values[one.field], one.value) for one in filters
    )
