"""Killing or pausing an executor while a batch runs, or with a batch half written.

Pauses first (SIGSTOP loses nothing), looks whether the batch is still where it shall be, and only then strikes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from tidemark.chaos import points
from tidemark.chaos.outputs import Proof
from tidemark.chaos.points import Running, Unless
from tidemark.chaos.scene import Scene, hit
from tidemark.chaos.strikes import HALF_WRITTEN, NO_DATA, Strike
from tidemark.evidence import Fault
from tidemark.stack import Executor
from tidemark.wait import pause


def strike_executor(
    scene: Scene, strike: Strike, now: Running, *, rng: random.Random, unless: Unless
) -> Fault | None:
    """Strike one of the executors; ``None`` if the batch was over by then, or there was none to strike."""
    if strike.sort.point == HALF_WRITTEN:
        stopped = stop_half_written(scene, now, rng=rng, unless=unless)
    else:
        pause(strike.delay_s)
        stopped = _stop_running(scene, strike.sort.point, now.batch, rng)
    if stopped is None:
        return None
    victim, proof = stopped
    who = {"executor_id": victim.executor_id, "worker": victim.worker, "pid": victim.pid}
    fault = hit(scene, strike, now.batch, {**who, **proof})
    if fault.proof["committed"]:  # by the others, just now: it had done its share
        scene.stack.resume_executor(scene.driver, victim.executor_id)
        return None
    if strike.sort.action == "kill":
        scene.stack.kill_executor(scene.driver, victim.executor_id)
    else:
        pause(strike.sort.seconds)
        scene.stack.resume_executor(scene.driver, victim.executor_id)
    return fault


def stop_half_written(
    scene: Scene, now: Running, *, rng: random.Random, unless: Unless
) -> tuple[Executor, Proof] | None:
    """As soon as rows come, stop one executor; it stays stopped if others have written and it has not.

    ``None``, and it goes on, if all or none of the partitions turn out to be written.
    """
    alive = scene.stack.executors(scene.driver)
    if not alive or not points.is_writing(scene, now, unless):
        return None
    return _stop_one(scene, rng.choice(alive), lambda: points.half_written(scene, now.batch))


def _stop_running(scene: Scene, point: str, batch: int, rng: random.Random) -> tuple[Executor, Proof] | None:
    """Stop an executor while the batch runs; it stays stopped if it still does."""
    alive = scene.stack.executors(scene.driver)
    if not alive or (point == NO_DATA and scene.carries_data(batch)):
        return None
    return _stop_one(scene, rng.choice(alive), lambda: {} if scene.checkpoint.running() == batch else None)


def _stop_one(
    scene: Scene, victim: Executor, look: Callable[[], Proof | None]
) -> tuple[Executor, Proof] | None:
    proof = points.stop_and_look(
        partial(scene.stack.pause_executor, scene.driver, victim.executor_id),
        look,
        partial(scene.stack.resume_executor, scene.driver, victim.executor_id),
    )
    return None if proof is None else (victim, proof)
