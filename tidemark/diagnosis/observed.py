"""What came out of a run, as rows that a prediction can be compared with: how often each came, by batch.

Free of I/O. Rows that are made of a sentinel are left out, here and of every prediction.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tidemark.diagnosis.setting import OutputReading
from tidemark.formats.contract import Output
from tidemark.formats.events import decode_object
from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.input.history import NO_BATCH, ROW_MASK, History, first_of, right_of
from tidemark.oracle.input.output_rows import OutputReader

Came = tuple[int, int]
"""The identity of an output row, and the batch that it came in, or is due in."""


@dataclass
class Observed:
    """``rows`` counts how often each row came; ``tasks`` are the partitions (of the header) that wrote it, ``places``
    those of the topic that it is in, ``keys`` has the key of its record.

    ``strange`` are records that are no rows of this run, with what is wrong with them.
    """

    rows: Counter[Came] = field(default_factory=Counter)
    tasks: dict[Came, list[str]] = field(default_factory=dict)
    places: dict[Came, set[int]] = field(default_factory=dict)
    keys: dict[Came, str | None] = field(default_factory=dict)
    strange: Counter[str] = field(default_factory=Counter)


class Identities:
    """The one name that a row has: without partition and offset in the output, rows of one id are one row."""

    def __init__(self, history: History, *, by_ids: bool) -> None:
        self._first: list[int] | None = None
        if by_ids:
            rows, first = history.rows, dict[tuple[int, str], int]()
            self._first = [
                row if name is None else first.setdefault((side, name), row)
                for row, (side, name) in enumerate(zip(rows.side, rows.id, strict=True))
            ]

    def of(self, identity: int) -> int:
        """The name of an output row."""
        if self._first is None:
            return identity
        right = right_of(identity)
        return self._first[first_of(identity)] << 32 | (0 if right is None else self._first[right] + 1)


def observe(
    history: History, output: Iterable[OutputRecord], copies: frozenset[str], reading: OutputReading | None
) -> Observed:
    """Read the output. ``history`` is that of the contract; ``copies`` are records that the producer sent twice."""
    found = Observed()
    read_from, records = _changed(history, output, reading)
    identities = Identities(history, by_ids=not read_from.contract.output.has_refs)
    reader = OutputReader(read_from, lambda rows, _: min(rows))
    first_sentinel, beyond = history.rows.first_sentinel, len(history.batches) if history.gaps else None
    for record in records:
        if f"{record.partition}/{record.offset}" in copies:
            continue
        identity, batch, problem = reader.read(record)
        if identity is None:
            found.strange[problem if batch == NO_BATCH else f"is invented: {problem}"] += 1
            continue
        if first_of(identity) >= first_sentinel or identity & ROW_MASK > first_sentinel:
            continue
        if beyond is not None and batch >= beyond:
            continue
        row = identities.of(identity), batch
        found.rows[row] += 1
        found.tasks.setdefault(row, []).append(record.header("partition") or "")
        found.places.setdefault(row, set()).add(record.partition)
        found.keys[row] = record.key
    return found


def _changed(
    history: History, output: Iterable[OutputRecord], reading: OutputReading | None
) -> tuple[History, Iterable[OutputRecord]]:
    """The history and the records to read, if columns are read otherwise."""
    columns = history.contract.output
    if reading is OutputReading.WITHOUT_PLACES:
        return _with_output(history, replace(columns, left_ref=None, right_ref=None)), output
    if reading is OutputReading.EXCHANGED and columns.right_id is not None:
        exchanged = replace(columns, left_id=columns.right_id, right_id=columns.left_id)
        return _with_output(history, exchanged), output
    if reading is OutputReading.ANY_QUERY:
        records = list(output)
        named = records[0].header("query") if records else None
        manifest = msgspec.structs.replace(history.manifest, query_id=named)
        return replace(history, manifest=manifest), records
    if reading is OutputReading.EMPTY_TEXT:
        names = [columns.left_id, columns.right_id, *(columns.left_ref or ()), *(columns.right_ref or ())]
        return history, [_without_empty(record, names) for record in output]
    ref = {OutputReading.NEXT_LEFT: columns.left_ref, OutputReading.NEXT_RIGHT: columns.right_ref}
    if reading in ref and (place := ref[reading]) is not None:
        return history, [_one_back(record, place[1]) for record in output]
    return history, output


def _with_output(history: History, output: Output) -> History:
    return replace(history, contract=replace(history.contract, output=output))


def _without_empty(record: OutputRecord, names: Sequence[str | None]) -> OutputRecord:
    values = decode_object(record.value)
    if values is None:
        return record
    return _rewritten(
        record, {name: None if name in names and of == "" else of for name, of in values.items()}
    )


def _one_back(record: OutputRecord, name: str) -> OutputRecord:
    values = decode_object(record.value)
    offset = None if values is None else values.get(name)
    if values is None or type(offset) is not int:
        return record
    return _rewritten(record, {**values, name: offset - 1})


def _rewritten(record: OutputRecord, values: dict[str, Any]) -> OutputRecord:
    return msgspec.structs.replace(record, value=json.dumps(values, default=str))
