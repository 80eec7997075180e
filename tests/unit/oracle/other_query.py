"""The run of a query that does another join than its contract promises: its output is right by a contract of its own.

Free of Spark: what the query gives is what SQL gives for the contract that it keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tests.unit.oracle.histories import LEFT_TOPIC, QUERY, RIGHT_TOPIC, Run, contract
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import Batch, InputRecord, OutputRecord
from tidemark.formats.manifest import InputTopic, Manifest
from tidemark.oracle.coverage import WAIVABLE
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.input.history import History, first_of, read_history, right_of
from tidemark.oracle.spark.time_ranges import LEFT
from tidemark.oracle.sql.join_answer import ask

Events = Sequence[Mapping[str, Any]]


@dataclass
class _Given(Run):
    """Evidence of records that are given."""

    contract: Contract
    events: dict[str, Events]
    plans: list[Batch]
    records: Sequence[OutputRecord] = ()
    journal: Sequence[Any] = ()

    @property
    def manifest(self) -> Manifest:
        ends = {topic: {"0": len(events)} for topic, events in self.events.items()}
        return Manifest(
            tidemark_evidence=2, contract=self.contract.to_json(), delivery="exactly-once",
            inputs={
                topic: InputTopic(topic=topic, start_offsets={"0": 0}, end_offsets=end)
                for topic, end in ends.items()
            },
            waived=list(WAIVABLE), query_id=QUERY,
        )  # fmt: skip

    def inputs(self) -> Iterator[InputRecord]:
        for topic, events in self.events.items():
            for offset, event in enumerate(events):
                yield InputRecord(topic, 0, offset, json.dumps(event).encode(), False)

    def batches(self) -> list[Batch]:
        return self.plans

    def progress(self) -> list[dict[str, Any]]:
        return []

    def state(self) -> None:
        return None

    def state_keys(self) -> None:
        return None

    def executor_assignments(self) -> list[Any]:
        return []


def run_of(query: Contract, left: Events, right: Events, batches: int = 6) -> _Given:
    """The evidence of a query that keeps its contract; an empty batch follows each with data."""
    events = {LEFT_TOPIC: left, RIGHT_TOPIC: right}
    plans = []
    for number in range(batches):
        ends = {topic: {"0": len(some) * (number + 1) // batches} for topic, some in events.items()}
        plans += [Batch(batch=2 * number + more, watermark_ms=0, end_offsets=ends) for more in (0, 1)]
    given = _Given(query, events, plans)
    history = read_history(given)
    answer = ask(history)
    given.plans = [
        msgspec.structs.replace(plan, watermark_ms=watermark_ms)
        for plan, watermark_ms in zip(plans, answer.watermarks_ms, strict=False)
    ]
    prediction = prediction_of(history, answer)
    given.records = [
        _record(history, identity, batch, offset)
        for offset, (identity, batch) in enumerate(prediction.batch_of.items())
    ]
    return given


def promised(given: _Given, **changes: Any) -> _Given:
    """The same evidence under another contract."""
    return replace(given, contract=replace(given.contract, **changes))


def _record(history: History, identity: int, batch: int, offset: int) -> OutputRecord:
    first, second = first_of(identity), right_of(identity)
    is_left = history.rows.side[first] == LEFT
    left, right = (first, second) if is_left else (None, first)
    value = _refs(history, left, "iid", "ip", "io") | _refs(history, right, "cid", "cp", "co")
    headers = [("query", QUERY), ("batch", str(batch)), ("partition", "0"), ("attempt", "0")]
    return OutputRecord(partition=0, offset=offset, value=json.dumps(value), headers=headers)


def _refs(history: History, row: int | None, *names: str) -> dict[str, Any]:
    found = (None, None, None) if row is None else (history.rows.id[row], *history.position(row))
    return dict(zip(names, found, strict=True))


__all__ = ["contract", "promised", "run_of"]
