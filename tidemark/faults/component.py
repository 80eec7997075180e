"""Faults in what a query runs on: a broker, worker or master killed or paused, and back after the outage.

A broker may be chosen by its role: it leads a partition of the output, or coordinates the ledger of a sink partition.
Its outage lasts until another broker has the role, at least.

The driver is suspended while it is looked whether the batch is at its point, so that the component goes in the middle
of it; with the batch half written an executor is stopped, too, whose partitions then cannot be written; with a ledger
entry sent one, whose task then meets the fault with the request to commit it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from tidemark.errors import SinkFailed
from tidemark.faults import commit_points
from tidemark.faults.commit_points import RunningBatch, Unless
from tidemark.faults.driver import stop_driver
from tidemark.faults.executor import stop_executor_at_point
from tidemark.faults.schedule import PlannedFault
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import FaultTarget, now_utc
from tidemark.formats.faults import EXECUTOR_STOPPED, IN_ROLE, CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.stack import ComponentKind, Stack
from tidemark.waiting import wait_until

Effect = Callable[[str], object]

MOVE_S = 60.0
"""Calibration: a broker that is gone is noticed after 3 s (``broker.session.timeout.ms`` of a stack), and replaced in
less than another."""
MOVE_POLL_S = 0.1


def effects(stack: Stack, action: FaultAction) -> tuple[Effect, Effect]:
    """How an outage begins, and how it ends."""
    known: dict[FaultAction, tuple[Effect, Effect]] = {
        FaultAction.KILL: (stack.kill, stack.start),
        FaultAction.PAUSE: (stack.pause, stack.resume),
    }
    return known[action]


def inject_into_component(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Fault | None:
    """Inject a fault into one of the components of that kind; ``None`` if the batch had passed the point."""
    spec = fault.spec
    with ExitStack() as outage:
        with at_point(target, fault, now, unless=unless) as proof:
            if proof is None:
                return None
            victim = victim_of(target, fault, now.batch, proof)
            line = target.injected(fault, now.batch, {**victim, **proof})
            begin, end = effects(target.stack, spec.action)
            begin(victim["component_name"])
            outage.callback(end, victim["component_name"])
        await_move(target, line, now.batch, unless)
        target.rest(spec.duration_s)
        line.ended_at_utc = now_utc()
    return line


def victim_of(target: FaultTarget, fault: PlannedFault, batch: int, proof: Proof) -> Proof:
    """The name of the component that a fault hits; of a broker in a role also which it has.

    Where a proof says of which sink partitions a ledger entry is pending, a broker is the coordinator of one of them,
    which is asked to commit.
    """
    component = fault.spec.component
    kind = ComponentKind.BROKER if component in IN_ROLE else ComponentKind(component)
    names = target.stack.components(kind)
    if component not in IN_ROLE:
        asked = asked_to_commit(target, batch, proof) if component is FaultComponent.BROKER else []
        return {"component_name": fault.choose(asked or names)}
    brokers = target.progress.brokers(component, batch)
    pending = proof.get("pending") if component is FaultComponent.COORDINATOR else None
    partition, node = fault.choose(sorted((at, brokers[at]) for at in pending or brokers))
    return {"component_name": names[node - 1], "role": {"partition": partition, "node": node}}


def asked_to_commit(target: FaultTarget, batch: int, proof: Proof) -> list[str]:
    """The brokers that coordinate the ledger entries which a proof says are pending; none if there are none."""
    pending = proof.get("pending") or []
    if not pending:
        return []
    names = target.stack.components(ComponentKind.BROKER)
    nodes = target.progress.brokers(FaultComponent.COORDINATOR, batch)
    return sorted({names[nodes[at] - 1] for at in pending})


def await_move(target: FaultTarget, line: Fault, batch: int, unless: Unless) -> None:
    """Wait until another broker has the role of one that is out, if it was chosen by one, and note which."""
    role, begun_s = line.proof.get("role"), time.monotonic()
    if role is None:
        return

    def moved_to() -> int:
        node = 0
        with suppress(SinkFailed):  # no coordinator yet
            node = target.progress.brokers(line.component, batch)[role["partition"]]
        return node if node > 0 and node != role["node"] else 0

    what = f"another {line.component} of partition {role['partition']} than node {role['node']}"
    line.proof["moved_to"] = wait_until(moved_to, MOVE_S, lambda: what, unless=unless, poll_s=MOVE_POLL_S)
    line.proof["moved_after_s"] = round(time.monotonic() - begun_s, 2)


@contextmanager
def at_point(
    target: FaultTarget, fault: PlannedFault, now: RunningBatch, *, unless: Unless
) -> Iterator[Proof | None]:
    """The batch kept at its point for the length of the block; gives the proof, ``None`` if it is not there."""
    point = fault.spec.point
    if point in EXECUTOR_STOPPED:
        stopped = stop_executor_at_point(target, fault, now, unless=unless)
        if stopped is None:
            yield None
            return
        try:
            with target.stack.suspended(target.driver):
                # It may be over: the others have written, and the partitions of the stopped executor had no rows.
                runs = target.checkpoint.running() == now.batch
                yield {"executor_id": stopped.executor.executor_id, **stopped.proof} if runs else None
        finally:
            stopped.resume()
    elif point is CommitPoint.WRITTEN:
        written = stop_driver(target, point, now, unless=unless)
        try:
            yield written
        finally:
            if written is not None:
                target.stack.resume(target.driver)
    else:
        with commit_points.driver_suspended(target, fault, now.batch, unless) as proof:
            yield proof
