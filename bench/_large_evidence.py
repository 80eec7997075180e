"""Large run directories in Parquet, made set by set: a left outer join of impressions and clicks, written right.

    python -m bench._large_evidence DIR [--events 10000000] [--batches 40]

Everything follows from the number of an impression: its time, whether it is clicked, and how long after. Keys come
again only long after the bound, so an impression matches its own click or none, and each batch is a few statements of
SQL: what it reads, the pairs that its clicks complete, and the NULL rows that its watermark evicts. No row is late.
Memory does not grow with the number of events. A slice of the trace is a batch, so that a query can be run on it.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import msgspec

from bench._evidence import PARTITIONS, START_US, contract, manifest_of, sentinels, write_batches
from tidemark.formats import trace as trace_format
from tidemark.formats.contract import Bound, JoinKind
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.formats.parquet import GROUP_ROWS, RowWriter
from tidemark.formats.record_columns import LAYOUTS
from tidemark.formats.record_files import HEADER_KEY
from tidemark.formats.storage import parquet_digests
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace

SPAN_US = 3_600_000_000
REACH_US, LONGEST_US = 20_000_000, 24_000_000
"""The bound, and the longest time from an impression to its click: one click in six is outside of the bound."""
USERS, ADS = 50_000, 500
AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
)

_SCATTERED = "(({i} * 2654435761) % 4294967296)"
_MACROS = f"""
CREATE MACRO time_of(i) AS {START_US} + i * $step;
CREATE MACRO is_clicked(i) AS ({_SCATTERED.format(i="i")} // 65536) % 7 < 3;
CREATE MACRO wait_of(i) AS (i * 7919 + {_SCATTERED.format(i="i")}) % {LONGEST_US};
CREATE MACRO click_time_of(i) AS time_of(i) + wait_of(i);
CREATE MACRO is_matched(i) AS is_clicked(i) AND wait_of(i) <= {REACH_US};
CREATE MACRO written(us) AS strftime(make_timestamp(us), '%Y-%m-%dT%H:%M:%S.%fZ');
CREATE MACRO key_of(i) AS '"user_id":"u-' || lpad((i % {USERS})::VARCHAR, 6, '0') || '","ad_id":"a-'
    || lpad((i // {USERS} % {ADS})::VARCHAR, 4, '0') || '"';
CREATE MACRO impression_id(i) AS 'i-' || lpad(i::VARCHAR, 8, '0');
CREATE MACRO click_id(c) AS 'c-' || lpad(c::VARCHAR, 8, '0');
CREATE MACRO header(name, value) AS {{'name': name, 'value': value, 'value_bytes': NULL::BLOB}};
"""
_TRACE_ROW = """
SELECT $topic AS topic, n % $partitions AS partition, NULL::VARCHAR AS key, value,
    []::STRUCT(name VARCHAR, value VARCHAR, value_bytes BLOB)[] AS headers, us // 1000 AS arrival_ms,
    NULL::BIGINT AS timestamp_ms, NULL::BIGINT AS event_ms, $slice AS slice,
    NULL::BLOB AS key_bytes, NULL::BLOB AS value_bytes, NULL::VARCHAR AS line
FROM ({rows})
"""
_IMPRESSIONS = f"""
SELECT i AS n, time_of(i) AS us, '{{"impression_id":"' || impression_id(i) || '",' || key_of(i) || ',"campaign_id":"k-'
    || i % 90 || '","page":"/news/' || i % 977 || '","user_agent":"{AGENT}","impression_time":"'
    || written(time_of(i)) || '"}}' AS value
FROM range($first, $end) AS t(i)
"""
_CLICKS = """
SELECT c AS n, click_time_of(i) AS us, '{"click_id":"' || click_id(c) || '",' || key_of(i) || ',"page_x":' || c % 1000
    || ',"click_time":"' || written(click_time_of(i)) || '"}' AS value
FROM clicks
"""
_OUTPUT = """
SELECT $partition AS partition, $offset + row_number() OVER () - 1 AS "offset", impression_id(i) AS key,
    '{"impression_id": "' || impression_id(i) || '", "impression_partition": ' || i % $partitions
    || ', "impression_offset": ' || i // $partitions || ', "campaign_id": "k-' || i % 90 || '", "click_id": '
    || coalesce('"' || click_id(c) || '"', 'null')
    || ', "click_partition": ' || coalesce((c % $partitions)::VARCHAR, 'null')
    || ', "click_offset": ' || coalesce((c // $partitions)::VARCHAR, 'null') || '}' AS value,
    [header('query', 'bench'), header('batch', $batch), header('partition', '0'), header('attempt', '0')] AS headers,
    $written_ms AS timestamp_ms, NULL::VARCHAR AS line
FROM ({rows})
"""
_PAIRS = "SELECT i, c FROM clicks WHERE is_matched(i)"
_NULL_ROWS = "SELECT i, NULL::BIGINT AS c FROM range($first, $end) AS t(i) WHERE NOT is_matched(i)"
_BATCH_CLICKS = """
CREATE OR REPLACE TEMP TABLE clicks AS
SELECT i, $before + row_number() OVER (ORDER BY i) - 1 AS c
FROM range($first, $end) AS t(i)
WHERE is_clicked(i) AND click_time_of(i) >= $from_us AND click_time_of(i) < $to_us
"""


@dataclass
class _Maker:
    """What has been written so far; ``evicted`` is the first impression that is still in the state."""

    impressions: int
    batches: int
    trace: RowWriter
    output: RowWriter
    clicks: int = 0
    evicted: int = 0
    rows_out: int = 0
    latest_us: list[int] = field(default_factory=lambda: [0, 0])
    watermark_ms: int = 0
    plans: list[dict[str, dict[str, int]]] = field(default_factory=list)
    watermarks_ms: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.step_us = max(1, SPAN_US // self.impressions)
        self._database = duckdb.connect()
        self._database.execute(_MACROS.replace("$step", str(self.step_us)))

    def data_batch(self, number: int) -> None:
        """A batch of impressions, and of the clicks of the same stretch of time."""
        first, end = (self.impressions * (number + more) // self.batches for more in (0, 1))
        from_us, is_last = START_US + first * self.step_us, number == self.batches - 1
        to_us = START_US + (end * self.step_us if not is_last else 1000 * SPAN_US)
        earliest = max(0, first - LONGEST_US // self.step_us - 1)
        numbers = {"before": self.clicks, "first": earliest, "end": end, "from_us": from_us, "to_us": to_us}
        self._database.execute(_BATCH_CLICKS, numbers)
        [found] = self._database.execute("SELECT count(*), max(click_time_of(i)) FROM clicks").fetchall()
        self._write_trace("impressions", _IMPRESSIONS, {"first": first, "end": end})
        self._write_trace("clicks", _CLICKS, {})
        self.clicks += found[0]
        self._plan(end)
        self._write_output(_PAIRS, {})
        self._evict()
        self.latest_us = [START_US + (end - 1) * self.step_us, max(self.latest_us[1], found[1] or 0)]
        self._move()

    def last_batches(self, sentinels_us: int) -> None:
        """The batch that reads the sentinels, and the one without data that follows."""
        for more in (0, 1):
            self._plan(self.impressions, sentinels=1)
            self._evict(to=self.impressions if more else None)
            self.latest_us = [sentinels_us, sentinels_us]
            self._move()

    def _plan(self, impressions: int, *, sentinels: int = 0) -> None:
        counts = {"impressions": impressions, "clicks": self.clicks}
        self.plans.append({topic: _ends(count, sentinels) for topic, count in counts.items()})
        self.watermarks_ms.append(self.watermark_ms)

    def _move(self) -> None:
        """The watermark of the next batch: that of the slower input, under delays of 10 s and 20 s."""
        left_us, right_us = self.latest_us
        self.watermark_ms = max(self.watermark_ms, min(left_us // 1000 - 10_000, right_us // 1000 - 20_000))

    def _evict(self, *, to: int | None = None) -> None:
        """The NULL rows of impressions that no click can match any more: up to a millisecond before the bound's end."""
        limit_us = (self.watermark_ms - REACH_US // 1000 - 1) * 1000
        end = (
            max(self.evicted, min(self.impressions, (limit_us - START_US) // self.step_us + 1))
            if to is None
            else to
        )
        self._write_output(_NULL_ROWS, {"first": self.evicted, "end": end})
        self.evicted = end

    def _write_trace(self, topic: str, rows: str, numbers: dict[str, int]) -> None:
        given = {"topic": topic, "partitions": PARTITIONS, "slice": len(self.plans), **numbers}
        for batch in self._database.sql(_TRACE_ROW.format(rows=rows), params=given).to_arrow_reader(
            GROUP_ROWS
        ):
            self.trace.write_batch(batch)

    def _write_output(self, rows: str, numbers: dict[str, int]) -> None:
        given = {
            "partition": 0, "partitions": PARTITIONS, "offset": self.rows_out, "batch": str(len(self.plans) - 1),
            "written_ms": START_US // 1000, **numbers,
        }  # fmt: skip
        sql = _OUTPUT.replace("{rows}", rows)
        for batch in self._database.sql(sql, params=given).to_arrow_reader(GROUP_ROWS):
            self.output.write_batch(batch)
            self.rows_out += batch.num_rows


def _ends(count: int, sentinels: int) -> dict[str, int]:
    """The end offset of each partition: records go to one after the other, sentinels to the first."""
    ends = {str(number): (count + PARTITIONS - 1 - number) // PARTITIONS for number in range(PARTITIONS)}
    return ends | {"0": ends["0"] + sentinels}


def make_large_run(path: Path, events: int, batches: int) -> RunDirectory:
    """A run directory with about this many events, of which three in ten are clicks."""
    path.mkdir(parents=True, exist_ok=True)
    run = RunDirectory(path)
    described = contract(JoinKind.LEFT_OUTER, Bound(-REACH_US // 1000, 0))
    topics = {name: TopicSpec(PARTITIONS) for name in ("impressions", "clicks")}
    header = Header(tidemark_trace=trace_format.FORMAT, pace="backlog", topics=topics, slices=batches)
    flush = list(sentinels())
    write_trace(path / "flush.jsonl", header, flush)
    impressions = math.ceil(events * 0.7)
    with (
        RowWriter(path / "trace.parquet", LAYOUTS[Record].columns) as trace,
        RowWriter(path / "output.parquet", LAYOUTS[OutputRecord].columns) as output,
    ):
        trace.metadata[HEADER_KEY] = msgspec.json.encode(header).decode()
        maker = _Maker(impressions, batches, trace, output)
        for number in range(batches):
            maker.data_batch(number)
        maker.last_batches(flush[0].arrival_ms * 1000)
    write_batches(run, maker.plans, maker.watermarks_ms)
    manifest = manifest_of(described, maker.plans[-1])
    manifest.records, manifest.parquet_sha256 = run.count_records(), parquet_digests(run)
    run.write_json("manifest", manifest)
    return run


def main() -> None:
    """Make a directory."""
    parser = argparse.ArgumentParser(prog="python -m bench._large_evidence", description=__doc__)
    parser.add_argument("path", type=Path, metavar="DIR")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=40)
    args = parser.parse_args()
    run = make_large_run(args.path, args.events, args.batches)
    sys.stdout.write(msgspec.json.encode(run.manifest.records).decode() + "\n")


if __name__ == "__main__":
    main()
