"""The exactly-once sink's protocol for one query and sink partition, explored in every order in which it can happen.

**What is modelled.** Batch 0, then batch 1, of two rows each. An attempt of a task sends, one after the other:
``InitProducerId``; the lookup of its ledger entry with ``require_stable``, after which it skips what is there, and
fails if a later batch is; ``Produce`` for each row; ``TxnOffsetCommit`` with the ledger entry; ``EndTxn(commit)``.
Then it reports.

**Transitions** (``protocol_steps.py``).

- Spark starts an attempt, also while others live that it takes for dead; writes the commit log when each partition has
  reported; dies before that, and runs the batch again (once); fails the query when the attempts are used up. With
  ``rollback`` somebody resets the checkpoint to before batch 0, which then has other contents. Two ``partitions`` have
  a row each, and their tasks run one after the other.
- An attempt is killed, and its request arrives at any later time or never; giving up is the same. It raises between its
  first row and its commit and sends ``EndTxn(abort)``, maybe with a request still on the way (for which librdkafka
  would wait). It sends an ``EndTxn`` again while the first is on the way. The answer to an ``EndTxn`` is lost, and it
  asks again.
- The coordinator aborts an open transaction at ``InitProducerId``; has everybody come back while markers are missing;
  aborts what is open for too long; writes the markers to the rows' and to the ledger's partition one by one. The ledger
  applies a marker some time after it was written.
- ``TV1`` bumps the epoch at ``InitProducerId`` and when it aborts on its own; ``TV2`` at each ``EndTxn`` as well. What
  counts is the version that client and broker have agreed on.

**Invariant.** At no moment is a row committed twice. If a batch is in the commit log, and no decided transaction lacks
a marker, each of its rows is committed. From every moment an end can be reached at which the batches are complete, or
the query has failed, and nothing is left open.

**What keeps it small** takes no behaviour away. Epochs are relative to the coordinator's. What is fenced can do nothing
but fail, so it is gone with the step that fences it. Attempts that differ in their number alone make no other state. To
the sink, a driver that dies at another time and an answer lost to another request are attempts that were killed; a
``Produce`` that is sent twice has the same sequence number and is written once. Left out: data lost by a broker, the
expiry of ledger entries and of transactional ids, the end of the epochs.

``python -m tests.unit.sink.protocol_model`` prints what happens without each safeguard.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.unit.sink.protocol_steps import (
    BATCH_OF,
    CALLED,
    EVERY_SAFEGUARD,
    INIT,
    ONGOING,
    PREPARED,
    ROWS,
    TV1,
    TV2,
    Broker,
    Driver,
    Safeguard,
    State,
    Task,
    TxnId,
    World,
    successors,
)

ANY_INIT = Task(0, False, INIT)


class Result(NamedTuple):
    """What an exploration found."""

    states: int
    outcomes: frozenset[str]  # the texts of all steps that were ever taken
    counterexample: tuple[
        str, ...
    ]  # a shortest one; its last line says what is wrong; empty if there is none


def explore(
    safeguards: frozenset[Safeguard],
    broker: Broker,
    attempts: int,
    *,
    partitions: int = 1,
    rollback: bool = False,
) -> Result:
    """Everything that can happen, breadth first: the first moment with something wrong has a shortest way to it."""
    world = World(safeguards, broker, attempts, partitions, rollback)
    first = State(Driver(starts=(0,) * partitions), (TxnId(),) * partitions, (0,) * ROWS * len(BATCH_OF))
    moments = [first]  # a moment is known by its place in here
    known = {_key(first): 0}
    came_from: list[tuple[int, str]] = [(0, "")]
    before: list[list[int]] = [[]]
    outcomes: set[str] = set()
    for here, state in enumerate(moments):
        for text, after in successors(world, state):
            outcomes.add(text)
            there = known.setdefault(_key(after), len(moments))
            if there < len(moments):
                before[there].append(here)
                continue
            moments.append(after)
            came_from.append((here, text))
            before.append([here])
            if wrong := _wrong(after):
                return Result(len(moments), frozenset(outcomes), (*_way_to(there, came_from), wrong))
    if (stuck := _stuck(moments, before)) is None:
        return Result(len(moments), frozenset(outcomes), ())
    way = (*_way_to(stuck, came_from), "from here on no end can be reached: something stays open")
    return Result(len(moments), frozenset(outcomes), way)


def as_text(counterexample: tuple[str, ...]) -> str:
    """A counterexample, one line for each step and one for what is wrong."""
    *steps, wrong = counterexample
    lines = [f"{number:3}. {step}" for number, step in enumerate(steps, start=1)]
    return "\n".join([*lines, f"  => {wrong}"])


def _wrong(state: State) -> str:
    """What is wrong at a moment, if anything is."""
    is_decided = not any(txn_id.txn in PREPARED for txn_id in state.txn_ids)
    for row, copies in enumerate(state.copies):
        contents = row // ROWS
        if copies > 1:
            return f"row {row % ROWS} of {CALLED[contents]} is committed twice"
        if not copies and is_decided and state.driver.complete >> contents & 1:
            return f"{CALLED[contents]} is complete, and its row {row % ROWS} is lost"
    return ""


def _stuck(moments: list[State], before: list[list[int]]) -> int | None:
    """The first moment from which no end can be reached."""
    reaches = [_is_end(state) for state in moments]
    todo = [here for here, is_end in enumerate(reaches) if is_end]
    while todo:
        for here in before[todo.pop()]:
            if not reaches[here]:
                reaches[here] = True
                todo.append(here)
    return next((here for here, does in enumerate(reaches) if not does), None)


def _is_end(state: State) -> bool:
    is_open = any(
        txn_id.txn == ONGOING or txn_id.txn in PREPARED or txn_id.open_rows for txn_id in state.txn_ids
    )
    return state.driver.phase != "runs" and not is_open


def _way_to(there: int, came_from: list[tuple[int, str]]) -> list[str]:
    way = []
    while there:
        there, text = came_from[there]
        way.append(text)
    return way[::-1]


def _key(state: State) -> tuple[object, ...]:
    """What makes a state another one: all but the numbers of attempts."""
    txn_ids = []
    for txn_id in state.txn_ids:
        live = sorted([task[:-1] for task in txn_id.live])
        late = sorted([ANY_INIT[:-1] if task.request == INIT else task[:-1] for task in txn_id.late])
        txn_ids.append((*txn_id[:-2], tuple(live), tuple(late)))
    return (state.driver, tuple(txn_ids), state.copies)


class Mutation(NamedTuple):
    """A safeguard to take away, and what it takes to see what it was for."""

    safeguard: Safeguard
    attempts: int = 2
    partitions: int = 1
    rollback: bool = False

    def explore(self, broker: Broker) -> Result:
        """What is found without it."""
        safeguards = EVERY_SAFEGUARD - {self.safeguard}
        partitions, rollback = self.partitions, self.rollback
        return explore(safeguards, broker, self.attempts, partitions=partitions, rollback=rollback)


MUTATIONS = (
    Mutation(Safeguard.INIT_FIRST),
    Mutation(Safeguard.STABLE_LOOKUP),
    Mutation(Safeguard.FRESH_PRODUCER),
    Mutation(Safeguard.PINNED_MAP, attempts=1, partitions=2),
    Mutation(Safeguard.LATER_BATCH_FAILS, attempts=1, rollback=True),
    Mutation(Safeguard.EVERY_ATTEMPT_LOOKS),
    Mutation(Safeguard.FINGERPRINT, attempts=1, rollback=True),
)


def _print_row(title: str, broker: Broker, started: float, result: Result) -> None:
    verdict = as_text(result.counterexample) if result.counterexample else "  no counterexample"
    print(
        f"{broker.name} | {title} | {result.states} states, {time.monotonic() - started:.1f} s\n{verdict}\n"
    )


if __name__ == "__main__":
    for each_broker in (TV1, TV2):
        for number in (2, 3):
            start = time.monotonic()
            _print_row(
                f"{number} attempts", each_broker, start, explore(EVERY_SAFEGUARD, each_broker, number)
            )
        for mutation in MUTATIONS:
            start = time.monotonic()
            _print_row(mutation.safeguard.value, each_broker, start, mutation.explore(each_broker))
