"""Killing or pausing what a query runs on: broker, worker, master. They are started again after the outage.

The driver is held while it is looked whether the batch runs, so that the part is gone in the middle of it.
"""

from __future__ import annotations

from tidemark.chaos import points
from tidemark.chaos.points import Running, Unless
from tidemark.chaos.scene import Scene, hit
from tidemark.chaos.strikes import Strike
from tidemark.evidence import Fault


def strike_part(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Strike one of the parts of that kind; ``None`` if the batch was over by then."""
    unless()
    sort = strike.sort
    scene.rest(strike.delay_s)
    victim = strike.choose([name for name in scene.stack.parts() if name.partition("-")[0] == sort.part])
    with scene.stack.hold(scene.driver):
        proof = points.runs(scene, sort.point, now.batch)
        if proof is None:
            return None
        fault = hit(scene, strike, now.batch, {"part": victim, **proof})
        (scene.stack.kill if sort.action == "kill" else scene.stack.pause)(victim)
    try:
        scene.rest(sort.seconds)
    finally:
        (scene.stack.start if sort.action == "kill" else scene.stack.resume)(victim)
    return fault
