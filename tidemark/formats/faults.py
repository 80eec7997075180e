"""Faults as typed data: what can be injected, at which commit points, and a line of ``faults.jsonl``.

Free of I/O, Kafka and Spark. :data:`POINTS` is the list of all faults; schedules, soaks, documents and the command line
are made from it. The words of a schedule (``driver:pause@planned``) are those of the enumerations here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class FaultComponent(StrEnum):
    """What a fault is injected into. ``executors`` are all of them at once."""

    DRIVER = "driver"
    EXECUTOR = "executor"
    EXECUTORS = "executors"
    WORKER = "worker"
    MASTER = "master"
    BROKER = "broker"
    LEADER = "leader"
    """The broker that leads a partition of the output: another is elected."""
    REGISTRY = "registry"
    """The schema registry of a run: what a query asks it, and what it answers, goes through the network proxy."""
    COORDINATOR = "coordinator"
    """The broker that coordinates the ledger of a sink partition, and its transactions: another takes over."""


class FaultAction(StrEnum):
    """What is done. ``kill-twice`` kills the next one, too, while it runs the batch again."""

    KILL = "kill"
    KILL_TWICE = "kill-twice"
    PAUSE = "pause"
    CUT = "cut"
    """Of the network, as those below: nothing that is sent arrives, and connections stay open."""
    CUT_SENT = "cut-sent"
    """What an executor sends does not arrive at its driver, and not at other executors."""
    CUT_RECEIVED = "cut-received"
    """What a driver and other executors send does not arrive at an executor."""
    CUT_REQUESTS = "cut-requests"
    """What Spark sends does not arrive at the broker."""
    CUT_RESPONSES = "cut-responses"
    """What the broker answers does not arrive at Spark: it did what it was asked, and nobody knows."""
    DELAY = "delay"
    """Everything comes later by so many milliseconds, both ways."""
    JITTER = "jitter"
    """Everything comes later by up to twice so many milliseconds, each piece by another time."""
    THROTTLE = "throttle"
    """So many kilobytes a second pass, both ways."""
    LOSS = "loss"
    """So many of a hundred packets are lost, both ways; TCP sends them again."""
    RESET = "reset"
    """Connections are closed as soon as anything is sent on them, and what was sent is lost."""


class CommitPoint(StrEnum):
    """A moment in the life of a batch."""

    PLANNED = "planned"
    """``offsets/N`` is there, ``commits/N`` is not; for a driver: no row of the batch is in the output either."""
    HALF_WRITTEN = "half-written"
    """Some sink partitions of the batch have written, others have not."""
    STATE = "state"
    """Of a state partition some stores have committed the batch, others have not."""
    SNAPSHOT = "snapshot"
    """A snapshot of a state store is being written."""
    FENCED = "fenced"
    """A task of the sink has fenced earlier attempts at its partition, and not looked up what they wrote."""
    LOOKED_UP = "looked-up"
    """A task of the sink knows what earlier attempts wrote, and has not begun its transaction."""
    BEGUN = "begun"
    """A task of the sink has begun its transaction, and sent nothing in it."""
    ROWS_SENT = "rows-sent"
    """Rows of the batch lie in a transaction of the sink that is open."""
    ENTRY_SENT = "entry-sent"
    """The ledger entry of a sink partition lies in a transaction that is open."""
    PARTITION_WRITTEN = "partition-written"
    """A task of the sink has committed its transaction, and Spark does not know."""
    WRITTEN = "written"
    """Every sink partition has written, and the batch is not committed."""
    NO_DATA = "no-data"
    """The batch reads nothing: only the watermark has moved."""
    COMMITTED = "committed"
    """``commits/N`` is there, ``offsets/N+1`` is not."""
    DELETED_COMMIT = "deleted-commit"
    """As ``committed``; ``commits/N`` is removed while the driver is dead, so that the batch is run again."""


AFTER_COMMIT = (CommitPoint.COMMITTED, CommitPoint.DELETED_COMMIT)
"""Points at which the batch is committed."""

OF_TRANSACTION = (CommitPoint.ROWS_SENT, CommitPoint.ENTRY_SENT)
"""Points at which a transaction of the exactly-once sink has something in it, and is not committed: Kafka shows it."""

BEFORE_ROWS = (CommitPoint.FENCED, CommitPoint.LOOKED_UP, CommitPoint.BEGUN)

SINK_STEPS = (*BEFORE_ROWS, *OF_TRANSACTION, CommitPoint.PARTITION_WRITTEN)
"""Steps of a task of the exactly-once sink, in their order."""

TASK_HELD = (*BEFORE_ROWS, CommitPoint.PARTITION_WRITTEN)
"""Points at which a task waits because it is asked to: nobody but itself knows that it is there."""

EXECUTOR_STOPPED = (CommitPoint.HALF_WRITTEN, CommitPoint.SNAPSHOT, CommitPoint.STATE, *SINK_STEPS)
"""Points at which a batch is kept by an executor that is stopped."""


_C, _A, _P = FaultComponent, FaultAction, CommitPoint

IN_ROLE = (_C.LEADER, _C.COORDINATOR)
"""Brokers that are chosen by what they do: of several brokers, so that another can do it."""
BROKERS = (_C.BROKER, *IN_ROLE)

LINK_ACTIONS: dict[FaultComponent, tuple[FaultAction, ...]] = {
    _C.BROKER: (
        _A.CUT, _A.CUT_REQUESTS, _A.CUT_RESPONSES, _A.DELAY, _A.JITTER, _A.LOSS, _A.THROTTLE, _A.RESET,
    ),
    _C.EXECUTOR: (_A.CUT, _A.CUT_SENT, _A.CUT_RECEIVED, _A.LOSS, _A.THROTTLE, _A.RESET),
    _C.REGISTRY: (
        _A.CUT, _A.CUT_REQUESTS, _A.CUT_RESPONSES, _A.DELAY, _A.JITTER, _A.THROTTLE, _A.RESET,
    ),
}  # fmt: skip
"""What is done to the network, and not to the component: between Spark and a broker; between the executors of a worker,
their driver and other executors; between the programs of a query and the schema registry."""
LINK_FAULTS = frozenset(
    (component, action) for component, actions in LINK_ACTIONS.items() for action in actions
)
NETWORK_ACTIONS = tuple(dict.fromkeys(action for actions in LINK_ACTIONS.values() for action in actions))

KILLS = (_A.KILL, _A.KILL_TWICE)

AMOUNTS: dict[FaultAction, tuple[str, float]] = {
    _A.DELAY: ("ms", 200.0),
    _A.JITTER: ("ms", 200.0),
    _A.THROTTLE: ("kB", 16.0),
    _A.LOSS: ("%", 20.0),
}
"""Actions that have an amount: its unit (``kB``: a second), and what it is if not said."""

MOST: dict[str, int] = {"%": 100}
"""Unit of an amount -> the most that there is."""

POINTS: dict[tuple[FaultComponent, FaultAction], tuple[CommitPoint, ...]] = {
    (_C.DRIVER, _A.KILL): (
        _P.WRITTEN,
        _P.PLANNED,
        _P.HALF_WRITTEN,
        _P.NO_DATA,
        _P.STATE,
        _P.SNAPSHOT,
        *SINK_STEPS,
        _P.COMMITTED,
        _P.DELETED_COMMIT,
    ),
    (_C.DRIVER, _A.KILL_TWICE): (_P.WRITTEN, _P.PLANNED, _P.HALF_WRITTEN, _P.NO_DATA),
    (_C.DRIVER, _A.PAUSE): (_P.PLANNED, _P.NO_DATA),
    (_C.EXECUTOR, _A.KILL): (_P.PLANNED, _P.HALF_WRITTEN, _P.NO_DATA, _P.STATE, _P.SNAPSHOT, *SINK_STEPS),
    (_C.EXECUTOR, _A.PAUSE): (_P.PLANNED, _P.HALF_WRITTEN, _P.NO_DATA, _P.STATE, _P.SNAPSHOT, *SINK_STEPS),
    (_C.EXECUTORS, _A.KILL): (_P.PLANNED, _P.NO_DATA),
    (_C.EXECUTORS, _A.PAUSE): (_P.PLANNED, _P.NO_DATA),
    (_C.WORKER, _A.KILL): (_P.PLANNED, _P.NO_DATA),
    (_C.MASTER, _A.KILL): (_P.PLANNED, _P.NO_DATA),
    **{
        (_C.BROKER, action): (_P.PLANNED, _P.HALF_WRITTEN, _P.ENTRY_SENT, _P.WRITTEN, _P.NO_DATA)
        for action in (_A.KILL, _A.PAUSE, *LINK_ACTIONS[_C.BROKER])
    },
    **{
        (_C.EXECUTOR, action): (_P.PLANNED, _P.HALF_WRITTEN, _P.WRITTEN, _P.NO_DATA)
        for action in LINK_ACTIONS[_C.EXECUTOR]
    },
    **{(_C.REGISTRY, action): (_P.PLANNED, _P.HALF_WRITTEN) for action in LINK_ACTIONS[_C.REGISTRY]},
    **{
        (role, action): (_P.PLANNED, _P.HALF_WRITTEN, _P.ENTRY_SENT, _P.WRITTEN, _P.NO_DATA)
        for role in IN_ROLE
        for action in (_A.KILL, _A.PAUSE)
    },
}
"""(component, action) -> the commit points at which it can be injected, the default first."""


_STREAMS = {
    "": "network of",
    "requests": "requests to",
    "responses": "responses of",
    "sent": "what is sent by",
    "received": "what is sent to",
}


def fault_label(component: FaultComponent, action: FaultAction) -> str:
    """A fault in words, for people: ``kill driver twice``, ``kill all executors``, ``cut requests to broker``."""
    if action is FaultAction.LOSS:
        return f"lose packets of {component}"
    if action in NETWORK_ACTIONS:
        verb, _, stream = action.partition("-")
        return f"{verb} {_STREAMS[stream]} {component}"
    verb, _, how_often = action.partition("-")
    what = "all executors" if component is FaultComponent.EXECUTORS else component
    return " ".join(filter(None, (verb, what, how_often)))


class Fault(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line of ``faults.jsonl``; ``recovery_s`` is the time from the injection to the commit of its batch.

    At ``committed`` it is that to the commit of the next batch, and at ``deleted-commit`` the batch is committed anew;
    ``commit_removed_utc`` is then when ``commits/N`` was removed.

    ``proof`` has the victim (``executor_id``, ``executor_ids``, ``pid``, ``app_id``, ``component_name``), and what was
    seen in the instant before the injection: whether the batch was ``planned`` and ``committed``; the output's end
    offsets (``ends``), also before the batch was planned and after it was committed (``ends_before``, ``ends_after``);
    the next batch of each sink partition in the exactly-once sink's ``ledger``, or the ``rows`` of the batch by sink
    partition in the output of Spark's own. ``again`` is the same of the second kill of ``kill-twice``; ``at_utc`` is
    then its time. Of a driver that was killed ``recovered_on`` is the driver on which the batch was committed: the
    same, started again, or a standby. Of a fault that was not ``injected`` it has the batches in which it was
    ``tried``, and for how many seconds each; ``batch`` is then missing.

    Of a fault of the network ``proof`` has what was set in the proxy or the packet filter (``toxics``), the
    ``traffic`` of the link ``before``, ``during`` and ``after`` (bytes ``received`` there and ``passed`` on in
    ``seconds``, and in the proxy for how long each was held, ``held_ms``), when it was healed (``healed_at_utc``), and
    the seconds from then to the first bytes both ways (``first_bytes_after_s``) and to the commit of its batch
    (``committed_after_heal_s``). ``amount`` is that of an action that has one, in its unit: milliseconds, kilobytes a
    second, or packets of a hundred. Where packets are counted, the ``traffic`` is in bytes of packets. Of the network
    of an executor they come ``from_executor`` and go ``to_executor``, of the executors (``executor_ids``) of a worker
    (``component_name``), and ``queued`` is how often some had to wait. ``ended_at_utc`` is the end of a fault that
    lasts: a pause, an outage, one of the network; it may be missing.

    Of a broker in a role ``proof`` has the ``role`` (the ``partition`` of the output that it led, or of the sink whose
    ledger it coordinated, and the ``node`` that it was), and to which node that moved (``moved_to``), after how long
    (``moved_after_s``).

    Faults that overlapped have a line each, one behind the other, with the same ``batch`` and with all of them as a
    schedule has them in ``together``. Their ``proof`` has since when and until when each was ``in_effect``
    (``from_utc``, ``to_utc``: its end, or the commit of its batch), and the ``overlap``: from the injection of the last
    to the end of the first that ended, with how the victims of all were ``seen`` in between (``at_utc``; ``paused``,
    ``stopped``, ``disturbed``, of a kill ``gone``). Faults of which the next could not be injected in time are there as
    single ones.
    """

    component: FaultComponent
    action: FaultAction
    point: CommitPoint
    at_utc: str
    injected: bool
    batch: int | None = None
    proof: dict[str, Any] = {}
    recovery_s: float | None = None
    amount: float | None = None
    ended_at_utc: str | None = None
    together: str | None = None

    @property
    def label(self) -> str:
        """``kill driver``: see :func:`fault_label`."""
        return fault_label(self.component, self.action)

    def killed(self, component: FaultComponent) -> bool:
        """Whether it was injected and killed that component, once or twice; a broker in whatever role."""
        is_it = self.component is component or (component is _C.BROKER and self.component in BROKERS)
        return self.injected and is_it and self.action in KILLS

    @property
    def overlap_s(self) -> float:
        """For how long faults that overlapped were in effect at once, in seconds; 0 if that is not known."""
        try:
            found = self.proof["overlap"]
            lasted = datetime.fromisoformat(found["to_utc"]) - datetime.fromisoformat(found["from_utc"])
        except (KeyError, TypeError, ValueError):
            return 0.0
        return lasted.total_seconds()


def overlaps(faults: Iterable[Fault]) -> list[list[Fault]]:
    """The faults that overlapped, those of one batch together, in their order."""
    found: dict[tuple[str, int | None], list[Fault]] = {}
    for fault in faults:
        if fault.injected and fault.together is not None:
            found.setdefault((fault.together, fault.batch), []).append(fault)
    return list(found.values())
