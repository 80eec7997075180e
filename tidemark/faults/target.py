"""What faults are injected into: a query, the stack that it runs on, and what can be seen of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidemark.faults.schedule import PlannedFault
from tidemark.faults.sink_progress import Proof, SinkProgress
from tidemark.formats.faults import Fault
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.stack import LinkTraffic, Stack
from tidemark.waiting import pause


@dataclass(frozen=True)
class FaultTarget:
    """One query; ``rest`` waits for so many seconds, or until the run is aborted.

    ``driver_now`` gives the driver that the query runs on, or ran on last. ``standby_is_settled``: there is another
    one, on which it goes on, or it is known that there is none. ``traffic`` is what each link had seen when the next
    fault of the network began to wait for its batch.
    """

    stack: Stack
    driver_now: Callable[[], str]
    checkpoint: Checkpoint
    progress: SinkProgress
    rest: Callable[[float], object] = pause
    standby_is_settled: Callable[[], bool] = lambda: True
    traffic: dict[str, LinkTraffic] = field(default_factory=dict)

    @property
    def driver(self) -> str:
        """The component that is the driver."""
        return self.driver_now()

    def carries_data(self, batch: int) -> bool:
        """Whether a planned batch reads anything."""
        before = self.checkpoint.batch(batch - 1).end_offsets if batch else {}
        return self.checkpoint.batch(batch).end_offsets != before

    def proof(self, batch: int, proof: Proof) -> Proof:
        """A proof, with whether the batch is planned and committed at this moment."""
        committed = batch in self.checkpoint.committed()
        return {"planned": batch in self.checkpoint.planned(), "committed": committed, **proof}

    def injected(self, fault: PlannedFault, batch: int, proof: Proof) -> Fault:
        """The journal's line of a fault that meets its point: made in the instant before it is injected."""
        return journal_line(fault, injected=True, batch=batch, proof=self.proof(batch, proof))


def journal_line(
    fault: PlannedFault, *, injected: bool, batch: int | None = None, proof: Proof | None = None
) -> Fault:
    """The journal's line of a planned fault, at this moment."""
    spec = fault.spec
    return Fault(
        component=spec.component, action=spec.action, point=spec.point, at_utc=now_utc(), injected=injected,
        batch=batch, proof=proof or {}, amount=spec.amount,
    )  # fmt: skip


def now_utc() -> str:
    """This moment, as the journal has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
