"""Killing or pausing a driver at a commit point of a batch."""

from __future__ import annotations

from functools import partial

from tidemark.chaos import points
from tidemark.chaos.executors import stop_half_written
from tidemark.chaos.outputs import Proof
from tidemark.chaos.points import Running, Unless
from tidemark.chaos.scene import Scene, hit
from tidemark.chaos.strikes import HALF_WRITTEN, NO_DATA, PLANNED, WRITTEN, Strike
from tidemark.evidence import Fault
from tidemark.wait import pause


def strike_driver(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Strike the driver; ``None`` if the batch had passed the point, or never reached it.

    ``unless`` raises what ends the wait for its rows.
    """
    if strike.sort.point == HALF_WRITTEN:
        return _kill_half_written(scene, strike, now, unless=unless)
    if strike.sort.point == WRITTEN and not points.is_writing(scene, now, unless):
        return None
    app_id = scene.stack.driver(scene.driver).app_id
    proof = _stop_and_look(scene, strike.sort.point, now)
    if proof is None:
        return None
    fault = hit(scene, strike, now.batch, {"app_id": app_id, **proof})
    if strike.sort.action == "kill":
        scene.stack.kill(scene.driver)
    else:
        try:
            scene.rest(strike.sort.seconds)
        finally:
            scene.stack.resume(scene.driver)
    return fault


def _stop_and_look(scene: Scene, point: str, now: Running) -> Proof | None:
    """Stop the driver and look; if tasks still need it, let it go on for a moment, and again.

    It stays stopped if what is wanted is seen, and goes on otherwise.
    """
    for _ in range(points.STEPS if point == WRITTEN else 1):
        proof = points.stop_and_look(
            partial(scene.stack.pause, scene.driver),
            partial(_look, scene, point, now),
            partial(scene.stack.resume, scene.driver),
        )
        if proof is not None:
            return proof
        pause(points.STEP_S)
        if scene.checkpoint.running() != now.batch:
            return None
    return None


def _look(scene: Scene, point: str, now: Running) -> Proof | None:
    if point == PLANNED:
        return points.planned(scene, now)
    if point == NO_DATA:
        return points.no_data(scene, now.batch)
    return points.written(scene, now.batch)


def _kill_half_written(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Kill the driver, and the executor whose partitions have not written: left alone it would write them yet."""
    app_id = scene.stack.driver(scene.driver).app_id
    stopped = stop_half_written(scene, strike, now, unless=unless)
    if stopped is None:
        return None
    victim, _ = stopped
    executor_goes_on = partial(scene.stack.resume_executor, scene.driver, victim)
    with points.going_on_after_an_error(executor_goes_on):
        proof = points.stop_and_look(
            partial(scene.stack.pause, scene.driver),
            partial(points.half_written, scene, now.batch),
            partial(scene.stack.resume, scene.driver),
        )
    if proof is None:
        executor_goes_on()
        return None
    seen = {"app_id": app_id, "executor_id": victim.executor_id, **proof}
    fault = hit(scene, strike, now.batch, seen)
    scene.stack.kill_executor(scene.driver, victim)
    scene.stack.kill(scene.driver)
    return fault
