"""Deliberate flaws of drafts: records without a key, unreadable ones, and second records of some events.

Drafts come in chunks, in the order of their indexes. Second records are kept in a ``producers.spool``; otherwise
without I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec

from producers.draft import UNREADABLE, Draft, Flaw
from producers.random_draws import Draws, at_least
from producers.settings import Settings
from producers.spool import Spool

AT_LEAST = 3
"""The least number of records with each kind of flaw, also in a tiny trace."""


class Spoil:
    """Gives a share of ``count`` drafts a flaw."""

    def __init__(self, rng: Random, count: int, settings: Settings) -> None:
        self._first = 0
        self._keyless = _picked(rng, count, settings.null_keys)
        self._unreadable = _picked(rng, count, settings.unreadable)
        self._rng = rng

    def __call__(self, drafts: Sequence[Draft]) -> None:
        """Spoil the next drafts."""
        first, self._first = self._first, self._first + len(drafts)
        for index, _ in self._keyless.below(self._first):
            drafts[index - first].flaw = Flaw.NULL_KEY
        for index, _ in self._unreadable.below(self._first):
            drafts[index - first].flaw = self._rng.choice(UNREADABLE)


class SentAgain:
    """Second records of a share of ``count`` drafts, as a producer without idempotence sends after a timeout.

    Iterating gives all of them.
    """

    def __init__(self, rng: Random, count: int, settings: Settings, folder: Path | None = None) -> None:
        self.count = self._first = 0
        self._picked = _picked(rng, count, settings.duplicates)
        self._rng = rng
        self._unit_ms = settings.unit_ms
        self._spool = Spool(Draft, folder)

    def see(self, drafts: Sequence[Draft]) -> None:
        """Send some of the next drafts again, which are not spoilt."""
        first, self._first = self._first, self._first + len(drafts)
        again = [
            msgspec.structs.replace(draft, arrival_ms=draft.arrival_ms + self._wait_ms())
            for index, _ in self._picked.below(self._first)
            if (draft := drafts[index - first]).flaw is Flaw.NONE
        ]
        self.count += len(again)
        self._spool.add(again)

    def __iter__(self) -> Iterator[list[Draft]]:
        return iter(self._spool)

    def close(self) -> None:
        """Delete what is on disk."""
        self._spool.close()

    def _wait_ms(self) -> int:
        return 1 + int(self._rng.expovariate(5) * self._unit_ms)


def _picked(rng: Random, count: int, share: float) -> Draws[None]:
    return Draws((index, None) for index in at_least(rng, count, share, AT_LEAST))
