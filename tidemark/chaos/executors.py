"""Killing an executor while a batch runs.

Pauses first (SIGSTOP loses nothing), looks whether the batch is still running, and only then kills.
"""

from __future__ import annotations

import random

from tidemark.chaos.scene import Scene, now_utc
from tidemark.chaos.strikes import KILL_EXECUTOR
from tidemark.evidence import Fault


def kill_executor(scene: Scene, batch: int, rng: random.Random) -> Fault | None:
    """Kill one of the executors; ``None`` if the batch was over by then, or there was none to kill."""
    alive = scene.stack.executors(scene.driver)
    if not alive:
        return None
    victim = rng.choice(alive)
    scene.stack.pause_executor(scene.driver, victim.executor_id)
    if scene.checkpoint.running() != batch:
        scene.stack.resume_executor(scene.driver, victim.executor_id)
        return None
    scene.stack.kill_executor(scene.driver, victim.executor_id)
    return Fault(
        fault=KILL_EXECUTOR,
        at_utc=now_utc(),
        done=True,
        batch=batch,
        point=_point(scene, batch),
        proof={
            "executor_id": victim.executor_id,
            "worker": victim.worker,
            "pid": victim.pid,
            "planned": True,
            "committed": batch in scene.checkpoint.committed(),
        },
    )


def _point(scene: Scene, batch: int) -> str:
    now = scene.checkpoint.batch(batch).end_offsets
    before = scene.checkpoint.batch(batch - 1).end_offsets if batch else {}
    return "no-data" if now == before else "planned"
