"""The states of the operators of a chain: what Spark kept after a batch, compared with what its own rules keep.

Free of I/O. A chain does not say what the query calls its columns, nor in which order they are, so keys and values are
compared whatever their order. Of a row of a join its key is compared, its time if one column of it is a time, and
``matched`` on the preserved sides, as in ``tidemark.oracle.compare.state_comparison``. What cannot be compared is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeVar

import msgspec

from tidemark.formats import chain
from tidemark.formats.events import write_time
from tidemark.formats.evidence import OperatorStateRow, StateRow
from tidemark.oracle.compare.chain_comparison import Predicted
from tidemark.oracle.compare.spark_account import SparkAccount
from tidemark.oracle.compare.state_comparison import NAMES
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.model.operators import StoredRow, in_order
from tidemark.oracle.model.reported_operators import JOIN
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT

T = TypeVar("T")

MOST_ORDERS = 16
"""In so many orders of the sides of joins states are compared at most."""

MATCHED = {True: "matched", False: "not matched"}

Place = tuple[int, bool]
"""An operator by its number in the chain, from its last step on, and whether the query has its sides exchanged."""


@dataclass
class ComparedStates:
    """What came of a comparison: what is wrong, what could not be compared, and the batches of which something was."""

    findings: list[Finding] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    batches: dict[int, None] = field(default_factory=dict)


def compare_states(
    history: ChainHistory,
    predicted: Predicted,
    state: Iterable[StateRow] | None,
    account: SparkAccount,
    finding_log: FindingLog,
) -> None:
    """Compare the states that were read; what is wrong goes into the finding log, and what was compared is noted.

    A query may have the sides of a join exchanged, which does not change its rows: the order is taken in which least is
    wrong.
    """
    info = history.manifest.state
    if state is None:
        why = f": {info.note}" if info is not None and info.note else ""
        account.notes.append(f"the state was not read{why}")
        return
    read: dict[int, list[OperatorStateRow]] = {batch: [] for batch in (info.batches if info else ())}
    for row in state:
        if isinstance(row, OperatorStateRow):
            read.setdefault(row.batch, []).append(row)
    committed = {batch.plan.batch for batch in history.batches if batch.plan.committed}
    batches = sorted(read.keys() & committed & predicted.states.keys())

    def compared(order: Sequence[Place]) -> ComparedStates:
        one = ComparedStates()
        for batch in batches:
            compare_batch(batch, read[batch], predicted.states[batch], one, order)
        return one

    best = in_best_order(
        predicted.model.chain.last, compared, lambda one: (not one.batches, len(one.findings))
    )
    for finding in best.findings:
        finding_log.add(finding)
    account.state_batches += best.batches
    account.notes += best.notes


def in_best_order(
    last: chain.Step, compare: Callable[[list[Place]], T], wrong: Callable[[T], tuple[int, ...]]
) -> T:
    """Of the comparisons in all orders of the operators the first with nothing wrong, or else that with least."""
    tried = list[T]()
    for order in orders_of(last):
        tried.append(compared := compare(order))
        if not any(wrong(compared)):
            break
    return min(tried, key=wrong)


def orders_of(last: chain.Step) -> list[list[Place]]:
    """In which orders a query may have the operators of a chain, that of the chain first."""

    def below(step: chain.Step, first: int) -> tuple[int, list[list[Place]]]:
        if isinstance(step, chain.Source):
            return 0, [[]]
        own = 0 if isinstance(step, chain.Window | chain.Where) else 1
        inputs, count = list[list[list[Place]]](), own
        for one in chain.inputs_of(step):
            more, orders = below(one, first + count)
            inputs.append(orders)
            count += more
        if len(inputs) == 1:
            return count, [[(first, False)] * own + order for order in inputs[0]]
        both = list(product(*inputs))
        straight = [[(first, False), *left, *right] for left, right in both]
        exchanged = [[(first, True), *right, *left] for left, right in both]
        return count, [*straight, *exchanged]

    return below(last, 0)[1][:MOST_ORDERS]


def compare_batch(
    batch: int,
    read: Sequence[OperatorStateRow],
    states: Sequence[tuple[str, list[StoredRow] | None]],
    compared: ComparedStates,
    order: Sequence[Place] = (),
) -> None:
    """Compare the states after a batch, those that were read with those that the rules keep, operator by operator.

    ``order`` has the operators as the query has them; without it they are as in the chain.
    """
    order = order or [(number, False) for number in range(len(states))]
    for row in read:
        wanted = states[order[row.operator][0]][0] if row.operator < len(order) else "none"
        if row.name != wanted:
            names = ", ".join(states[number][0] for number, _ in order)
            compared.notes[
                f"the states were not compared: Spark's operator {row.operator + 1} is {row.name}, those of the chain"
                f" are {names or 'none'}"
            ] = None
            return
    for place, (number, is_exchanged) in enumerate(order):
        name, rows = states[number]
        what = f"the state of {name}, operator {place + 1} of the report,"
        if rows is None:
            compared.notes[f"{what} was not compared: which rows were kept is not determined"] = None
            continue
        for side in (LEFT, RIGHT) if name == JOIN else (LEFT,):
            theirs_name = NAMES[1 - side if is_exchanged else side]
            theirs = [one for one in read if one.operator == place and one.side == theirs_name]
            of_side = f"{what} {NAMES[side]} side," if name == JOIN else what
            of_contract = [msgspec.structs.replace(one, side=NAMES[side]) for one in theirs]
            _compare_side(batch, of_side, [row for row in rows if row.side == side], of_contract, compared)


def _compare_side(
    batch: int,
    what: str,
    rows: Sequence[StoredRow],
    theirs: Sequence[OperatorStateRow],
    compared: ComparedStates,
) -> None:
    """Compare one operator, of a join one side."""
    if len({len(row.key) for row in rows} | {len(row.key or ()) for row in theirs}) > 1:
        compared.notes[
            f"{what} was not compared: its keys have another number of parts than those of the chain"
        ] = None
        return
    compared.batches[batch] = None
    has_values = len({len(row.values) for row in rows} | {len(row.values or ()) for row in theirs}) < 2
    if not has_values:
        compared.notes[
            f"the values of {what} were not compared: the query gathers another number of them"
        ] = None
    has_time = bool(theirs) and all(row.time_us is not None for row in theirs)
    has_flag = bool(theirs) and all(row.matched is not None for row in theirs)

    def known(row: StoredRow) -> StoredRow:
        return StoredRow(
            row.side, row.key, row.values if has_values else (), row.time_us if has_time else None,
            row.matched if has_flag else None,
        )  # fmt: skip

    is_preserved = any(row.matched is not None for row in rows)
    found = Counter(
        known(StoredRow(
            NAMES.index(row.side), in_order(row.key or ()), in_order(row.values or ()), row.time_us,
            row.matched if is_preserved else None,
        ))
        for row in theirs
    )  # fmt: skip
    wanted = Counter(known(row) for row in rows)
    leaked, lost = found - wanted, wanted - found
    for row in leaked.elements():
        rather = row._replace(matched=not row.matched)
        if row.matched is not None and lost[rather] > 0:
            lost[rather] -= 1
            message = (
                f"{what} after batch {batch} has {_shown(row)}; by Spark's rules {MATCHED[not row.matched]}"
            )
            compared.findings.append(Finding(property="wrong_flags", message=message, batch=batch))
        else:
            message = f"{what} after batch {batch} has {_shown(row)}; by Spark's rules it has not"
            compared.findings.append(Finding(property="leaked_state", message=message, batch=batch))
    for row in lost.elements():
        message = f"by Spark's rules {what} after batch {batch} has {_shown(row)}; Spark's state has not"
        compared.findings.append(Finding(property="lost_state", message=message, batch=batch))


def _shown(row: StoredRow) -> str:
    """A row in words."""
    parts = [f"key {', '.join(row.key)}"] if row.key else []
    parts += [f"values {', '.join(row.values)}"] if row.values else []
    parts += [write_time(row.time_us)] if row.time_us is not None else []
    parts += [] if row.matched is None else [MATCHED[row.matched]]
    return f"a row ({'; '.join(parts)})"
