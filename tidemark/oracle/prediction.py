"""What had to come out of a run of one join, in columns: what the output, the state and the metrics are compared with.

Free of I/O; decides nothing.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field


@dataclass
class Prediction:
    """What this Spark must do."""

    batch_of: dict[int, int] = field(default_factory=dict)
    """Identity of each output row -> the batch that emits it."""
    watermarks_ms: list[int] = field(default_factory=list)
    """Eviction watermark of each batch, and of the one that would come next."""
    disposition: bytearray = field(default_factory=bytearray)
    """Per row, a ``Disposition``."""
    matched: bytearray = field(default_factory=bytearray)
    """Per row, whether it was joined."""
    stored: array[int] = field(default_factory=lambda: array("i"))
    """Per row, the batch that put it into the state, or ``NO_BATCH``."""
    removed: array[int] = field(default_factory=lambda: array("i"))
    """Per row, the batch that took it out of the state again, or ``NO_BATCH``."""

    def late_ms(self, batch: int) -> int:
        """The late watermark of a batch: the eviction watermark of the batch before."""
        return self.watermarks_ms[batch - 1] if batch > 0 else 0
