"""What another attempt of a batch may have written: at-least-once lets a deduplication or a limit choose anew.

Free of I/O. Which of several rows the last step of a chain takes depends on the order in which a shuffle brings them,
so that a batch that ran again, or a task that did, may take others, and all of them are in the output. The number of
attempts bounds it: each takes as many rows as the first, and each row once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemark.oracle.input.chain_rows import Offered, Values


@dataclass
class _Pool:
    """Choices that have a row in common: so many more rows of them may come, and whether one did."""

    more: int
    is_used: bool = False


class OtherChoices:
    """The rows of a batch that were chosen from, each of which ``most`` attempts may have taken."""

    def __init__(self, offered: Sequence[Offered], most: int) -> None:
        self._pools: dict[Values, _Pool] = {}
        self.taken = Counter(values for one in offered for values in one.taken)
        """The rows that the model took."""
        for rows, many in _joined(offered):
            pool = _Pool(many * (most - 1))
            self._pools |= dict.fromkeys(rows, pool)
        written = Counter(values for one in offered for values in one.rows)
        self._more = {values: many * most - self.taken[values] for values, many in written.items()}

    def __contains__(self, values: Values) -> bool:
        """Whether a row is one that was chosen from."""
        return values in self._pools

    def take(self, values: Values) -> bool:
        """Whether a row may be that of another attempt; it is counted then."""
        pool = self._pools.get(values)
        if pool is None or pool.more <= 0 or self._more[values] <= 0:
            return False
        pool.more -= 1
        pool.is_used = True
        self._more[values] -= 1
        return True

    def is_open(self, values: Values) -> bool:
        """Whether rows of several attempts came where this one was chosen from: nothing says which is a copy."""
        return values in self._pools and self._pools[values].is_used


def _joined(offered: Iterable[Offered]) -> list[tuple[set[Values], int]]:
    """The rows of choices, those that have one in common put together, and how many were taken."""
    place: dict[Values, int] = {}
    found: dict[int, tuple[set[Values], int]] = {}
    for number, one in enumerate(offered):
        rows, many = set(one.rows), len(one.taken)
        for other in {place[values] for values in rows if values in place}:
            others, more = found.pop(other)
            rows |= others
            many += more
        found[number] = rows, many
        place |= dict.fromkeys(rows, number)
    return list(found.values())
