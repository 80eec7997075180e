"""No step from the generator to the evidence holds a run's records: ten times as many need no more memory.

Each step runs in a process of its own, with a few records and then with many. The limits of what it may hold at once
are lowered there, so that a few thousand records are more than that.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tidemark import paths

pytestmark = [pytest.mark.not_smoke]

FEW, MANY = 8_000, 80_000
"""Impressions of the trace; it has half as many records more."""

MOST_MB = 15
"""Calibration: the steps grow by 0 to 10 MB, by what allocators keep, and by the metadata of Parquet. A generator that
holds its drafts grows by 33 MB, a list of all records by 70."""

PROGRAM = """
import sys
from pathlib import Path

from producers import replay, spool
from producers.generate import write
from producers.sentinels import make_sentinels
from producers.settings import Settings
from tidemark.formats import jsonlines, parquet, record_columns, storage
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side
from tidemark.formats.evidence import OutputRecord
from tidemark.formats.trace import TraceReader, trace_sha256

spool.RUN_ITEMS, spool.BLOCK_ITEMS, replay.AHEAD_RECORDS = 2_000, 50, 1_000
parquet.GROUP_ROWS, parquet.BLOCK_ROWS, record_columns.BLOCK_ROWS = 4_000, 500, 500
jsonlines.BLOCK_BYTES = storage.BLOCK_BYTES = 1 << 16
step, folder, few, many = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
SIDES = [
    Side(topic, f"{topic[:-1]}_id", ("user_id", "ad_id"), f"{topic[:-1]}_time", 10_000)
    for topic in ("impressions", "clicks")
]
CONTRACT = Contract("memory", JoinKind.INNER, *SIDES, Bound(0, 20_000), Output("impression_id", "click_id"))


def generate(trace):
    write(Settings(impressions=int(trace.stem)), trace)


def sentinels(trace):
    make_sentinels(CONTRACT, trace)


def store_and_read(trace):
    kept = storage.store_trace(trace, "parquet", folder)
    trace_sha256(kept)
    with TraceReader(kept) as records:
        assert sum(1 for _ in records) > int(trace.stem)
    kept.unlink()


def publish(trace):
    with TraceReader(trace) as records:
        slices = replay.Slices(records)
        published = sum(1 for number in range(records.header.slices) for _ in slices.take(number))
    assert published > int(trace.stem)


def hold_all(trace):
    with TraceReader(trace) as records:
        assert len(list(records)) > int(trace.stem)


def collect(trace, ending):
    storage.write_records(folder / f"output.{ending}", OutputRecord, (
        OutputRecord(partition=0, offset=number, value=f"{number:200}", headers=[("batch", str(number))])
        for number in range(int(trace.stem))
    ))


STEPS = {
    "generate": generate,
    "make sentinels": sentinels,
    "store as Parquet and read": store_and_read,
    "publish": publish,
    "collect as JSON Lines": lambda trace: collect(trace, "jsonl"),
    "collect as Parquet": lambda trace: collect(trace, "parquet"),
    "hold all": hold_all,
}


def most_kb():
    [most] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(most)


STEPS[step](folder / f"{few}.jsonl")
before = most_kb()
STEPS[step](folder / f"{many}.jsonl")
print((most_kb() - before) / 1024)
"""
STEPS = (
    "make sentinels",
    "store as Parquet and read",
    "publish",
    "collect as JSON Lines",
    "collect as Parquet",
)


def grown_mb(step: str, folder: object) -> float:
    """By how many MB the most that a process has held grows with the records."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, step, str(folder), str(FEW), str(MANY)],
        env={**os.environ, "PYTHONPATH": str(paths.payload())},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def test_generating_a_trace_holds_little(tmp_path):
    assert grown_mb("generate", tmp_path) < MOST_MB


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """A folder with both traces."""
    folder = tmp_path_factory.mktemp("traces")
    grown_mb("generate", folder)
    return folder


@pytest.mark.parametrize("step", STEPS)
def test_a_step_after_the_generator_holds_little(step, traces):
    assert grown_mb(step, traces) < MOST_MB


def test_a_step_that_held_all_records_would_be_noticed(traces):
    assert grown_mb("hold all", traces) > 2 * MOST_MB
