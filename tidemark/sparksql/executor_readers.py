"""The functions that run on executors: they read values of JSON as the judgement of a small run reads them.

Free of Spark. Nothing is installed on executors: these functions, and the modules that they use, are pickled by value
(``PICKLED_BY_VALUE``); what must be there is Python with pyarrow and msgspec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.formats.contract import Side
from tidemark.formats.events import field_reader
from tidemark.formats.field_types import LONG, is_plain_number
from tidemark.formats.field_values import as_text
from tidemark.oracle.input.columns import ColumnReader
from tidemark.oracle.large.event_arrays import event_arrays

PICKLED_BY_VALUE = (
    "tidemark.sparksql.executor_readers",
    "tidemark.oracle.input.columns",
    "tidemark.oracle.large.event_arrays",
    "tidemark.formats.contract",
    "tidemark.formats.events",
    "tidemark.formats.field_types",
    "tidemark.formats.field_values",
    "tidemark.formats.record_fields",
    "tidemark.formats.time_forms",
)
Batches = Iterator[pa.RecordBatch]
Reader = Callable[[Batches], Batches]
_BATCHES_END = 10**18
_PLACES = ("n", "part", "is_sentinel")


@dataclass(frozen=True)
class EventFields:
    """What is read of the records of each side. ``numbers`` are the fields that are compared; ``every`` has the columns
    of those of both sides.
    """

    sides: tuple[Side, Side]
    numbers: tuple[tuple[str, ...], tuple[str, ...]]
    every: Mapping[str, str]


def in_order(reader: Reader, names: Sequence[str]) -> Reader:
    """The same with its columns in this order: Spark takes them by their places."""

    def read(batches: Batches) -> Batches:
        for batch in reader(batches):
            yield batch.select(list(names))

    return read


def event_reader(fields: EventFields) -> Reader:
    """Reads ``n topic part is_sentinel is_absent value value_bytes`` into ``n side part is_sentinel id time_us
    readable``, each field of the key (``k0`` …), and each field that is compared.
    """

    def read(batches: Batches) -> Batches:
        readers = [ColumnReader(fields.sides[side], fields.numbers[side]) for side in (0, 1)]
        for batch in batches:
            for side, reader in enumerate(readers):
                mine = batch.filter(pc.equal(batch.column("topic"), fields.sides[side].topic))
                if mine.num_rows:
                    yield _events(fields, side, reader, mine)

    return read


def _events(fields: EventFields, side: int, reader: ColumnReader, batch: pa.RecordBatch) -> pa.RecordBatch:
    about = fields.sides[side]
    texts, raw = batch.column("value"), batch.column("value_bytes")
    values = texts.to_pylist()
    if raw.null_count < len(raw):
        values = [
            one if one is not None else other for one, other in zip(values, raw.to_pylist(), strict=True)
        ]
    columns = {name: batch.column(name) for name in _PLACES}
    columns["side"] = pa.array([side] * len(values), pa.int64())
    absent = batch.column("is_absent").to_pylist()
    return pa.RecordBatch.from_pydict(columns | event_arrays(about, reader, values, fields.every, absent))


def claim_reader(query: str, names: Sequence[str], has_refs: bool) -> Reader:
    """Reads ``o partition value headers`` of the output into ``o part batch is_plain``, and what a record says.

    Of each side it says ``l_id r_id``, and ``l_part l_position r_part r_position`` if there are refs: in this order
    ``names`` has the fields, ids first. A record is plain if headers and value are as this query writes them; a record
    that is not says as much as can be read of it.
    """
    sides = len(names) // (3 if has_refs else 1)
    ids = [f"{side}_id" for side in "lr"[:sides]]
    places = [f"{side}_{what}" for side in "lr"[:sides] for what in ("part", "position")] if has_refs else []

    def read(batches: Batches) -> Batches:
        fields_of = field_reader([*names, *names[:1]])  # a reader of two fields at least
        for batch in batches:
            values = [fields_of(value) for value in batch.column("value").to_pylist()]
            headers = [_batch_of(one or [], query) for one in batch.column("headers").to_pylist()]
            plain = [
                number is not None and fields is not None and _are_places(fields[sides : len(names)])
                for number, fields in zip(headers, values, strict=True)
            ]
            columns = {
                "o": batch.column("o"),
                "part": batch.column("partition"),
                "batch": pa.array(headers, pa.int64()),
                "is_plain": pa.array(plain, pa.bool_()),
            }
            for at, name in enumerate(ids):
                columns[name] = pa.array([fields and as_text(fields[at]) for fields in values], pa.string())
            for at, name in enumerate(places, sides):
                columns[name] = pa.array([fields and _as_place(fields[at]) for fields in values], pa.int64())
            yield pa.RecordBatch.from_pydict(columns)

    return read


def _batch_of(headers: list[dict[str, Any]], query: str) -> int | None:
    """The batch that headers name once, as they name this query once; ``None`` for all others."""
    queries = [one["value"] for one in headers if one["name"] == "query"]
    batches = [one["value"] for one in headers if one["name"] == "batch"]
    if queries != [query] or len(batches) != 1 or batches[0] is None:
        return None
    return int(batches[0]) if is_plain_number(batches[0], _BATCHES_END) else None


def _are_places(fields: Sequence[Any]) -> bool:
    """Whether each is a number or missing."""
    return all(one is None or (type(one) is int and one in LONG) for one in fields)


def _as_place(value: Any) -> int | None:
    """A number that is equal to a whole one, as Python finds it in a dictionary: ``1.0`` and ``true``, too."""
    is_whole = isinstance(value, int | float) and value == value // 1
    return int(value) if is_whole and int(value) in LONG else None
