"""Lists that may be longer than memory: what is beyond a limit is in a temporary file, in blocks.

A ``Spool`` keeps the order in which items were added, a ``SortedSpool`` sorts them. A file has no name, so nothing is
left of it when a process is killed; blocks are MessagePack. Short lists make no file.

The sort is an external merge sort: sorted runs of ``RUN_ITEMS`` are merged, of which one block each is in memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Generic, TypeVar

import msgspec

RUN_ITEMS = 200_000
"""Calibration: as many drafts take 50 MB. Ten million are 50 runs, a hundred million 500."""

BLOCK_ITEMS = 2_000
"""Calibration: 500 runs have a million drafts in memory, which take 250 MB; a block takes a millisecond to decode."""

T = TypeVar("T")


class _Blocks(Generic[T]):
    """Blocks of items in a temporary file, which is made with the first one."""

    def __init__(self, kind: type[T], folder: Path | None) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0

    def append(self, items: Sequence[T]) -> list[tuple[int, int]]:
        """Write items as blocks; where the blocks are, as pairs of start and end."""
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed with the list)
        places = [self._end]
        self._file.seek(self._end)
        for first in range(0, len(items), BLOCK_ITEMS):
            self._file.write(self._encode(items[first : first + BLOCK_ITEMS]))
            places.append(self._file.tell())
        self._end = places[-1]
        return list(pairwise(places))

    def read(self, place: tuple[int, int]) -> list[T]:
        """The items of one block."""
        assert self._file is not None
        start, end = place
        self._file.seek(start)
        return self._decode(self._file.read(end - start))

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()


class Spool(Generic[T]):
    """Items in the order in which they were added; may be read any number of times, once all have been added."""

    def __init__(self, kind: type[T], folder: Path | None = None) -> None:
        self._blocks = _Blocks(kind, folder)
        self._places: list[tuple[int, int]] = []
        self._rest: list[T] = []

    def add(self, items: Iterable[T]) -> int:
        """Add items at the end; returns how many. Raises ``OSError`` if the file cannot be written."""
        items, count = iter(items), 0
        while some := list(islice(items, RUN_ITEMS)):
            count += len(some)
            self._add(some)
        return count

    def _add(self, items: list[T]) -> None:
        self._rest += items
        if len(self._rest) >= RUN_ITEMS:
            self._places += self._blocks.append(self._rest)
            self._rest = []

    def __iter__(self) -> Iterator[list[T]]:
        """All items, block by block."""
        yield from map(self._blocks.read, self._places)
        yield from _pieces(self._rest)

    def close(self) -> None:
        """Delete the file."""
        self._blocks.close()


class SortedSpool(Generic[T]):
    """Items sorted by a key; items of one key stay in the order in which they were added."""

    def __init__(
        self, kind: type[T], key: Callable[[T], Any] | None = None, folder: Path | None = None
    ) -> None:
        self._blocks = _Blocks(kind, folder)
        self._key = key
        self._runs: list[list[tuple[int, int]]] = []
        self._rest: list[T] = []

    def add(self, items: Sequence[T]) -> None:
        """Add items. Raises ``OSError`` if the file cannot be written."""
        self._rest += items
        if len(self._rest) >= RUN_ITEMS:
            self._end_run()

    def __iter__(self) -> Iterator[list[T]]:
        """All items in their order, some at a time; may be called again, once all have been added."""
        if self._runs:
            self._end_run()
            yield from self._merged()
        else:
            self._rest.sort(key=self._key)
            yield from _pieces(self._rest)

    def close(self) -> None:
        """Delete the file."""
        self._blocks.close()

    def _end_run(self) -> None:
        if self._rest:
            self._rest.sort(key=self._key)
            self._runs.append(self._blocks.append(self._rest))
            self._rest = []

    def _merged(self) -> Iterator[list[T]]:
        """Each turn ends with the least of the last items in memory: no run has anything before it that is not read.

        Of several runs whose block ends with that key, the first may have more items of the key, which come before
        those of the runs behind it: these wait.
        """
        key: Callable[[T], Any] = self._key or _itself
        places = [iter(run) for run in self._runs]
        heads: list[list[T]] = [[] for _ in places]
        while True:
            for number, of_run in enumerate(places):
                if not heads[number] and (place := next(of_run, None)) is not None:
                    heads[number] = self._blocks.read(place)
            lasts = [(key(head[-1]), number) for number, head in enumerate(heads) if head]
            if not lasts:
                return
            last, first_ending = min(lasts)
            merged: list[T] = []
            for number, head in enumerate(heads):
                if head:
                    cut = bisect_right if number <= first_ending else bisect_left
                    end = cut(head, last, key=key)
                    merged += head[:end]
                    heads[number] = head[end:]
            merged.sort(key=key)
            yield merged


def _pieces(items: list[T]) -> Iterator[list[T]]:
    return (items[first : first + BLOCK_ITEMS] for first in range(0, len(items), BLOCK_ITEMS))


def _itself(item: T) -> T:
    return item
