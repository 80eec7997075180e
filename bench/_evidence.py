"""Run directories without Kafka and Spark: a trace, and the output that the judge's own model predicts of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tidemark.formats import trace as trace_format
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side
from tidemark.formats.events import write_time
from tidemark.formats.evidence import FORMAT, Batch, OutputRecord, RunDirectory
from tidemark.formats.manifest import InputTopic, Manifest
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace
from tidemark.oracle.coverage import WAIVABLE
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.input.history import History, first_of, read_history, right_of
from tidemark.oracle.sql.join_answer import ask

AIM_S, AIM_BYTES = 10.0, 1_000_000_000
"""What a judgement may take."""
PARTITIONS = 4
START_US = 1_767_225_600_000_000
FAR_US = START_US + 1_000_000 * 1_000_000
"""The time of the sentinels."""

Emitted = dict[int, int]
"""Identity of an output row -> the batch that it came in."""
Change = Callable[[History, Emitted], Emitted]

_JUDGE = """
import json, sys, time
from pathlib import Path
started = time.monotonic()
from tidemark.formats.evidence import open_run
from tidemark.oracle import judge
path, engine, master, *conf = sys.argv[1:]
if engine == "spark":
    from tidemark.sparksql import spark_engine
    verdict = judge(open_run(Path(path)), engine=spark_engine(master or None, conf))
else:
    verdict = judge(open_run(Path(path)))
