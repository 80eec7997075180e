"""Meeting a commit point of a batch: stop somebody, look, and say what was seen.

A point is made, not hit. ``written``: the driver is let run only now and then while the batch runs (:class:`Crawl`), or
it would commit before anybody has seen the rows, and is looked at while it stands still (SIGSTOP); executors finish
and write, and nobody can take note of it. ``half-written``: so it is done to one executor, and others write first.
``planned`` and ``no-data``: the driver is stopped as soon as the batch is planned. Then comes the look, at checkpoint,
ledger and end offsets, and only if it shows what is wanted, the strike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tidemark.errors import DeadlineExceeded
from tidemark.faults.schedule import NO_DATA, Strike
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import Scene
from tidemark.waiting import pause, wait_until

BATCH_S = 120.0
"""Calibration: a batch takes about 1 s, with an executor that has to be replaced 30 s."""

LATE_S = 15.0
"""Calibration: partitions of a batch write within 1 s of one another, where somebody crawls within several; one without
rows never writes."""

FINISH_S = 3.0
"""Calibration: executors finish a batch's tasks within 1 s, if they do not need the driver any more."""

STILL_S = 0.3
"""Calibration: a task that a stopped driver had sent off already writes its first row within 0.1 s."""

RUNS_S, STANDS_S = 0.01, 0.04
"""Calibration: tasks that start together are done within 20 ms of one another; at a fifth of its speed one takes some
hundred milliseconds longer than another."""

LOOK_S = 0.002
"""Calibration: the end offsets cost a broker a fraction of a millisecond."""

STEP_S = 0.03
"""Calibration: as often as that it is looked whether anything moves that should stand still."""

Ends = dict[int, int]
Unless = Callable[[], object]


class Running(NamedTuple):
    """A batch that was seen running, and the end offsets of the output just before it was planned.

    ``ends`` is ``None`` if nobody looked then: it cannot be shown that nothing of the batch has come out.
    """

    batch: int
    ends: Ends | None


class Crawl:
    """Lets somebody run for a moment at a time. They run at first."""

    def __init__(self, stop: Callable[[], object], go_on: Callable[[], object]) -> None:
        self._stop = stop
        self._go_on = go_on
        self._stands = False

    def creep(self) -> None:
        """Let them run for a moment, and stand still again."""
        self.go_on()
        pause(RUNS_S)
        self.stop()

    def stop(self) -> None:
        """Have them stand still."""
        if not self._stands:
            self._stop()
            self._stands = True

    def go_on(self) -> None:
        """Let them run."""
        if self._stands:
            self._go_on()
            self._stands = False


@contextmanager
def going_on_after_an_error(go_on: Callable[[], object]) -> Iterator[None]:
    """For who has been stopped already: an error in the block lets them go on before it is passed on."""
    try:
        yield
    except BaseException:
        go_on()
        raise


def runs(scene: Scene, point: str, batch: int) -> Proof | None:
    """With the driver stopped: whether the batch runs, and reads something (``planned``) or nothing (``no-data``)."""
    if point == NO_DATA:
        return no_data(scene, batch)
    if scene.checkpoint.running() != batch or not scene.carries_data(batch):
        return None
    return scene.output.seen()


@contextmanager
def held_while_running(scene: Scene, strike: Strike, batch: int, unless: Unless) -> Iterator[Proof | None]:
    """After the strike's delay, the driver held for the length of the block; gives what :func:`runs` says."""
    unless()
    scene.rest(strike.delay_s)
    unless()
    with scene.stack.suspended(scene.driver):
        yield runs(scene, strike.sort.point, batch)


def planned(scene: Scene, now: Running) -> Proof | None:
    """With the driver stopped: whether a batch with data runs, and nothing of it has come out."""
    if now.ends is None:
        return None
    if scene.checkpoint.running() != now.batch or not scene.carries_data(now.batch):
        return None
    deadline = time.monotonic() + STILL_S
    while time.monotonic() < deadline:
        if scene.checkpoint.running() != now.batch or scene.output.ends() != now.ends:
            return None
        pause(STEP_S)
    return scene.output.seen()


def no_data(scene: Scene, batch: int) -> Proof | None:
    """With the driver stopped: whether a batch runs that reads nothing."""
    if scene.checkpoint.running() != batch or scene.carries_data(batch):
        return None
    offsets = scene.checkpoint.batch(batch).end_offsets
    return {"end_offsets": offsets, **scene.output.seen()}


def written(scene: Scene, batch: int) -> Proof | None:
    """With the driver stopped: whether all is written and nothing committed. It waits for executors to finish."""
    return _seen(scene, batch, scene.output.written)


def half_written(scene: Scene, batch: int) -> Proof | None:
    """With an executor stopped: whether some partitions have written and the others stand still."""
    return _seen(scene, batch, scene.output.half_written)


def _seen(scene: Scene, batch: int, look: Callable[[int], Proof | None]) -> Proof | None:
    if scene.checkpoint.running() != batch:
        return None
    try:
        proof = wait_until(lambda: look(batch), FINISH_S, lambda: "what was written of a batch", poll_s=0.02)
    except DeadlineExceeded:
        return None
    return proof if scene.checkpoint.running() == batch else None


def crawls_until(
    scene: Scene, now: Running, crawl: Crawl, look: Callable[[], Proof | None], unless: Unless
) -> Proof | None:
    """Let somebody crawl, and look each time that rows have come; they stand still if what is wanted is seen.

    ``None``, and they go on, if the batch was over before, or nothing came any more; they go on after an error, too.
    """
    within = BATCH_S
    with going_on_after_an_error(crawl.go_on):
        while _moves(scene, now, crawl, unless, within):
            now, within = now._replace(ends=scene.output.ends()), LATE_S
            if proof := look():
                return proof
    crawl.go_on()
    return None


def _moves(scene: Scene, now: Running, crawl: Crawl, unless: Unless, within: float) -> bool:
    """Let somebody crawl until the output's ends are others than ``now`` says; false if the batch was over before.

    Looked at while they stand, however long a look takes on a busy machine: between two of them they run for a moment.
    """
    over = False

    def moved() -> bool:
        nonlocal over
        crawl.creep()
        turn_ends = time.monotonic() + STANDS_S
        while True:
            over = scene.checkpoint.running() != now.batch
            if over or scene.output.ends() != now.ends:
                return True
            if time.monotonic() >= turn_ends:
                return False
            pause(LOOK_S)

    try:
        wait_until(moved, within, lambda: "rows", unless=unless, poll_s=0.0)
    except DeadlineExceeded:
        return False
    return not over
