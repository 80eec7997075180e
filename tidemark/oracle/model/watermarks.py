"""The watermarks that the rows of a run give: one for each batch, unless Spark had a choice.

Free of I/O. Optional rows (``History.optional``) may be filtered out upstream of the watermark or move it, batch by
batch. All that is possible is kept; where the checkpoint shows one of it, that one is taken, and where it shows none,
the watermark that all rows give. So a run without optional rows has one prediction, whatever its checkpoint says.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from tidemark.formats.evidence import Batch
from tidemark.formats.watermark import WatermarkTracker
from tidemark.oracle.input.history import History
from tidemark.oracle.spark.time_ranges import NULL_TIME_US, US_PER_MS


class Watermarks:
    """Begin a batch, then observe its rows."""

    def __init__(self, history: History) -> None:
        contract = history.contract
        delays_ms = contract.left.watermark_delay_ms, contract.right.watermark_delay_ms
        self._history = history
        self._sides = contract.left, contract.right
        self._possible = [WatermarkTracker(delays_ms, contract.policy)]
        self._batch = 0

    @property
    def current_ms(self) -> int:
        """The watermark of the batch that comes next."""
        return self._possible[0].watermark_ms

    def begin(self, plan: Batch) -> None:
        """Begin a batch: drop what is not possible, as its plan has another watermark."""
        self._batch = plan.batch
        fitting = [one for one in self._possible if one.watermark_ms == plan.watermark_ms]
        self._possible = fitting or self._possible[:1]
        if plan.restarted or plan.runs > 1:
            for one in self._possible:
                one.restart()

    def observe(self, rows_by_side: Sequence[np.ndarray], optional: Sequence[np.ndarray]) -> None:
        """Take the rows of a batch into account, late ones too, and end it."""
        for side in range(len(self._sides)):
            if self._sides[side].watermark_delay_ms is None:
                continue
            latest_ms, optional_ms = (
                self._latest_ms(side, rows_by_side[side]),
                self._latest_ms(side, optional[side]),
            )
            if self._history.rest is not None:
                latest_ms = self._history.rest.latest_ms[self._batch][side]
            for one in self._possible:
                _observe(one, side, latest_ms)
            if optional_ms is not None:
                without = copy.deepcopy(self._possible)
                for one in self._possible:
                    _observe(one, side, optional_ms)
                self._possible += without
        for one in self._possible:
            one.advance()
        different: dict[tuple[int | None, ...], WatermarkTracker] = {}
        for one in self._possible:
            different.setdefault((one.watermark_ms, *one.latest_ms), one)
        self._possible = list(different.values())

    def _latest_ms(self, side: int, rows: np.ndarray) -> int | None:
        """The latest event time; a NULL that is kept counts as 0."""
        if not len(rows):
            return None
        times_us = np.frombuffer(self._history.rows.event_us, dtype=np.int64)[rows]
        if self._sides[side].keeps_null_event_time:
            times_us = np.where(times_us == NULL_TIME_US, 0, times_us)
        return int(times_us.max()) // US_PER_MS


def _observe(tracker: WatermarkTracker, side: int, latest_ms: int | None) -> None:
    if latest_ms is not None:
        tracker.observe(side, latest_ms)