# The most that this program held: getrusage has that of the process that started it, too, if it held more.
[most_kb] = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(json.dumps({
    "judge_s": round(time.monotonic() - started, 3),
    "cpu_s": round(time.process_time(), 3),
    "resident_bytes": most_kb * 1024,
    "verdict": verdict.verdict,
    "findings": verdict.findings_total,
    "modelled": None if verdict.modelled is None else verdict.modelled.rows,
    "inconclusive": verdict.inconclusive,
    "counts": verdict.counts,
}))
"""


def contract(kind: JoinKind, bound: Bound) -> Contract:
    """The bundled join of impressions and clicks under a bound."""
    semi = kind is JoinKind.LEFT_SEMI
    keys = ("user_id", "ad_id")
    return Contract(
        name=str(kind),
        kind=kind,
        left=Side("impressions", "impression_id", keys, "impression_time", 10_000),
        right=Side("clicks", "click_id", keys, "click_time", 20_000),
        bound=bound,
        output=Output(
            "impression_id",
            None if semi else "click_id",
            ("impression_partition", "impression_offset"),
            None if semi else ("click_partition", "click_offset"),
        ),
    )


def record(topic: str, partition: int, value: str, arrival_us: int) -> Record:
    """A record of the trace."""
    return Record(topic=topic, partition=partition, value=value, arrival_ms=arrival_us // 1000)


def make_run(
    path: Path, described: Contract, batches: Iterable[list[Record]], change: Change | None = None
) -> RunDirectory:
    """A run directory whose batches read these records; ``change`` says what was written instead of what is right."""
    run = RunDirectory(path)
    topics = {name: TopicSpec(PARTITIONS) for name in ("impressions", "clicks")}
    ends = {name: {str(number): 0 for number in range(PARTITIONS)} for name in topics}
    plans: list[dict[str, dict[str, int]]] = []

    def counted() -> Iterator[Record]:
        for records in batches:
            for one in records:
                ends[one.topic][str(one.partition)] += 1
                yield one
            plans.append({name: dict(of) for name, of in ends.items()})

    header = Header(tidemark_trace=trace_format.FORMAT, pace="backlog", topics=topics, slices=1)
    write_trace(path / "trace.jsonl", header, counted())
    write_trace(path / "flush.jsonl", header, sentinels())
    for name in topics:
        ends[name]["0"] += 1
    plans += [{name: dict(of) for name, of in ends.items()}] * 2
    run.write_json("manifest", manifest_of(described, ends))
    write_batches(run, plans, [0] * len(plans))
    history = read_history(run)
    prediction = prediction_of(history, ask(history))
    write_batches(run, plans, prediction.watermarks_ms)
    emitted = prediction.batch_of
    run.write_lines("output", _output(history, change(history, emitted) if change else emitted))
    return run


def manifest_of(described: Contract, ends: Mapping[str, dict[str, int]]) -> Manifest:
    """The manifest of a run whose topics begin at offset 0 and end there."""
    return Manifest(
        tidemark_evidence=FORMAT,
        contract=described.to_json(),
        delivery="at-least-once",  # type: ignore[arg-type]
        inputs={name: InputTopic(name, dict.fromkeys(of, 0), of) for name, of in ends.items()},
        query_id="bench",
        waived=list(WAIVABLE),
    )


def measure(run: Path, engine: str = "duckdb", master: str = "", conf: Sequence[str] = ()) -> dict[str, Any]:
    """Judge a run directory in a process of its own; with Spark its JVM and its workers are measured, too."""
    arguments = [sys.executable, "-c", _JUDGE, str(run), engine, master, *conf]
    most = 0
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(arguments, stdout=said) as judging:
        while judging.poll() is None:
            most = max(most, _resident_bytes(judging.pid))
            with suppress(subprocess.TimeoutExpired):
                judging.wait(timeout=0.25)
        if judging.returncode:
            raise subprocess.CalledProcessError(judging.returncode, arguments)
        said.seek(0)
        measured: dict[str, Any] = json.load(said)
    return (
        measured
        if engine == "duckdb"
        else measured | {"resident_bytes": max(most, measured["resident_bytes"])}
    )


def _resident_bytes(pid: int) -> int:
    """What a process and all that it has started hold in memory; pages that they share count for each."""
    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                total += int(one.memory_info().rss)
    return total


def write_batches(
    run: RunDirectory, plans: list[dict[str, dict[str, int]]], watermarks_ms: list[int]
) -> None:
    planned = zip(plans, watermarks_ms, strict=False)
    run.write_lines(
        "batches", (Batch(batch=n, watermark_ms=ms, end_offsets=plan) for n, (plan, ms) in enumerate(planned))
    )


def _output(history: History, emitted: Emitted) -> Iterator[OutputRecord]:
    rows, output = history.rows, history.contract.output
    places = {
        row: (number, partition.offsets[index])
        for of_side in history.partitions
        for number, partition in of_side.items()
        for index, row in enumerate(partition.rows)
    }

    def fields(row: int | None, name: str | None, ref: tuple[str, str] | None) -> dict[str, object]:
        if name is None or ref is None:
            return {}
        if row is None:
            return {name: None, ref[0]: None, ref[1]: None}
        return {name: rows.id[row], ref[0]: places[row][0], ref[1]: places[row][1]}

    for number, (identity, batch) in enumerate(emitted.items()):
        first, right = first_of(identity), right_of(identity)
        left: int | None = first
        if right is None and rows.side[first]:  # the NULL row of a right row
            left, right = None, first
        value = fields(left, output.left_id, output.left_ref) | {"campaign_id": f"k-{first % 90}"}
        value |= fields(right, output.right_id, output.right_ref)
        headers = [("query", "bench"), ("batch", str(batch)), ("partition", "0"), ("attempt", "0")]
        yield OutputRecord(
            partition=number % PARTITIONS,
            offset=number // PARTITIONS,
            key=rows.id[first],
            value=json.dumps(value),
            headers=headers,  # type: ignore[arg-type]
            timestamp_ms=START_US // 1000,
        )


def sentinels() -> Iterator[Record]:
    for topic, name in (("impressions", "impression"), ("clicks", "click")):
        value = {
            f"{name}_id": f"sentinel-{name}",
            "user_id": name,
            "ad_id": "none",
            f"{name}_time": write_time(FAR_US),
            "n": 0,
        }
        yield record(topic, 0, json.dumps(value), FAR_US)
