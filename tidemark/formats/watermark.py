"""The watermark of a query, as Spark computes it of the event times that its inputs have shown.

Pure. Source: ``WatermarkTracker.updateWatermark`` in Spark's ``sql/core``. Each input with a watermark has its latest
event time, floored to milliseconds, minus its delay; an input that has shown no row counts as 0. Policy ``min`` takes
the least of them and ``max`` the greatest. The result never decreases. Both models of the oracle predict watermarks
with it, and the generator of traces places its edge rows with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.formats.contract import WatermarkPolicy


class WatermarkTracker:
    """Observe the rows of a batch, then advance. ``watermark_ms`` is the one that the next batch runs with.

    ``delays_ms`` has the delay of each input in milliseconds, ``None`` for an input without a watermark.
    """

    def __init__(
        self, delays_ms: Sequence[int | None], policy: WatermarkPolicy = WatermarkPolicy.MIN
    ) -> None:
        self._delays_ms = tuple(delays_ms)
        self._policy = policy
        self._pick = min if policy is WatermarkPolicy.MIN else max
        self.latest_ms: list[int | None] = [None] * len(self._delays_ms)
        self.watermark_ms = 0

    def observe(self, number: int, event_ms: int) -> None:
        """Take an event time of input ``number`` into account, in milliseconds; that of a late row counts, too."""
        latest_ms = self.latest_ms[number]
        if latest_ms is None or event_ms > latest_ms:
            self.latest_ms[number] = event_ms

    def advance(self) -> int:
        """End the batch; returns the watermark after it, in milliseconds."""
        pairs = zip(self.latest_ms, self._delays_ms, strict=True)
        reached_ms = [0 if latest is None else latest - delay for latest, delay in pairs if delay is not None]
        if reached_ms:
            self.watermark_ms = max(self.watermark_ms, self._pick(reached_ms))
        return self.watermark_ms

    def held_by(self) -> tuple[list[int], bool]:
        """The inputs, by their numbers, that hold the watermark back, and whether they have shown no row yet.

        None: it has nothing to follow, or all inputs are as far. Under the policy ``max`` nothing is held back.
        """
        pairs = enumerate(zip(self.latest_ms, self._delays_ms, strict=True))
        timed = {number: (latest, delay) for number, (latest, delay) in pairs if delay is not None}
        reached_ms = {
            number: latest - delay for number, (latest, delay) in timed.items() if latest is not None
        }
        if len(timed) < 2 or not reached_ms or self._policy is WatermarkPolicy.MAX:
            return [], False
        if silent := [number for number in timed if number not in reached_ms]:
            return silent, True
        least_ms = min(reached_ms.values())
        held = [number for number in reached_ms if reached_ms[number] == least_ms]
        return ([] if len(held) == len(reached_ms) else held), False

    def restart(self) -> None:
        """A restarted query keeps its watermark and forgets what each input has shown."""
        self.latest_ms = [None] * len(self._delays_ms)
