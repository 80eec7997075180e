"""Which keys the model replays: all of a run up to a size, beyond it a sample of them, drawn with the run's seed.

Free of I/O. The model takes a row at a time and compares it with all of its key in the state, so a run costs it as many
steps as it has rows, and each key as many as it has pairs of a left and a right row.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from tidemark.oracle.input.history import History

ROWS = 100_000
"""Up to so many rows the model judges all of them. Calibration: some 5 µs a row, so half a second."""
PAIRS = 2_000_000
"""Up to so many pairs of rows of one key. Calibration: some 0.3 µs each."""


class Sampled(msgspec.Struct, frozen=True):
    """``modelled`` of a verdict: how many rows and keys of the input the model judged, and of how many.

    ``seed`` is what the keys were drawn with.
    """

    rows: int
    of_rows: int
    keys: int
    of_keys: int
    seed: int


@dataclass(frozen=True)
class Sample:
    """``rows`` says of each row whether the model replays it; ``about`` is ``None`` if it replays all."""

    rows: np.ndarray
    about: Sampled | None = None


def choose(history: History, *, rows: int = ROWS, pairs: int = PAIRS) -> Sample:
    """As many keys as a replay of so many rows and pairs can have; those with very many rows are left out first."""
    count = len(history.rows)
    key = np.frombuffer(history.rows.key, dtype=np.int64)
    side = np.frombuffer(history.rows.side, dtype=np.uint8)
    keys, of_row = np.unique(key, return_inverse=True)
    lefts = np.bincount(of_row[side == 0], minlength=len(keys))
    rights = np.bincount(of_row[side == 1], minlength=len(keys))
    costs = lefts * rights
    seed, rest = history.manifest.seed or 0, history.rest
    of_rows, of_keys = (count, len(keys)) if rest is None else (rest.rows, rest.keys)
    if (count <= rows or rest is not None) and costs.sum() <= pairs:
        about = None if rest is None else Sampled(count, of_rows, len(keys), of_keys, seed)
        return Sample(np.ones(count, dtype=bool), about)
    order = np.random.default_rng(abs(seed)).permutation(len(keys))
    # A key that is beyond its share leaves room for the others; of the rest the first that fit.
    order = order[costs[order] <= pairs // 10]
    fits = (np.cumsum((lefts + rights)[order]) <= rows) & (np.cumsum(costs[order]) <= pairs)
    chosen = np.zeros(len(keys), dtype=bool)
    chosen[order[fits]] = True
    of_sample = chosen[of_row]
    return Sample(of_sample, Sampled(int(of_sample.sum()), of_rows, int(chosen.sum()), of_keys, seed))
