"""The states of the operators of a chain: what Spark kept after a batch, compared with what its own rules keep.

Free of I/O. A chain does not say what the query calls its columns, nor in which order they are, so keys and values are
compared whatever their order. Of a row of a join its key is compared, its time if one column of it is a time, and
``matched`` on the preserved sides, as in ``tidemark.oracle.compare.state_comparison``. What cannot be compared is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

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


def compare_states(
    history: ChainHistory,
    predicted: Predicted,
    state: Iterable[StateRow] | None,
    account: SparkAccount,
    finding_log: FindingLog,
) -> None:
    """Compare the states that were read; what is wrong goes into the finding log, and what was compared is noted."""
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
    notes = dict[str, None]()
    for batch in sorted(read.keys() & committed & predicted.states.keys()):
        found = list(state_findings(batch, read[batch], predicted.states[batch], notes))
        for finding in found:
            finding_log.add(finding)
        account.state_batches.append(batch)
    account.notes += notes


def state_findings(
    batch: int,
    read: Sequence[OperatorStateRow],
    states: Sequence[tuple[str, list[StoredRow] | None]],
    notes: dict[str, None],
) -> Iterator[Finding]:
    """What is wrong in the states after a batch, of what was read and those that the rules keep, operator by operator.

    ``notes`` takes what could not be compared, and why.
    """
    for row in read:
        wanted = states[row.operator][0] if row.operator < len(states) else "none"
        if row.name != wanted:
            names = ", ".join(name for name, _ in states)
            notes[f"the states were not compared: Spark's operator {row.operator} is {row.name}, those of the chain"
                  f" are {names or 'none'}"] = None  # fmt: skip
            return
    for place, (name, rows) in enumerate(states):
        what = f"the state of {name}, operator {place + 1} of the report,"
        if rows is None:
            notes[f"{what} was not compared: which rows were kept is not determined"] = None
            continue
        for side in (LEFT, RIGHT) if name == JOIN else (LEFT,):
            theirs = [one for one in read if one.operator == place and one.side == NAMES[side]]
            of_side = f"{what} {NAMES[side]} side," if name == JOIN else what
            yield from _of_side(batch, of_side, [row for row in rows if row.side == side], theirs, notes)


def _of_side(
    batch: int,
    what: str,
    rows: Sequence[StoredRow],
    theirs: Sequence[OperatorStateRow],
    notes: dict[str, None],
) -> Iterator[Finding]:
    """The findings of one operator, of a join those of one side."""
    lengths = {len(row.key) for row in rows} | {len(row.key or ()) for row in theirs}
    if len(lengths) > 1:
        notes[f"{what} was not compared: its keys have another number of parts than those of the chain"] = (
            None
        )
        return
    has_values = {len(row.values) for row in rows} == {len(row.values or ()) for row in theirs}
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
    for row in (found - wanted).elements():
        message = f"{what} after batch {batch} has {_shown(row)}; by Spark's rules it has not"
        yield Finding(property="leaked_state", message=message, batch=batch)
    for row in (wanted - found).elements():
        message = f"by Spark's rules {what} after batch {batch} has {_shown(row)}; Spark's state has not"
        yield Finding(property="lost_state", message=message, batch=batch)


def _shown(row: StoredRow) -> str:
    """A row in words."""
    parts = [f"key {', '.join(row.key)}"] if row.key else []
    parts += [f"values {', '.join(row.values)}"] if row.values else []
    parts += [write_time(row.time_us)] if row.time_us is not None else []
    parts += [] if row.matched is None else ["matched" if row.matched else "not matched"]
    return f"a row ({'; '.join(parts)})"
