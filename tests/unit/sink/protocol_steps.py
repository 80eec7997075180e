"""The exactly-once sink's protocol: a moment of it, and everything that can happen next.

``protocol_model.py`` says what is modelled and why this is enough, and explores it. Pure functions of immutable states.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple


class Safeguard(enum.Enum):
    """What the protocol does to be safe; the value says what is done without it."""

    INIT_FIRST = "the lookup comes before init_transactions"
    STABLE_LOOKUP = "the lookup does without require_stable"
    FRESH_PRODUCER = "a producer object is used for a second transaction"
    PINNED_MAP = "a restarted driver spreads the rows over the partitions in another way"
    LATER_BATCH_FAILS = "an attempt skips where the ledger has a later batch"
    EVERY_ATTEMPT_LOOKS = "an attempt whose attemptNumber is 0 makes no lookup"
    FINGERPRINT = "an attempt skips without comparing the source offsets of its batch"


EVERY_SAFEGUARD = frozenset(Safeguard)


class Broker(NamedTuple):
    """How brokers and group coordinators differ, as far as the protocol can tell."""

    name: str
    bumps_at_end: bool  # the epoch, at each EndTxn: KIP-890, part 2
    verifies: bool = True  # Produce, with the transaction's coordinator: KIP-890, part 1
    applies_later: bool = True  # a marker in the ledger's partition, than it was written: before Kafka 4.0
    times_out: bool = True  # a transaction that is open for too long


TV1 = Broker("TV1", bumps_at_end=False)
TV2 = Broker("TV2", bumps_at_end=True)


class World(NamedTuple):
    """What stays the same while everything else happens."""

    safeguards: frozenset[Safeguard]
    broker: Broker
    attempts: int  # of a task of batch 0; batch 1 has two at most, and a batch that is run again one more
    partitions: int
    rollback: bool


# What a batch can consist of: batch 0, batch 1, and batch 0 once more after a rollback. Named by the place in here.
BATCH_OF = (0, 1, 0)
CALLED = ("batch 0", "batch 1", "batch 0 with other contents")
ROWS = 2
# States of a transactional id.
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMMITTED, ABORTED = range(6)
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
DATA, LEDGER = 1, 2  # partitions of a transaction, bits
# An attempt's epoch: none; the coordinator's; the one before the bump of its own EndTxn; an older one.
NO_EPOCH, CURRENT, ENDED, STALE = range(4)
INIT, LOOKUP, PRODUCE, OFFSETS, COMMIT, ABORT, REPORT = (
    "InitProducerId",
    "lookup",
    "Produce",
    "TxnOffsetCommit",
    "EndTxn(commit)",
    "EndTxn(abort)",
    "report",
)
TAKES_OVER, WAITS, REFUSED = (
    "aborts an open transaction, and is to come back",
    "is to come back",
    "is refused",
)


class Task(NamedTuple):
    """An attempt, whose next request is on its way; among ``late``, a request whose sender does not wait for it."""

    contents: int
    rerun: bool
    request: str
    row: int = 0
    epoch: int = NO_EPOCH
    number: int = 1  # for people only

    def __str__(self) -> str:
        return f"{CALLED[self.contents]}, attempt {self.number}"


class TxnId(NamedTuple):
    """One sink partition: its transactional id, what is not yet decided, its ledger entry, its attempts."""

    txn: int = EMPTY
    parts: int = 0  # partitions in the transaction; once it is decided, those that lack a marker
    open_rows: tuple[int, ...] = ()  # written, no marker yet
    ledger: int = 0  # contents + 1 of the newest batch, or 0; an offset there is BATCH_OF[contents] + 1
    pending: int = 0  # the same, without an applied marker
    marker: int = 0  # the PREPARE_* whose marker is written and not yet applied
    reusable: bool = False  # a producer object with the current epoch is between two transactions
    live: tuple[Task, ...] = ()
    late: tuple[Task, ...] = ()


class Driver(NamedTuple):
    """The driver, and its checkpoint."""

    phase: str = "runs"  # or complete, or failed
    contents: int = 0
    rerun: int = -1  # the contents that are run again, if any ever were
    starts: tuple[int, ...] = ()  # attempts started, by partition
    done: int = 0  # partitions that have reported, bits
    complete: int = 0  # contents in the commit log, bits
    rolled_back: bool = False

    def hears(self, task: Task) -> bool:
        """Whether it waits for the report of this attempt."""
        rerun = self.rerun == self.contents
        return self.phase == "runs" and task.contents == self.contents and task.rerun == rerun


class State(NamedTuple):
    """A moment."""

    driver: Driver
    txn_ids: tuple[TxnId, ...]
    copies: tuple[int, ...]  # committed, of each row of each contents

    def put(self, at: int, txn_id: TxnId) -> State:
        """The same with another txn_id."""
        return State(self.driver, (*self.txn_ids[:at], txn_id, *self.txn_ids[at + 1 :]), self.copies)

    def led(self, driver: Driver) -> State:
        """The same with another driver, and without the reports for which it does not wait."""
        txn_ids = []
        for txn_id in self.txn_ids:
            heard = [task for task in txn_id.live if task.request != REPORT or driver.hears(task)]
            txn_ids.append(txn_id._replace(live=tuple(heard)))
        return State(driver, tuple(txn_ids), self.copies)


Steps = Iterator[tuple[str, State]]


def successors(world: World, state: State) -> Steps:
    """Everything that can happen next: how it is told, and the moment after."""
    yield from _steps_of_spark(world, state)
    for at, txn_id in enumerate(state.txn_ids):
        where = f"partition {at}: " if world.partitions > 1 else ""
        for text, after in _steps_of_markers(world, state, at):
            yield where + text, after
        for task in txn_id.live:
            for text, after in _steps_of_task(world, state, at, task):
                yield where + text, after
        for task in txn_id.late:
            rest = txn_id._replace(late=_without(txn_id.late, task))
            answer, changed = _handled(world, rest, at, task)
            answer = "comes to nothing" if answer == WAITS else answer
            text = f"{task}: the delayed {task.request} {answer}{_fenced(rest, changed)}"
            yield where + text, state.put(at, changed)


def _steps_of_spark(world: World, state: State) -> Steps:
    driver, all_done = state.driver, (1 << world.partitions) - 1
    name, nobody = CALLED[driver.contents], (0,) * world.partitions
    if world.rollback and not driver.rolled_back and driver.contents == 1 and driver.phase != "failed":
        back = driver._replace(phase="runs", contents=2, starts=nobody, done=0, rolled_back=True)
        yield "the checkpoint is rolled back to before batch 0", state.led(back)
    if driver.phase != "runs":
        return
    if driver.done and driver.rerun < 0:
        again = driver._replace(rerun=driver.contents, done=0)
        yield f"the driver dies before the commit log, and runs {name} again", state.led(again)
    if driver.done == all_done:
        after = driver._replace(starts=nobody, done=0, complete=driver.complete | 1 << driver.contents)
        after = after._replace(phase="complete") if driver.contents else after._replace(contents=1)
        yield f"Spark writes {name} into the commit log", state.led(after)
        return
    at = next(at for at in range(world.partitions) if not driver.done >> at & 1)
    if not all(_is_quiet(txn_id) for other, txn_id in enumerate(state.txn_ids) if other != at):
        return
    attempts = world.attempts if driver.contents == 0 else min(world.attempts, 2)
    if driver.starts[at] < attempts + (driver.rerun == driver.contents):
        yield from _starts(world, state, at)
    elif not any(map(driver.hears, state.txn_ids[at].live)):
        failed = driver._replace(phase="failed", starts=nobody, done=0)
        yield "all attempts have failed, and the query with them", state.led(failed)


def _starts(world: World, state: State, at: int) -> Steps:
    driver, txn_id = state.driver, state.txn_ids[at]
    number = driver.starts[at] + 1
    request = INIT if Safeguard.INIT_FIRST in world.safeguards else LOOKUP
    task = Task(driver.contents, driver.rerun == driver.contents, request, number=number)
    where = f" in partition {at}" if world.partitions > 1 else ""
    others = [str(other.number) for other in txn_id.live if other.contents == task.contents]
    alive = f" while attempt {' and '.join(others)} lives" if others else ""
    starts = (*driver.starts[:at], number, *driver.starts[at + 1 :])
    after = state._replace(driver=driver._replace(starts=starts))
    yield f"{task} starts{where}{alive}", after.put(at, _with(txn_id, task))
    if txn_id.reusable:
        reusing = _with(txn_id._replace(reusable=False), task._replace(request=LOOKUP, epoch=CURRENT))
        yield f"{task} starts{where}{alive} with a producer that was used before", after.put(at, reusing)


def _is_quiet(txn_id: TxnId) -> bool:
    return not (
        txn_id.live or txn_id.late or txn_id.marker or txn_id.txn == ONGOING or txn_id.txn in PREPARED
    )


def _steps_of_markers(world: World, state: State, at: int) -> Steps:
    txn_id = state.txn_ids[at]
    if txn_id.txn == ONGOING and world.broker.times_out:
        after = _bumped(txn_id._replace(txn=PREPARE_ABORT))
        text = f"the transaction was open for too long, and is aborted{_fenced(txn_id, after)}"
        yield text, state.put(at, after)
    if txn_id.marker:
        yield "the ledger applies the marker", state.put(at, _applied(txn_id))
    if txn_id.txn not in PREPARED:
        return
    what, complete = ("commit", COMMITTED) if txn_id.txn == PREPARE_COMMIT else ("abort", ABORTED)
    for part in (DATA, LEDGER):
        if not txn_id.parts & part:
            continue
        missing = txn_id.parts & ~part
        after = txn_id._replace(parts=missing, txn=txn_id.txn if missing else complete)
        if part == LEDGER:
            after = after._replace(marker=txn_id.txn)
            after = after if world.broker.applies_later else _applied(after)
            yield f"the {what} marker is written to the ledger", state.put(at, after)
            continue
        copies = list(state.copies)
        for row in txn_id.open_rows if txn_id.txn == PREPARE_COMMIT else ():
            copies[row] += 1
        after = after._replace(open_rows=())
        yield f"the {what} marker is written to the rows", state.put(at, after)._replace(copies=tuple(copies))


def _steps_of_task(world: World, state: State, at: int, task: Task) -> Steps:
    txn_id = state.txn_ids[at]
    gone = txn_id._replace(live=_without(txn_id.live, task))
    if task.request in (LOOKUP, REPORT) or task.epoch == ENDED:
        yield f"{task} is killed", state.put(at, gone)
    else:
        left = gone._replace(late=tuple(sorted((*txn_id.late, task))))
        yield f"{task} is killed, its {task.request} is on the way", state.put(at, left)
    if task.request == LOOKUP:
        yield from _steps_of_lookup(world, state, at, task)
        return
    if task.request == REPORT:
        if state.driver.hears(task):
            reported = state.driver._replace(done=state.driver.done | 1 << at)
            yield f"{task} reports success", state.put(at, gone)._replace(driver=reported)
        return
    late = txn_id._replace(late=tuple(sorted((*txn_id.late, task))))
    if task.request in (COMMIT, ABORT) and task.epoch == CURRENT and task not in txn_id.late:
        yield f"{task} sends {task.request} again, the first is on the way", state.put(at, late)
    if task.row or task.request == OFFSETS:
        aborting = task._replace(request=ABORT, row=0)
        yield f"{task} raises and sends {ABORT}", state.put(at, _with(gone, aborting))
        raised = _with(late, aborting, task)
        yield f"{task} raises and sends {ABORT}, its {task.request} is on the way", state.put(at, raised)
    answer, after = _handled(world, gone, at, task)
    text = f"{task}: {task.request} {answer}{_fenced(gone, after)}"
    if answer == REFUSED:
        yield text, state.put(at, after)
    elif answer == TAKES_OVER:
        yield text, state.put(at, _with(after, task))
    elif answer != WAITS:
        yield text, state.put(at, _next(world, after, at, task))
        if task.request in (COMMIT, ABORT) and after != gone:
            ended = task._replace(epoch=ENDED if world.broker.bumps_at_end else CURRENT)
            yield f"{text}, the answer is lost", state.put(at, _with(after, ended))


def _steps_of_lookup(world: World, state: State, at: int, task: Task) -> Steps:
    txn_id = state.txn_ids[at]
    gone = state.put(at, txn_id._replace(live=_without(txn_id.live, task)))
    if txn_id.pending and Safeguard.STABLE_LOOKUP in world.safeguards:
        yield f"{task}: the lookup is answered UNSTABLE_OFFSET_COMMIT", state  # and asks again
        return
    found, batch = (BATCH_OF[txn_id.ledger - 1] if txn_id.ledger else -1), BATCH_OF[task.contents]
    is_other = txn_id.ledger - 1 != task.contents and Safeguard.FINGERPRINT in world.safeguards
    reporting = _with(txn_id, task._replace(request=REPORT, epoch=NO_EPOCH), task)
    skips = state.put(at, reporting) if state.driver.hears(task) else gone
    if found > batch and Safeguard.LATER_BATCH_FAILS in world.safeguards:
        yield f"{task}: the lookup finds a later batch, the attempt fails", gone
    elif found > batch:
        yield f"{task}: the lookup finds a later batch, the attempt skips", skips
    elif found == batch and is_other:
        yield f"{task}: the lookup finds the batch with other contents, the attempt fails", gone
    elif found == batch:
        yield f"{task}: the lookup finds the batch, the attempt skips", skips
    elif task.epoch == STALE:
        yield f"{task}: the lookup finds nothing, but the attempt is fenced by now", gone
    else:
        request = INIT if task.epoch == NO_EPOCH else PRODUCE
        is_decided = txn_id.pending and (txn_id.marker or txn_id.txn) == PREPARE_COMMIT
        but = ", though an entry of it is committed" if is_decided else ""
        after = _with(txn_id, task._replace(request=request), task)
        yield f"{task}: the lookup finds nothing{but}", state.put(at, after)


def _handled(world: World, txn_id: TxnId, at: int, task: Task) -> tuple[str, TxnId]:
    """What a broker answers to a request that is not fenced, and what it has done."""
    if task.request == INIT:
        if txn_id.txn == ONGOING:
            return TAKES_OVER, _bumped(txn_id._replace(txn=PREPARE_ABORT))
        return (
            (WAITS, txn_id)
            if txn_id.txn in PREPARED
            else ("is answered", _bumped(txn_id._replace(txn=EMPTY)))
        )
    if task.request in (COMMIT, ABORT):
        is_commit, bumps = task.request == COMMIT, world.broker.bumps_at_end
        prepared, complete = (PREPARE_COMMIT, COMMITTED) if is_commit else (PREPARE_ABORT, ABORTED)
        if txn_id.txn == ONGOING and task.epoch == CURRENT:
            after = txn_id._replace(txn=prepared)
            return "ends the open transaction", _bumped(after) if bumps else after
        if txn_id.txn in (prepared, complete) and task.epoch == (ENDED if bumps else CURRENT):
            return ("was done before" if txn_id.txn == complete else WAITS), txn_id
        return REFUSED, txn_id
    rows = txn_id.open_rows
    if task.request == PRODUCE:
        row = _rows_of(world, task, at)[task.row]
        rows, text = (*rows, row), f"writes row {row % ROWS}"
        if task.row and (txn_id.open_rows or not world.broker.verifies):  # the leader asks nobody
            return text, txn_id._replace(open_rows=rows)
    if txn_id.txn in PREPARED:
        return WAITS, txn_id
    if task.row and not (txn_id.txn == ONGOING and txn_id.parts & DATA) and not world.broker.bumps_at_end:
        return REFUSED, txn_id  # the client believes that it has added the partition to the transaction
    parts = txn_id.parts if txn_id.txn == ONGOING else 0
    if task.request == PRODUCE:
        return text, txn_id._replace(txn=ONGOING, parts=parts | DATA, open_rows=rows)
    applied = _applied(txn_id)._replace(txn=ONGOING, parts=parts | LEDGER, pending=task.contents + 1)
    return "writes the ledger entry", applied


def _next(world: World, txn_id: TxnId, at: int, task: Task) -> TxnId:
    """The txn_id with the attempt's next request, after an answer without an error."""
    if task.request in (COMMIT, ABORT):
        # A client with an unanswered Produce or TxnOffsetCommit gets a new epoch before it goes on.
        clean = not any(late.request in (PRODUCE, OFFSETS) for late in txn_id.late)
        if Safeguard.FRESH_PRODUCER not in world.safeguards and clean:
            txn_id = txn_id._replace(reusable=True)
        return (
            _with(txn_id, task._replace(request=REPORT, epoch=NO_EPOCH)) if task.request == COMMIT else txn_id
        )
    if task.request == OFFSETS:
        return _with(txn_id, task._replace(request=COMMIT))
    if task.request == PRODUCE:
        is_last = task.row + 1 == len(_rows_of(world, task, at))
        after = task._replace(request=OFFSETS, row=0) if is_last else task._replace(row=task.row + 1)
        return _with(txn_id, after)
    looks = world.safeguards >= {Safeguard.INIT_FIRST, Safeguard.EVERY_ATTEMPT_LOOKS}
    return _with(txn_id, task._replace(request=LOOKUP if looks else PRODUCE, epoch=CURRENT))


