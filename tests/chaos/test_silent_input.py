"""A restart after which one input is silent: the watermark stands until both have spoken, and NULL rows come once."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from tidemark.campaigns.case import Case
from tidemark.campaigns.random_cases import flush_of
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side
from tidemark.formats.events import write_time
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import Record
from tidemark.reports.timeline import timeline

pytestmark = [pytest.mark.chaos]

CONTRACT = Contract(
    "silent_input",
    JoinKind.LEFT_OUTER,
    Side("lefts", "id", ("k",), "t", 0),
    Side("rights", "id", ("k",), "t", 0),
    Bound(-5_000, 0),
    Output("left_id", "right_id", ("left_partition", "left_offset"), ("right_partition", "right_offset")),
)
SLICES = (
    (("lefts", "L1", 10), ("rights", "R1", 200)),
    (("lefts", "L2", 100),),
    (("lefts", "L3", 110),),
    (("lefts", "L4", 120), ("rights", "L4", 122)),
)
"""Each is there before a start of the query of its own: topic, id, event time in seconds."""


def record(number, topic, name, second):
    value = {"id": name, "k": name, "t": write_time(second * 1_000_000)}
    return Record(topic=topic, value=json.dumps(value), slice=number, arrival_ms=1000 * second)


CASE = Case(
    name="silent input",
    contract=CONTRACT,
    records=tuple(record(number, *one) for number, rows in enumerate(SLICES) for one in rows),
    flush=flush_of(CONTRACT),
    mode="stepped",
)


@pytest.mark.parametrize("sink", ["exactly-once", pytest.param("spark", marks=pytest.mark.long)])
def test_the_watermark_stands_until_every_input_has_spoken(sink, stack, tmp_path):
    with WarmDriver(stack, stack.driver(), tmp_path) as warm:
        verdict = warm.run(replace(CASE, sink=sink), tmp_path / "run")

    assert verdict.verdict == "VALID", (verdict.findings, verdict.inconclusive)
    evidence = RunDirectory(tmp_path / "run")
    seconds = {}  # of the watermark, by how many records were read
    for batch in evidence.batches():
        read = sum(sum(ends.values()) for ends in batch.end_offsets.values())
        seconds.setdefault(read, []).append(batch.watermark_ms // 1000)
    # Left alone it would have gone to 100 with L2: its other input had been at 200 before the restart.
    assert {second for read in (3, 4) for second in seconds[read]} == {10}
    assert max(seconds[6]) == 120
    values = [json.loads(record.value) for record in evidence.output()]
    nulls = Counter(value["left_id"] for value in values if value["right_id"] is None)
    assert nulls == {"L1": 1, "L2": 1, "L3": 1}
    assert [value["left_id"] for value in values if value["right_id"]] == ["L4"]
    assert sum("waits for rights" in line for line in timeline(evidence)) == 2
