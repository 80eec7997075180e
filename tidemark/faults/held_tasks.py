"""Tasks of the exactly-once sink that are held at a step: fenced, looked up, begun, committed.

Nobody else can see a task there: Kafka knows of none of these steps, or takes it for done. So the task itself waits and
says so (``tidemark.sink.task.held_steps``). Of one that says that it has committed the ledger has to have the entry.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidemark.errors import DeadlineExceeded
from tidemark.faults.commit_points import BATCH_S, FINISH_S, Unless
from tidemark.faults.sink_progress import Proof
from tidemark.faults.target import FaultTarget
from tidemark.formats.faults import CommitPoint
from tidemark.sink.task.held_steps import StepRequest
from tidemark.stack import SINK_STEPS_FOLDER
from tidemark.waiting import pause, wait_until

_STEPS = {
    CommitPoint.FENCED: "initialised",
    CommitPoint.LOOKED_UP: "looked-up",
    CommitPoint.BEGUN: "begun",
    CommitPoint.PARTITION_WRITTEN: "committed",
}
"""What the sink calls these steps."""
POLL_S = 0.005


@contextmanager
def held_task(
    target: FaultTarget, point: CommitPoint, batch: int, unless: Unless
) -> Iterator[dict[str, Any] | None]:
    """The first task of a batch that comes to a step, held there for the length of the block.

    Gives its ``partition``, ``attempt`` and ``executor_id``; ``None`` if the batch was over without one.
    """
    folder = target.stack.work_dir(SINK_STEPS_FOLDER)
    request = StepRequest(folder, target.checkpoint.query_id(), batch, _STEPS[point])
    request.make()

    def held() -> dict[str, Any] | bool | None:
        return request.held_task() or target.checkpoint.running() != batch

    try:
        try:
            found = wait_until(held, BATCH_S, lambda: f"a task at {point}", unless=unless, poll_s=POLL_S)
        except DeadlineExceeded:
            found = None
        yield found if isinstance(found, dict) else None
    finally:
        request.withdraw()


def at_step(target: FaultTarget, point: CommitPoint, batch: int, held: dict[str, Any]) -> Proof | None:
    """With its executor stopped: what is known of a held task; ``None`` if its batch is over, or not written."""
    progress = target.progress.snapshot()
    if point is CommitPoint.PARTITION_WRITTEN:
        entry, stop_s = str(held["partition"]), time.monotonic() + FINISH_S
        while (
            progress["ledger"].get(entry) != batch + 1
        ):  # an entry is there some milliseconds after its commit
            if time.monotonic() >= stop_s:
                return None
            pause(POLL_S)
            progress = target.progress.snapshot()
    return {"held": held, **progress} if target.checkpoint.running() == batch else None
