"""Killing or pausing an executor while a batch runs, or with a batch half written.

Stops first (SIGSTOP loses nothing), looks whether the batch is still where it shall be, and only then strikes: for
half-written stops the executor itself, whose partitions then cannot be written; else the driver, which cannot commit.
"""

from __future__ import annotations

from functools import partial

from tidemark.chaos import points
from tidemark.chaos.outputs import Proof
from tidemark.chaos.points import Running, Unless
from tidemark.chaos.scene import Scene, hit
from tidemark.chaos.strikes import HALF_WRITTEN, Strike
from tidemark.evidence import Fault
from tidemark.stack import Executor


def strike_executor(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Strike one of the executors; ``None`` if the batch was over by then, or there was none to strike."""
    if strike.sort.point == HALF_WRITTEN:
        stopped = stop_half_written(scene, strike, now, unless=unless)
        if stopped is None:
            return None
        victim, proof = stopped
        goes_on = partial(scene.stack.resume_executor, scene.driver, victim)
        with points.going_on_after_an_error(goes_on):
            fault = _hit_one(scene, strike, now.batch, victim, proof)
        if fault.proof["committed"]:  # by the others, just now: its partitions had no rows
            goes_on()
            return None
        if strike.sort.action == "kill":
            scene.stack.kill_executor(scene.driver, victim)
    else:
        unless()
        scene.rest(strike.delay_s)
        struck = _strike_running(scene, strike, now.batch)
        if struck is None:
            return None
        victim, fault = struck
    if strike.sort.action == "pause":
        try:
            scene.rest(strike.sort.seconds)
        finally:
            scene.stack.resume_executor(scene.driver, victim)
    return fault


def stop_half_written(
    scene: Scene, strike: Strike, now: Running, *, unless: Unless
) -> tuple[Executor, Proof] | None:
    """Let one executor crawl, stop it as soon as rows come; it stays so if others have written and it has not.

    ``None``, and it goes on, if all or none of the partitions turn out to be written. It may have had none of them: a
    join's tasks go where their state is, which after an executor's death is all with the other.
    """
    alive = scene.stack.executors(scene.driver)
    if not alive:
        return None
    victim = strike.choose(alive)
    crawl = points.Crawl(
        partial(scene.stack.pause_executor, scene.driver, victim),
        partial(scene.stack.resume_executor, scene.driver, victim),
    )

    def step() -> None:
        unless()
        crawl.step()

    with points.going_on_after_an_error(crawl.go_on):
        if not points.is_writing(scene, now, step):
            crawl.go_on()
            return None
    proof = points.stop_and_look(crawl.stop, partial(points.half_written, scene, now.batch), crawl.go_on)
    return None if proof is None else (victim, proof)


def _strike_running(scene: Scene, strike: Strike, batch: int) -> tuple[Executor, Fault] | None:
    """Kill or stop an executor while the driver stands still in the middle of the batch."""
    with scene.stack.hold(scene.driver):
        alive = scene.stack.executors(scene.driver)
        proof = points.runs(scene, strike.sort.point, batch)
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
