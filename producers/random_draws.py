"""Random streams that are read in chunks: copies of a generator at a position, and draws for some of many indexes.

Pure, without I/O. A stage of the generator draws from one random stream, one step after the other. So that it need not
hold what it draws, each step has a copy of the stream that begins where the step does, and reads it chunk by chunk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import repeat
from math import log
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")


def copied(rng: Random) -> Random:
    """A generator that draws what ``rng`` would draw next."""
    copy = Random()
    copy.setstate(rng.getstate())
    return copy


def skip(rng: Random, n: int) -> None:
    """Move ``rng`` past ``n`` calls of ``random()``."""
    draw = rng.random
    for _ in repeat(None, n):
        draw()


def exhaust(draws: Iterable[object]) -> int:
    """Read all draws and keep none of them; their number."""
    last = deque(enumerate(draws, 1), maxlen=1)
    return last[0][0] if last else 0


def some(rng: Random, n: int, share: float) -> Iterator[int]:
    """Indexes below ``n``, each picked with probability ``share``; the cost grows with the number picked, not ``n``."""
    if share >= 1:
        yield from range(n)
    elif share > 0:
        scale, index = 1 / log(1 - share), -1
        while True:
            index += 1 + int(log(1 - rng.random()) * scale)
            if index >= n:
                return
            yield index


def at_least(rng: Random, n: int, share: float, least: int) -> Iterator[int]:
    """A random share of the indexes below ``n``, but at least ``least`` of them if the share is not 0.

    ``rng`` is moved past everything that is drawn.
    """
    picked = copied(rng)
    count = exhaust(some(rng, n, share))
    wanted = min(least, n) if share else 0
    return some(picked, n, share) if count >= wanted else iter(sorted(rng.sample(range(n), wanted)))


class Draws(Generic[T]):
    """What was drawn for some indexes, in ascending order of the indexes, to be read chunk by chunk."""

    def __init__(self, draws: Iterator[tuple[int, T]]) -> None:
        self._draws = draws
        self._following = next(draws, None)

    def below(self, index: int) -> Iterator[tuple[int, T]]:
        """The next draws up to those of ``index``, which is left out."""
        while (following := self._following) is not None and following[0] < index:
            yield following
            self._following = next(self._draws, None)
