"""The stateful operators of a chain as Spark reports them: their names, and in which order.

Free of I/O. ``stateOperators`` of a progress report has them as the physical plan is walked from its root: an operator
before its inputs, the left input before the right one (``ProgressReporter.extractStateOperatorMetrics``).
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.formats import chain
from tidemark.oracle.model.chain_replay import Model
from tidemark.oracle.model.operators import Machine

JOIN = "symmetricHashJoin"
"""``operatorName`` of a join of two streams."""


def operator_name(step: chain.Step) -> str:
    """``operatorName`` of a step (``StateStoreWriter.shortName``)."""
    match step:
        case chain.Aggregate():
            return "stateStoreSave"
        case chain.Deduplicate():
            return "dedupeWithinWatermark" if step.within_watermark else "dedupe"
        case chain.Limit():
            return "globalLimit"
        case chain.Join():
            return JOIN
    raise ValueError(f"{type(step).__name__} has no state")


def reported_machines(model: Model) -> list[Machine]:
    """The machines with a state, in the order in which Spark reports them."""
    machines = iter(model.machines)

    def walk(step: chain.Step) -> Iterator[Machine]:
        if isinstance(step, chain.Source):
            return
        below = [list(walk(one)) for one in chain.inputs_of(step)]
        machine = next(machines)  # machines are in the order of their inputs first
        if machine.stateful:
            yield machine
        for some in below:
            yield from some

    return list(walk(model.chain.last))
