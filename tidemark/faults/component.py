"""Killing or pausing what a query runs on: broker, worker, master. They are started again after the outage.

The driver is held while it is looked where the batch is, so that the part is gone in the middle of it; with the batch
half written an executor is, too, whose partitions then cannot be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tidemark.faults import commit_points
from tidemark.faults.commit_points import Running, Unless
from tidemark.faults.driver import stop_driver
from tidemark.faults.executor import stop_half_written
from tidemark.faults.schedule import HALF_WRITTEN, WRITTEN, Strike
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import Scene, hit
from tidemark.formats.evidence import Fault
from tidemark.stack import ComponentKind


def strike_part(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Strike one of the parts of that kind; ``None`` if the batch was past its point by then."""
    sort = strike.sort
    victim = strike.choose(scene.stack.components(ComponentKind(sort.component)))
    with ExitStack() as afterwards:
        with _held(scene, strike, now, unless=unless) as proof:
            if proof is None:
                return None
            fault = hit(scene, strike, now.batch, {"part": victim, **proof})
            (scene.stack.kill if sort.action == "kill" else scene.stack.pause)(victim)
            afterwards.callback(scene.stack.start if sort.action == "kill" else scene.stack.resume, victim)
        scene.rest(sort.seconds)
    return fault


@contextmanager
def _held(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Iterator[Proof | None]:
    """Hold the batch at its point for the length of the block; gives what was seen, ``None`` if it is not there."""
    if strike.sort.point == HALF_WRITTEN:
        stopped = stop_half_written(scene, strike, now, unless=unless)
        if stopped is None:
            yield None
            return
        executor, proof = stopped
        try:
            with scene.stack.suspended(scene.driver):
                # It may be over: the others have written, and the partitions of who is held had no rows.
                runs = scene.checkpoint.running() == now.batch
                yield {"executor_id": executor.executor_id, **proof} if runs else None
        finally:
            scene.stack.resume_executor(scene.driver, executor)
    elif strike.sort.point == WRITTEN:
        written = stop_driver(scene, strike.sort.point, now, unless=unless)
        try:
            yield written
        finally:
            if written is not None:
                scene.stack.resume(scene.driver)
    else:
        with commit_points.held_while_running(scene, strike, now.batch, unless) as found:
            yield found
