"""What the relations of a join read, as columns: the records, and the batches that the checkpoint names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemark.formats.evidence import Batch
from tidemark.formats.manifest import Manifest
from tidemark.oracle.input.history import Disposition, History
from tidemark.oracle.spark.time_ranges import LEFT, NULL_TIME_US, RIGHT
from tidemark.oracle.sql.join_rules import column_of

Columns = dict[str, np.ndarray]


def input_tables(history: History) -> dict[str, Columns]:
    """What the relations read."""
    topics = [history.side(side).topic for side in (LEFT, RIGHT)]
    plans = [batch.plan for batch in history.batches]
    tables = plan_tables(history.manifest, plans, topics)
    if history.rest is not None:  # where rows were left out: the watermarks that all rows give
        tables["plans"]["checkpoint_ms"] = _numbers(history.rest.watermarks_ms[: len(plans)])
    return {"records": _records(history), **tables}


def plan_tables(manifest: Manifest, plans: Sequence[Batch], topics: Sequence[str]) -> dict[str, Columns]:
    """The batches, the offsets at which they end, and those at which partitions begin; a topic's number is its side."""
    ends: list[tuple[int, ...]] = []
    starts: list[tuple[int, ...]] = []
    for side, topic in enumerate(topics):
        if topic in manifest.inputs:
            first = manifest.inputs[topic].start_offsets
            starts += [(side, int(part), start) for part, start in first.items()]
        ends += [
            (plan.batch, side, int(part), end)
            for plan in plans
            for part, end in plan.end_offsets.get(topic, {}).items()
        ]
    return {
        "plans": {
            "batch": _numbers([plan.batch for plan in plans]),
            "restarted": np.array([plan.restarted or plan.runs > 1 for plan in plans], dtype=bool),
            "checkpoint_ms": _numbers([plan.watermark_ms for plan in plans]),
        },
        "ends": _table(ends, ("batch", "side", "part", "position")),
        "starts": _table(starts, ("side", "part", "position")),
    }


def _numbers(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _table(rows: list[tuple[int, ...]], names: tuple[str, ...]) -> Columns:
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(names)).T
    return dict(zip(names, columns, strict=True))


def _records(history: History) -> Columns:
    """All records: where they are, and the values that decide something."""
    rows = history.rows
    part, position = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for side in (LEFT, RIGHT):
        for number, partition in history.partitions[side].items():
            its = np.frombuffer(partition.rows, dtype=np.int64)
            part[its] = number
            position[its] = np.frombuffer(partition.offsets, dtype=np.int64)
    side_of = np.frombuffer(bytes(rows.side), dtype=np.uint8).astype(np.int64)
    key, time_us = np.frombuffer(rows.key, dtype=np.int64), np.frombuffer(rows.event_us, dtype=np.int64)
    disposition = np.frombuffer(bytes(rows.disposition), dtype=np.uint8)
    columns: Columns = {
        "row": np.arange(len(rows), dtype=np.int64),
        "side": side_of,
        "part": part,
        "position": position,
        "key": np.where(key < 0, ~key, key),
        "has_null_key": key < 0,
        "time_us": np.ma.MaskedArray(time_us, mask=time_us == NULL_TIME_US),
        "readable": disposition != Disposition.UNREADABLE,
    }
    for field in dict.fromkeys([*history.pushdown.fields[LEFT], *history.pushdown.fields[RIGHT]]):
        columns[column_of(field)] = _field(history, field, side_of)
    return columns


def _field(history: History, field: str, side_of: np.ndarray) -> np.ndarray:
    """The numbers of a field, of the side that has it."""
    values, is_null = np.zeros(len(side_of), dtype=np.int64), np.ones(len(side_of), dtype=bool)
    for side in (LEFT, RIGHT):
        known = history.rows.numbers[side].get(field)
        if known is not None:
            mine = np.flatnonzero(side_of[: len(known)] == side)
            found = [known[row] for row in mine.tolist()]
            values[mine] = [0 if value is None else value for value in found]
            is_null[mine] = [value is None for value in found]
    return np.ma.MaskedArray(values, mask=is_null)
