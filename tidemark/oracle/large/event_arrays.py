"""Values of one side as columns of Arrow, read as the judgement of a small run reads them.

Free of I/O, of DuckDB and of Spark: executors of Spark load this module alone (``tidemark.sparksql``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidemark.formats.contract import Side
from tidemark.oracle.input.columns import ColumnReader


def event_arrays(
    about: Side,
    reader: ColumnReader,
    values: Sequence[bytes | str | None],
    compared: Mapping[str, str],
    absent: Sequence[bool],
) -> dict[str, Any]:
    """``id time_us readable``, the fields of the key (``k0`` …), and those of ``compared``, which names their columns.

    A field that the side does not compare is NULL. An ``absent`` record is never readable.
    """
    read = reader.read(values)
    readable = [time_us is not None or about.keeps_null_event_time for time_us in read.time_us]
    if any(absent):
        readable = [is_event and not gone for is_event, gone in zip(readable, absent, strict=True)]
    ids = [one if is_event else None for one, is_event in zip(read.id, readable, strict=True)]
    columns = {
        "id": pa.array(ids, pa.string()),
        "time_us": pa.array(read.time_us, pa.int64()),
        "readable": pa.array(readable, pa.bool_()),
    }
    for at in range(len(about.keys)):
        columns[f"k{at}"] = pa.array([key[at] for key in read.key], pa.string())
    for name, column in compared.items():
        columns[column] = pa.array(read.numbers.get(name) or [None] * len(values), pa.int64())
    return columns
