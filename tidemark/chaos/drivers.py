"""Killing a driver at the commit point ``written``: every sink partition has written its part of the batch, and Spark
does not know yet that the batch is done.

The moment is made, not hit: as soon as rows of the batch reach the output the driver is stopped (SIGSTOP). Executors
finish and write; nobody can take note of it. Then comes the look, and if it shows what is wanted, SIGKILL. Otherwise
the driver goes on for a moment, in case a task needs it, and is stopped again; at last the next batch is tried.
"""

from __future__ import annotations

from collections.abc import Callable

from tidemark.chaos.outputs import Proof
from tidemark.chaos.scene import Scene, now_utc
from tidemark.chaos.strikes import KILL_DRIVER
from tidemark.errors import DeadlineExceeded
from tidemark.evidence import Fault
from tidemark.wait import pause, wait_until

BATCH_S = 120.0
"""Calibration: a batch takes about 1 s, with an executor that has to be replaced 30 s."""

FINISH_S = 3.0
"""Calibration: executors finish a batch's tasks within 1 s, if they do not need the driver any more."""

STEPS = 4
"""A partition without rows never writes, and cannot be told from one that is late."""

STEP_S = 0.03
"""Calibration: a driver answers a task in some milliseconds; from the last task to the commit it takes longer."""


def kill_driver(
    scene: Scene, batch: int, ends: dict[int, int], *, unless: Callable[[], object]
) -> Fault | None:
    """Kill the driver at ``written``; ``None`` if the batch had passed it, or never reached it.

    ``ends`` are the end offsets of the output before the batch wrote anything. ``unless`` raises what ends the wait for
    its rows.
    """
    if not _is_writing(scene, batch, ends, unless):
        return None
    app_id = scene.stack.driver(scene.driver).app_id
    proof = _stop_and_look(scene, batch)
    if proof is None:
        return None
    scene.stack.kill(scene.driver)
    seen = {"app_id": app_id, "planned": True, "committed": batch in scene.checkpoint.committed(), **proof}
    return Fault(fault=KILL_DRIVER, at_utc=now_utc(), done=True, batch=batch, point="written", proof=seen)


def _stop_and_look(scene: Scene, batch: int) -> Proof | None:
    """Stop the driver and look; if tasks still need it, let it go on for a moment, and again.

    It stays stopped if all is written, and goes on otherwise.
    """
    for _ in range(STEPS):
        proof: Proof | None = None
        scene.stack.pause(scene.driver)
        try:
            proof = _look(scene, batch)
        finally:
            if proof is None:
                scene.stack.resume(scene.driver)
        if proof is not None:
            return proof
        pause(STEP_S)
        if scene.checkpoint.running() != batch:
            return None
    return None


def _is_writing(scene: Scene, batch: int, ends: dict[int, int], unless: Callable[[], object]) -> bool:
    """Wait until rows of the batch have reached the output; False if it was over before that was seen."""
    running = True

    def moved() -> bool:
        nonlocal running
        running = scene.checkpoint.running() == batch
        return not running or scene.output.ends() != ends

    wait_until(moved, BATCH_S, lambda: f"rows of batch {batch} in the output", unless=unless, poll_s=0.001)
    return running


def _look(scene: Scene, batch: int) -> Proof | None:
    """With the driver stopped: whether all is written and nothing committed."""
    if scene.checkpoint.running() != batch:
        return None
    try:
        return wait_until(
            lambda: scene.output.written(batch), FINISH_S, lambda: "all rows of a batch", poll_s=0.02
        )
    except DeadlineExceeded:
        return None
