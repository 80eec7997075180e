"""What ``batch_counts`` counts, of evidence with more records: DuckDB reads the files, NumPy gives records to batches.

Free of judgement. Only what is plain is read so: one join, its fields at the top of JSON records, its times written in
full, in files that are as a run sealed them. Late rows and rows that came again are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import numpy as np

from tidemark.formats.chain import Chain
from tidemark.formats.contract import Contract, Side
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.formats.input_offsets import first_offsets
from tidemark.formats.scans import text_of
from tidemark.oracle.large.output import is_plain_query
from tidemark.oracle.large.plain import as_time_us, is_plain_name, is_time
from tidemark.oracle.spark.time_ranges import US_PER_MS
from tidemark.oracle.sql.join_answer import QUIET
from tidemark.reports.batch_counts import InputCounts, OutputCounts, ends_of


@contextmanager
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB in memory, for the scans of one page."""
    with duckdb.connect(":memory:", config={"memory_limit": "1500MB"}) as sql:
        sql.execute(QUIET)
        yield sql


def count_large_inputs(
    run: RunDirectory, contract: Contract | Chain, batches: Sequence[Batch]
) -> list[InputCounts] | None:
    """The counts of each input, without late rows; ``None`` if it cannot be read so."""
    if isinstance(contract, Chain) or (trace := run.scan("trace")) is None:
        return None
    sides = contract.left, contract.right
    if not all(one.is_plain and one.decode is None and is_plain_name(one.time) for one in sides):
        return None
    counts = [InputCounts([None] * len(batches), [0] * len(batches)) for _ in sides]
    ends = {place: np.array(found) for place, found in ends_of(run.manifest, batches).items()}
    before = first_offsets(run.manifest.inputs)
    with database() as sql:
        for scan, is_sentinel in ((trace, False), (run.scan("flush"), True)):
            for side, counted in zip(sides, counts, strict=True) if scan is not None else ():
                read = sql.execute(_times(scan, side)).fetchnumpy()
                if read["odd"].any():
                    return None
                for part in np.unique(read["part"]).tolist():
                    place = side.topic, part
                    times_us = np.ma.filled(read["time_us"][read["part"] == part], -1)
                    _add(counted, times_us, before.get(place, 0), ends.get(place), is_sentinel=is_sentinel)
                    before[place] = before.get(place, 0) + len(times_us)
    return counts


def _times(scan: str | None, side: Side) -> str:
    """Partition and event time of the records of a side, in order; odd is a time that is not written in full."""
    field = f"cast(json_extract(value, {text_of(f'$.{chr(34)}{side.time}{chr(34)}')}) as varchar)"
    return f"""
select part, case when {is_time("field", "time_us")} then time_us end as time_us,
    coalesce(field is not null and field <> 'null' and not ({is_time("field", "time_us")}), false) as odd
from (
    select *, {as_time_us("field")} as time_us
    from (
        select cast(coalesce(partition, 0) as integer) as part, case when json_valid(value) then {field} end as field
        from {scan} where topic = {text_of(side.topic)}
    ) fields
) times
"""


def _add(
    counted: InputCounts, times_us: np.ndarray, start: int, ends: np.ndarray | None, *, is_sentinel: bool
) -> None:
    """Add the records of a partition, of which the first has the offset ``start``; a time below 0 is none."""
    if ends is None or not len(times_us):
        return
    bounds = np.clip(ends - start, 0, len(times_us)).tolist()
    for at, (begin, end) in enumerate(zip([0, *bounds], bounds, strict=False)):
        if begin >= end or (latest_us := int(times_us[begin:end].max())) < 0:
            continue
        latest_ms = latest_us // US_PER_MS
        counted.latest_ms[at] = max(counted.latest_ms[at] or 0, latest_ms)
        if not is_sentinel:
            counted.last_ms = max(counted.last_ms, latest_ms)


def count_large_output(
    run: RunDirectory, contract: Contract | Chain, batches: Sequence[Batch]
) -> OutputCounts | None:
    """The output records of each batch, without those that came again; ``None`` if they cannot be read so."""
    query = run.manifest.query_id
    if isinstance(contract, Chain) or not is_plain_query(query):
        return None
    output = contract.output
    names = [output.left_id, *([output.right_id] if output.right_id else [])]
    scan = run.scan("output", query or "")
    if scan is None or not all(map(is_plain_name, names)):
        return None
    index = {batch.batch: at for at, batch in enumerate(batches)}
    counts = OutputCounts([0] * len(batches), [0] * len(batches), None)
    paths = [text_of(f'$."{name}"') for name in names]
    absent = " or ".join(f"json_extract_string(value, {path}) is null" for path in paths)
    text = f"""
select try_cast(batch as bigint) as batch, case when json_valid(value) then {absent} end as is_null, count(*) as many
from {scan} group by all
"""
    with database() as sql:
        for batch, is_null, many in sql.execute(text).fetchall():
            at = None if is_null is None else index.get(batch)
            if at is None:
                counts.unplaced += many
            else:
                (counts.nulls if is_null else counts.joined)[at] += many
    return counts
