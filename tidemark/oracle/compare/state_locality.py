"""Where the state was: whether a state partition stayed on its executor from one batch to the next.

Free of I/O and of any judgement: Spark prefers the executor that has a partition's state in memory, and promises
nothing. Only batches in a row that the evidence has both of are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from tidemark.formats.evidence import ExecutorAssignment


class Locality(msgspec.Struct, kw_only=True):
    """``stayed`` and ``moved`` count partitions over all batches; ``moves`` tells of each that moved.

    Partitions that a driver's next run placed anew are in neither; ``restarts`` tells of them.
    """

    stayed: int = 0
    moved: int = 0
    moves: list[str] = []
    restarts: list[str] = []


def locality(executor_assignments: Sequence[ExecutorAssignment]) -> Locality:
    """Follow the partitions from batch to batch."""
    found, lost = Locality(), set[str]()
    for before, after in pairwise(
        sorted(executor_assignments, key=lambda executor_assignment: executor_assignment.batch)
    ):
        lost.update(before.lost)
        if after.batch != before.batch + 1:
            continue
        gone = lost.union(after.lost)
        anew = []
        for partition, executor in sorted(after.executors.items(), key=lambda one: int(one[0])):
            earlier = before.executors.get(partition)
            if earlier == executor:
                found.stayed += 1
            elif earlier is not None and _run(earlier) != _run(executor):
                anew.append(f"{partition} on executor {executor}")
            elif earlier is not None:
                found.moved += 1
                why = f", executor {earlier} was gone" if earlier in gone else ""
                found.moves.append(
                    f"batch {after.batch}: {partition} from executor {earlier} to {executor}{why}"
                )
        if anew:
            found.restarts.append(f"batch {after.batch}: {', '.join(anew)}")
    return found


def _run(executor: str) -> str:
    """The driver's run that an executor is of."""
    return executor.rpartition(":")[0]
