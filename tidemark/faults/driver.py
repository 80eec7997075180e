"""Killing or pausing a driver at a commit point of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from tidemark.errors import TidemarkError
from tidemark.faults import commit_points
from tidemark.faults.commit_points import Running, Unless
from tidemark.faults.executor import stop_half_written
from tidemark.faults.schedule import HALF_WRITTEN, PLANNED, WRITTEN, Strike
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import Scene, hit, now_utc, seen_of
from tidemark.formats.evidence import Fault
from tidemark.sparkfiles.eventlog import QueryEvents


def strike_driver(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Strike the driver; ``None`` if the batch had passed the point, or never reached it.

    ``unless`` raises what ends the wait for its rows.
    """
    if strike.sort.point == HALF_WRITTEN:
        return _kill_half_written(scene, strike, now, unless=unless)
    proof = stop_driver(scene, strike.sort.point, now, unless=unless)
    if proof is None:
        return None
    fault = hit(scene, strike, now.batch, proof)
    if strike.sort.action == "kill":
        scene.stack.kill(scene.driver)
        return fault
    try:
        scene.rest(strike.sort.seconds)
    finally:
        scene.stack.resume(scene.driver)
    return fault


def runs_again(scene: Scene, fault: Fault) -> bool:
    """Whether the driver that came after the one that was killed runs the batch again: its event log has a job."""
    assert fault.batch is not None
    try:
        driver = scene.stack.driver(scene.driver)
    except TidemarkError:
        return False  # not there yet
    if driver.app_id == fault.proof["app_id"] or driver.event_log is None:
        return False
    return QueryEvents(driver.event_log, 0, scene.checkpoint.query_id()).job_started(fault.batch)


def kill_again(scene: Scene, fault: Fault, name: str) -> Fault | None:
    """Kill the driver that runs the batch again: the fault of that name that both are. ``None`` if it was faster."""
    batch = fault.batch
    assert batch is not None
    proof = _stop_and_look(
        scene, lambda: scene.output.seen() if scene.checkpoint.running() == batch else None
    )
    if proof is None:
        return None
    both = {**fault.proof, "again": seen_of(scene, batch, proof)}
    second = msgspec.structs.replace(fault, fault=name, at_utc=now_utc(), proof=both)
    scene.stack.kill(scene.driver)
    return second


def stop_driver(scene: Scene, point: str, now: Running, *, unless: Unless) -> Proof | None:
    """Stop the driver and look; it stays stopped if what is wanted is seen, and goes on otherwise.

    What was seen has its ``app_id``.
    """
    if point == WRITTEN:
        return _stop_written(scene, now, unless=unless)
    if point == PLANNED:
        return _stop_and_look(scene, lambda: commit_points.planned(scene, now))
    return _stop_and_look(scene, lambda: commit_points.no_data(scene, now.batch))


def _stop_written(scene: Scene, now: Running, *, unless: Unless) -> Proof | None:
    """Let the driver crawl, or else it commits before anybody has seen the rows, until all of them have come.

    Tasks may still need it after the first. A partition without rows never writes, and cannot be told from a late one.
    """
    crawl = commit_points.Crawl(
        partial(scene.stack.pause, scene.driver), partial(scene.stack.resume, scene.driver)
    )
    all_there = lambda: _named(scene, commit_points.written(scene, now.batch))  # noqa: E731
    return commit_points.crawls_until(scene, now, crawl, all_there, unless)


def _stop_and_look(scene: Scene, look: Callable[[], Proof | None]) -> Proof | None:
    """Stop the driver, and look. It stays so if what is wanted is seen, and goes on otherwise."""
    proof: Proof | None = None
    scene.stack.pause(scene.driver)
    try:
        proof = _named(scene, look())
    finally:
        if proof is None:
            scene.stack.resume(scene.driver)
    return proof


def _named(scene: Scene, proof: Proof | None) -> Proof | None:
    return None if proof is None else {"app_id": scene.stack.driver(scene.driver).app_id, **proof}


def _kill_half_written(scene: Scene, strike: Strike, now: Running, *, unless: Unless) -> Fault | None:
    """Kill the driver, and the executor whose partitions have not written: left alone it would write them yet."""
    stopped = stop_half_written(scene, strike, now, unless=unless)
    if stopped is None:
        return None
    victim, _ = stopped
    executor_goes_on = partial(scene.stack.resume_executor, scene.driver, victim)
    with commit_points.going_on_after_an_error(executor_goes_on):
        proof = _stop_and_look(scene, lambda: commit_points.half_written(scene, now.batch))
    if proof is None:
        executor_goes_on()
        return None
    fault = hit(scene, strike, now.batch, {"executor_id": victim.executor_id, **proof})
    scene.stack.kill_executor(scene.driver, victim)
    scene.stack.kill(scene.driver)
    return fault
