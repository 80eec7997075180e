"""Killing or pausing a driver at a commit point of a batch."""

from __future__ import annotations

import random

from tidemark.chaos import points
from tidemark.chaos.executors import stop_half_written
from tidemark.chaos.outputs import Proof
from tidemark.chaos.points import Ends, Unless
from tidemark.chaos.scene import Scene, hit
from tidemark.chaos.strikes import HALF_WRITTEN, NO_DATA, PLANNED, WRITTEN, Strike
from tidemark.evidence import Fault
from tidemark.wait import pause


def strike_driver(
    scene: Scene, strike: Strike, batch: int, ends: Ends, *, rng: random.Random, unless: Unless
) -> Fault | None:
    """Strike the driver; ``None`` if the batch had passed the point, or never reached it.

    ``ends`` are the end offsets of the output before the batch wrote anything. ``unless`` raises what ends the wait for
    its rows.
    """
    if strike.sort.point == HALF_WRITTEN:
        return _kill_half_written(scene, strike, batch, ends, rng=rng, unless=unless)
    if strike.sort.point == WRITTEN and not points.is_writing(scene, batch, ends, unless):
        return None
    app_id = scene.stack.driver(scene.driver).app_id
    proof = _stop_and_look(scene, strike.sort.point, batch, ends)
    if proof is None:
        return None
    if strike.sort.action == "kill":
        scene.stack.kill(scene.driver)
    else:
        pause(strike.sort.seconds)
        scene.stack.resume(scene.driver)
    return hit(scene, strike, batch, {"app_id": app_id, **proof})


def _stop_and_look(scene: Scene, point: str, batch: int, ends: Ends) -> Proof | None:
    """Stop the driver and look; if tasks still need it, let it go on for a moment, and again.

    It stays stopped if what is wanted is seen, and goes on otherwise.
    """
    for _ in range(points.STEPS if point == WRITTEN else 1):
        proof: Proof | None = None
        scene.stack.pause(scene.driver)
        try:
            proof = _look(scene, point, batch, ends)
        finally:
            if proof is None:
                scene.stack.resume(scene.driver)
        if proof is not None:
            return proof
        pause(points.STEP_S)
        if scene.checkpoint.running() != batch:
            return None
    return None


def _look(scene: Scene, point: str, batch: int, ends: Ends) -> Proof | None:
    if point == PLANNED:
        return points.planned(scene, batch, ends)
    if point == NO_DATA:
        return points.no_data(scene, batch)
    return points.written(scene, batch)


def _kill_half_written(
    scene: Scene, strike: Strike, batch: int, ends: Ends, *, rng: random.Random, unless: Unless
) -> Fault | None:
    """Kill the driver, and the executor whose partitions have not written: left alone it would write them yet."""
    app_id = scene.stack.driver(scene.driver).app_id
    stopped = stop_half_written(scene, batch, ends, rng=rng, unless=unless)
    if stopped is None:
        return None
    victim, _ = stopped
    proof: Proof | None = None
    scene.stack.pause(scene.driver)
    try:
        proof = points.half_written(scene, batch)
    finally:
        if proof is None:
            scene.stack.resume(scene.driver)
            scene.stack.resume_executor(scene.driver, victim.executor_id)
    if proof is None:
        return None
    scene.stack.kill_executor(scene.driver, victim.executor_id)
    scene.stack.kill(scene.driver)
    seen = {"app_id": app_id, "executor_id": victim.executor_id, **proof}
    return hit(scene, strike, batch, seen)
