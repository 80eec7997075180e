"""Where faults strike: a query, what it runs on, and what can be seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.chaos.outputs import Output, Proof
from tidemark.chaos.strikes import NO_DATA, PLANNED, Strike
from tidemark.checkpoint import Checkpoint
from tidemark.evidence import Fault
from tidemark.stack import Stack


@dataclass(frozen=True)
class Scene:
    """One query on one driver."""

    stack: Stack
    driver: str
    checkpoint: Checkpoint
    output: Output

    def carries_data(self, batch: int) -> bool:
        """Whether a planned batch reads anything."""
        before = self.checkpoint.batch(batch - 1).end_offsets if batch else {}
        return self.checkpoint.batch(batch).end_offsets != before


def now_utc() -> str:
    """The time of a strike, as the journal has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def hit(scene: Scene, strike: Strike, batch: int, proof: Proof) -> Fault:
    """What the journal says of a strike that meets its point: what is seen in the instant before it."""
    point = strike.sort.point
    if point == PLANNED and not scene.carries_data(batch):
        point = NO_DATA
    seen = {"planned": True, "committed": batch in scene.checkpoint.committed(), **proof}
    return Fault(fault=strike.sort.name, at_utc=now_utc(), done=True, batch=batch, point=point, proof=seen)