def _rows_of(world: World, task: Task, at: int) -> tuple[int, ...]:
    turn = task.rerun and Safeguard.PINNED_MAP not in world.safeguards
    return tuple(task.contents * ROWS + row for row in range(ROWS) if (row + turn) % world.partitions == at)


def _bumped(txn_id: TxnId) -> TxnId:
    """The txn_id with a new epoch: requests of older ones can do nothing any more, and are gone."""
    live = [task._replace(epoch=STALE) if task.epoch != NO_EPOCH else task for task in txn_id.live]
    kept = [task for task in live if task.epoch == NO_EPOCH or task.request == LOOKUP]
    late = [task for task in txn_id.late if task.epoch == NO_EPOCH]
    return txn_id._replace(live=tuple(sorted(kept)), late=tuple(late), reusable=False)


def _fenced(before: TxnId, after: TxnId) -> str:
    """Whom a step has fenced, as the end of a sentence."""
    if (before.live, before.late) == (after.live, after.late):
        return ""
    live = [task for task in before.live if task.epoch in (CURRENT, ENDED) and task.request != LOOKUP]
    late = [task for task in before.late if task.epoch != NO_EPOCH]
    said = [f"; {task} is fenced with its {task.request}" for task in live]
    return "".join(said + [f"; the delayed {task.request} of {task} is fenced" for task in late])


def _applied(txn_id: TxnId) -> TxnId:
    """The txn_id whose ledger has applied the marker that was written, if there is one."""
    if not txn_id.marker:
        return txn_id
    is_committed = txn_id.marker == PREPARE_COMMIT and txn_id.pending
    return txn_id._replace(ledger=txn_id.pending if is_committed else txn_id.ledger, pending=0, marker=0)


def _with(txn_id: TxnId, task: Task, instead_of: Task | None = None) -> TxnId:
    live = txn_id.live if instead_of is None else _without(txn_id.live, instead_of)
    return txn_id._replace(live=tuple(sorted((*live, task))))


def _without(tasks: tuple[Task, ...], task: Task) -> tuple[Task, ...]:
    at = tasks.index(task)
    return (*tasks[:at], *tasks[at + 1 :])
