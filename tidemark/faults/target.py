"""Where faults strike: a query, what it runs on, and what can be seen of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.faults.schedule import Strike
from tidemark.faults.sink_progress import Output, Proof
from tidemark.formats.evidence import Fault
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import Stack
from tidemark.waiting import pause


@dataclass(frozen=True)
class Scene:
    """One query on one driver; ``rest`` waits for so many seconds, or until the run is given up."""

    stack: Stack
    driver: str
    checkpoint: Checkpoint
    output: Output
    rest: Callable[[float], object] = pause

    def carries_data(self, batch: int) -> bool:
        """Whether a planned batch reads anything."""
        before = self.checkpoint.batch(batch - 1).end_offsets if batch else {}
        return self.checkpoint.batch(batch).end_offsets != before


def now_utc() -> str:
    """The time of a strike, as the journal has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def hit(scene: Scene, strike: Strike, batch: int, proof: Proof) -> Fault:
    """What the journal says of a strike that meets its point: what is seen in the instant before it."""
    seen, sort = seen_of(scene, batch, proof), strike.sort
    return Fault(fault=sort.name, at_utc=now_utc(), done=True, batch=batch, point=sort.point, proof=seen)


def seen_of(scene: Scene, batch: int, proof: Proof) -> Proof:
    """A proof, with whether the batch is planned and committed."""
    committed = batch in scene.checkpoint.committed()
    return {"planned": batch in scene.checkpoint.planned(), "committed": committed, **proof}
