"""Runs small enough to read whose query keeps another contract, or whose rows were delivered otherwise.

Free of Spark: what a query gives is what SQL gives for the contract that it keeps (``tests.unit.oracle.other_query``).
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from tests.unit.oracle.histories import contract, iso
from tests.unit.oracle.other_query import Events, run_of
from tidemark.diagnosis import Diagnosis, diagnose
from tidemark.diagnosis.key_hashes import partition_of
from tidemark.formats.contract import Bound, Contract
from tidemark.formats.evidence import ExecutorAssignment, OutputRecord
from tidemark.oracle import judge

PAIRS = 70
HOUR_MS = 3_600_000
TASKS = 2
Event = dict[str, Any]


def events(seed: int = 1) -> tuple[list[Event], list[Event]]:
    """Impressions, three minutes apart, and clicks up to two hours later, some after exactly an hour, some at once."""
    chosen = random.Random(seed)
    lefts: list[Event] = []
    rights: list[tuple[float, Event]] = []
    for number in range(PAIRS):
        at, user = number * 180.0, f"u{chosen.randrange(12)}"
        ad = f"a{chosen.randrange(2)}"
        lefts.append(
            {"iid": f"i{number}", "user": user, "ad": ad, "time": iso(at), "cents": number * 7 % 100}
        )
        if number % 4:
            after = {1: 3_600.0, 2: 0.0}.get(number % 10, chosen.randrange(7_200) + 0.25)
            click = {"cid": f"c{number}", "user": user, "ad": f"a{number % 2}", "time": iso(at + after)}
            rights.append((at + after, click))
    clicks = [click for _, click in sorted(rights, key=lambda one: one[0])]
    for number in (1, 2):  # after which all others have left the state
        end = {"user": f"end{number}", "ad": "a0", "time": iso(number * 100_000.0)}
        lefts += [{"iid": f"end-i{number}", "cents": 60, **end}]
        clicks += [{"cid": f"end-c{number}", **end}]
    return lefts, clicks


def promise(kind: str = "left_outer", **changes: Any) -> Contract:
    """Clicks within an hour, and delays with which some rows are late under no contract of these tests."""
    made = contract(kind, bound=Bound(-HOUR_MS, 0))
    made = replace(
        made,
        left=replace(made.left, watermark_delay_ms=600_000),
        right=replace(made.right, watermark_delay_ms=600_000),
    )
    return replace(made, **changes)


def diagnosed(query: Contract, promised: Contract, *, seen: tuple[Events, Events] | None = None) -> Diagnosis:
    """The diagnosis of the run of a query; ``seen`` are the events as the query takes them, in the same places."""
    return diagnosis_of(run_seen_as(query, seen or events(), events()), promised)


def run_seen_as(query: Contract, seen: tuple[Events, Events], given: tuple[Events, Events]) -> Any:
    """The evidence of a query that takes events otherwise than they are in the records."""
    run = run_of(query, *seen)
    run.events = dict(zip(run.events, given, strict=True))
    return run


def diagnosis_of(run: Any, promised: Contract) -> Diagnosis:
    """The diagnosis of evidence that is judged by a contract."""
    run = copy.copy(run)
    run.contract = promised
    verdict = judge(run)
    assert verdict.verdict == "INVALID", verdict
    return diagnose(run, verdict)


def delivered(
    change: Callable[[list[OutputRecord]], list[OutputRecord]],
    kind: str = "left_outer",
    *,
    executors: bool = False,
) -> Diagnosis:
    """The diagnosis of a sound query whose output records were changed.

    Rows are written by ``TASKS`` tasks, by the hash of the left id; ``executors``: it is known on which each ran.
    """
    run = run_of(promise(kind), *events())
    run.records = change([_written(record) for record in run.records])
    if executors:
        placed = [ExecutorAssignment(batch=plan.batch, executors={"0": "1", "1": "2"}) for plan in run.plans]
        run.executor_assignments = lambda: placed  # type: ignore[method-assign]
    return diagnosis_of(run, promise(kind))


def _written(record: OutputRecord) -> OutputRecord:
    key = json.loads(record.value or "")["iid"]
    task = str(partition_of(key, TASKS))
    headers = [(name, task if name == "partition" else of) for name, of in record.headers]
    return msgspec.structs.replace(record, key=key, headers=headers)


def batch_of(record: OutputRecord) -> int:
    """The batch that a record names."""
    return int(record.header("batch") or "")


def in_batch(record: OutputRecord, batch: int) -> OutputRecord:
    """The record, with another batch."""
    headers = [(name, str(batch) if name == "batch" else of) for name, of in record.headers]
    return msgspec.structs.replace(record, headers=headers)
