"""Killing or pausing one executor, or killing all of them, while a batch runs or with a batch half written.

Stops first (SIGSTOP loses nothing), looks whether the batch is still where it shall be, and only then strikes: always
the driver, which cannot commit, and for half-written the executor before, whose partitions then cannot be written.
"""

from __future__ import annotations

from functools import partial

from tidemark.faults import commit_points
from tidemark.faults.commit_points import Running, Unless
from tidemark.faults.schedule import HALF_WRITTEN, Strike
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import Scene, hit
from tidemark.formats.evidence import Fault
from tidemark.stack import Executor


def strike_executor(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Strike one of the executors; ``None`` if the batch was over by then, or there was none to strike."""
    if strike.sort.point == HALF_WRITTEN:
        struck = _strike_half_written(scene, strike, now, unless=unless)
    else:
        struck = _strike_running(scene, strike, now.batch, unless=unless)
    if struck is None:
        return None
    victim, fault = struck
    if strike.sort.action == "pause":
        try:
            scene.rest(strike.sort.seconds)
        finally:
            scene.stack.resume_executor(scene.driver, victim)
    return fault


def strike_executors(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Kill all of them at once; ``None`` if the batch was over by then."""
    with commit_points.held_while_running(scene, strike, now.batch, unless) as proof:
        alive = scene.stack.executors(scene.driver)
        if not alive or proof is None:
            return None
        who = [executor.executor_id for executor in alive]
        fault = hit(scene, strike, now.batch, {"executor_ids": who, **proof})
        for executor in alive:
            scene.stack.kill_executor(scene.driver, executor)
    return fault


def stop_half_written(
    scene: Scene, strike: Strike, now: Running, *, unless: Unless
) -> tuple[Executor, Proof] | None:
    """Let one executor crawl; it stands still as soon as others have written and it has not.

    ``None``, and it goes on, if the batch was over without that. It may have had none of them: a
    join's tasks go where their state is, which after an executor's death is all with the other.
    """
    alive = scene.stack.executors(scene.driver)
    if not alive:
        return None
    victim = strike.choose(alive)
    crawl = commit_points.Crawl(
        partial(scene.stack.pause_executor, scene.driver, victim),
        partial(scene.stack.resume_executor, scene.driver, victim),
    )
    proof = commit_points.crawls_until(
        scene, now, crawl, partial(commit_points.half_written, scene, now.batch), unless
    )
    return None if proof is None else (victim, proof)


def _strike_half_written(
    scene: Scene, strike: Strike, now: Running, *, unless: Unless
) -> tuple[Executor, Fault] | None:
    """Kill an executor that stands still with the batch half written, or leave it so."""
    stopped = stop_half_written(scene, strike, now, unless=unless)
    if stopped is None:
        return None
    victim, proof = stopped
    goes_on = partial(scene.stack.resume_executor, scene.driver, victim)
    with commit_points.going_on_after_an_error(goes_on), scene.stack.suspended(scene.driver):
        fault = _hit_one(scene, strike, now.batch, victim, proof)
        is_over = fault.proof["committed"]  # by the others, just now: its partitions had no rows
        if strike.sort.action == "kill" and not is_over:
            scene.stack.kill_executor(scene.driver, victim)
    if is_over:
        goes_on()
        return None
    return victim, fault


def _strike_running(
    scene: Scene, strike: Strike, batch: int, *, unless: Unless
) -> tuple[Executor, Fault] | None:
    """Kill or stop an executor while the driver stands still in the middle of the batch."""
    with commit_points.held_while_running(scene, strike, batch, unless) as proof:
        alive = scene.stack.executors(scene.driver)
        if not alive or proof is None:
            return None
        victim = strike.choose(alive)
        fault = _hit_one(scene, strike, batch, victim, proof)
        strike_one = scene.stack.kill_executor if strike.sort.action == "kill" else scene.stack.pause_executor
        strike_one(scene.driver, victim)
    return victim, fault


def _hit_one(scene: Scene, strike: Strike, batch: int, victim: Executor, proof: Proof) -> Fault:
    who = {"executor_id": victim.executor_id, "worker": victim.worker, "pid": victim.pid}
    return hit(scene, strike, batch, {**who, **proof})
