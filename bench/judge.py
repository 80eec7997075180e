"""Judging a million events: how long it takes and how much memory, reading the evidence included.

    python -m bench.judge [--events 1000000] [--kind left_outer] [--keep DIR]

Makes a run directory (without Kafka and Spark: its output is what the judge's own model predicts), judges it in a
process of its own, so that the memory is the judge's alone, and prints one JSON object. The aims are 10 s and 1 GB.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tidemark.formats import trace as trace_format
from tidemark.formats.contract import Bound, Contract, JoinKind, Output, Side
from tidemark.formats.events import write_time
from tidemark.formats.evidence import FORMAT, Batch, InputTopic, Manifest, OutputRecord, RunDirectory
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace
from tidemark.oracle.input.history import first_of, read_history, right_of
from tidemark.oracle.model.join_replay import predict

AIM_S = 10.0
AIM_BYTES = 1_000_000_000
BATCHES = 40
PARTITIONS = 4
CLICK_SHARE = 0.3
LATE_SHARE = 0.03
SPAN_S = 3600
START_US = 1_767_225_600_000_000
AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
)

_JUDGE = """
import json, resource, sys, time
from pathlib import Path
started = time.monotonic()
from tidemark.formats.evidence import open_run
from tidemark.oracle import judge
verdict = judge(open_run(Path(sys.argv[1])))
print(json.dumps({
    "judge_s": round(time.monotonic() - started, 3),
    "cpu_s": round(time.process_time(), 3),
    "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "verdict": verdict.verdict,
    "findings": verdict.findings_total,
    "doubts": verdict.doubts,
    "counts": verdict.counts,
}))
"""


def contract(kind: JoinKind) -> Contract:
    """The bundled join of impressions and clicks."""
    semi = kind is JoinKind.LEFT_SEMI
    keys = ("user_id", "ad_id")
    return Contract(
        name=str(kind),
        kind=kind,
        left=Side("impressions", "impression_id", keys, "impression_time", 10_000),
        right=Side("clicks", "click_id", keys, "click_time", 20_000),
        bound=Bound(-20_000, 0),
        output=Output(
            "impression_id",
            None if semi else "click_id",
            ("impression_partition", "impression_offset"),
            None if semi else ("click_partition", "click_offset"),
        ),
    )


def events(count: int, rng: random.Random) -> Iterator[Record]:
    """Impressions, three in ten of them clicked a few seconds later; a few rows come too late."""
    waiting: list[tuple[int, str, str, int]] = []
    impressions = round(count * (1 - CLICK_SHARE))
    clicks = 0
    for number in range(impressions):
        now_us = START_US + SPAN_S * 1_000_000 * number // impressions
        user, ad = f"u-{rng.randrange(50_000):06d}", f"a-{rng.randrange(500):04d}"
        late_us = rng.randrange(300_000_000) if rng.random() < LATE_SHARE else 0
        value = (
            f'{{"impression_id":"i-{number:08d}","user_id":"{user}","ad_id":"{ad}","campaign_id":"k-{number % 90}",'
            f'"page":"/news/{number % 977}","user_agent":"{AGENT}","impression_time":"{write_time(now_us - late_us)}"}}'
        )
        yield _record("impressions", number % PARTITIONS, value, now_us)
        while clicks * impressions < (number + 1) * (count - impressions):
            waiting.append((now_us + rng.randrange(24_000_000), user, ad, clicks))
            clicks += 1
        if len(waiting) > 2000 or number == impressions - 1:
            waiting.sort()
            ready = len(waiting) if number == impressions - 1 else len(waiting) // 2
            for time_us, user_id, ad_id, click in waiting[:ready]:
                text = (
                    f'{{"click_id":"c-{click:08d}","user_id":"{user_id}","ad_id":"{ad_id}","page_x":{click % 1000},'
                    f'"click_time":"{write_time(time_us)}"}}'
                )
                yield _record("clicks", click % PARTITIONS, text, now_us)
            del waiting[:ready]


def make_run(path: Path, count: int, kind: JoinKind, rng: random.Random) -> RunDirectory:
    """A run directory with nothing wrong in it."""
    run = RunDirectory(path)
    topics = {name: TopicSpec(PARTITIONS) for name in ("impressions", "clicks")}
    ends = {name: {str(number): 0 for number in range(PARTITIONS)} for name in topics}
    plans: list[dict[str, dict[str, int]]] = []

    def counted() -> Iterator[Record]:
        for number, record in enumerate(events(count, rng), 1):
            ends[record.topic][str(record.partition)] += 1
            if number % (count // BATCHES) == 0:
                plans.append({name: dict(of) for name, of in ends.items()})
            yield record

    header = Header(tidemark_trace=trace_format.FORMAT, pace="backlog", topics=topics, slices=BATCHES)
    write_trace(path / "trace.jsonl", header, counted())
    plans.append({name: dict(of) for name, of in ends.items()})
    write_trace(path / "flush.jsonl", header, _sentinels())
    for name in topics:
        ends[name]["0"] += 1
    plans += [{name: dict(of) for name, of in ends.items()}] * 2
    manifest = Manifest(
        tidemark_evidence=FORMAT,
        contract=contract(kind).to_json(),
        delivery="at-least-once",  # type: ignore[arg-type]
        inputs={name: InputTopic(name, dict.fromkeys(of, 0), of) for name, of in ends.items()},
        query_id="bench",
        waived=["rows_joined", "semi_row_emitted", "null_row_after_eviction", "late_row_dropped"],
    )
    run.write_json("manifest", manifest)
    _write_batches(run, plans, [0] * len(plans))
    _write_output(run, plans)
    return run


def _write_batches(
    run: RunDirectory, plans: list[dict[str, dict[str, int]]], watermarks_ms: list[int]
) -> None:
    planned = zip(plans, watermarks_ms, strict=False)
    run.write_lines(
        "batches", (Batch(batch=n, watermark_ms=ms, end_offsets=plan) for n, (plan, ms) in enumerate(planned))
    )


def _write_output(run: RunDirectory, plans: list[dict[str, dict[str, int]]]) -> None:
    history = read_history(run)
    prediction = predict(history)
    _write_batches(run, plans, prediction.watermarks_ms)
    rows, output = history.rows, history.contract.output
    places = {
        row: (number, partition.first_offset + index)
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

    def records() -> Iterator[OutputRecord]:
        for number, (identity, batch) in enumerate(prediction.batch_of.items()):
            left = first_of(identity)
            value = fields(left, output.left_id, output.left_ref) | {"campaign_id": f"k-{left % 90}"}
            value |= fields(right_of(identity), output.right_id, output.right_ref)
            headers = [("query", "bench"), ("batch", str(batch)), ("partition", "0"), ("attempt", "0")]
            yield OutputRecord(
                partition=number % PARTITIONS,
                offset=number // PARTITIONS,
                key=rows.id[left],
                value=json.dumps(value),
                headers=headers,  # type: ignore[arg-type]
                timestamp_ms=START_US // 1000,
            )

    run.write_lines("output", records())


def measure(run: Path) -> dict[str, object]:
    """Judge a run directory in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", _JUDGE, str(run)], capture_output=True, text=True, check=True
    )
    measured: dict[str, object] = json.loads(done.stdout)
    return measured


def main() -> None:
    """Make, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.judge", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--kind", type=JoinKind, default=JoinKind.LEFT_OUTER, choices=list(JoinKind))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="leave the run directory here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as scratch:
        path = args.keep or Path(scratch) / "run"
        path.mkdir(parents=True)
        run = make_run(path, args.events, args.kind, random.Random(args.seed))
        measured = {"bench": "judge", "events": args.events, "kind": args.kind, **measure(run.path)}
    measured |= {"aim_s": AIM_S, "aim_bytes": AIM_BYTES}
    sys.stdout.write(json.dumps(measured) + "\n")


def _sentinels() -> Iterator[Record]:
    far_us = START_US + 10 * SPAN_S * 1_000_000
    for topic, name in (("impressions", "impression"), ("clicks", "click")):
        value = {
            f"{name}_id": f"sentinel-{name}",
            "user_id": name,
            "ad_id": "none",
            f"{name}_time": write_time(far_us),
        }
        yield _record(topic, 0, json.dumps(value), far_us)


def _record(topic: str, partition: int, value: str, arrival_us: int) -> Record:
    return Record(topic=topic, partition=partition, value=value, arrival_ms=arrival_us // 1000)


if __name__ == "__main__":
    main()
