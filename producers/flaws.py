"""Deliberate flaws of drafts: records without a key, unreadable ones, and second records of some events.

A second record is the same record once more in the same partition, another payload of the same id, or the same record
in another partition.

Drafts come in chunks, in the order of their indexes. Second records are kept in a ``producers.spool``; otherwise
without I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec

from producers.draft import UNREADABLE, Draft, Flaw
from producers.entities import ADS, PAGES
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


Again = Callable[[Random, Settings, Draft], Draft]
"""The second record of a draft, with the arrival of the first."""


def same_again(_rng: Random, _settings: Settings, draft: Draft) -> Draft:
    """The same record, as a producer without idempotence sends it again after a timeout."""
    return draft


def changed_again(rng: Random, settings: Settings, draft: Draft) -> Draft:
    """The same id with another page, and with another ad (a part of the key) or another time, or both."""
    moved_ms = rng.randint(-settings.unit_ms, settings.unit_ms)
    kept_ad, kept_time = rng.choice(((True, False), (False, True), (False, False)))
    return msgspec.structs.replace(
        draft,
        page=rng.randrange(PAGES),
        ad=draft.ad if kept_ad else rng.randrange(ADS),
        event_ms=draft.event_ms + (0 if kept_time else moved_ms),
    )


def moved_again(rng: Random, settings: Settings, draft: Draft) -> Draft:
    """The same record in another partition, as after a change of the partitioner."""
    step = rng.randrange(1, settings.partitions)
    return msgspec.structs.replace(draft, partition=(draft.partition + step) % settings.partitions)


class SentAgain:
    """Second records of a share of ``count`` drafts. Iterating gives all of them."""

    def __init__(
        self,
        rng: Random,
        picked: tuple[int, float],
        settings: Settings,
        again: Again,
        folder: Path | None = None,
    ) -> None:
        """``picked`` is the number of drafts, and the share of them."""
        self.count = self._first = 0
        self._picked = _picked(rng, *picked)
        self._rng = rng
        self._settings = settings
        self._again = again
        self._unit_ms = settings.unit_ms
        self._spool = Spool(Draft, folder)

    def see(self, drafts: Sequence[Draft]) -> None:
        """Send some of the next drafts again, which are not spoilt."""
        first, self._first = self._first, self._first + len(drafts)
        again = [
            msgspec.structs.replace(
                self._again(self._rng, self._settings, draft), arrival_ms=draft.arrival_ms + self._wait_ms()
            )
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
