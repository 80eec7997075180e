"""Publishing a trace, against Kafka's own ``kafka-producer-perf-test``: same broker, same number and size of records.

    python -m bench.publish [--impressions 200000] [--runs 3] [--bootstrap HOST:PORT]

Both run on one core (the broker on whatever it likes), one after the other, with the same ``acks``, idempotence, batch
size and linger. Ours reads the trace from a file and gives each record its key, partition and timestamp; theirs
repeats one payload without any. Neither side's start of process is counted. The aims are 50,000 events a second, and
0.8 of theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench._summary import print_result, say, summary
from tidemark.formats.trace import TraceReader
from tidemark.kafka import client as kafka
from tidemark.stack import StackSpec, lease
from tidemark.stack.install.jars import provide
from tidemark.stack.install.toolchain import find_java, find_spark

AIM_PER_S = 50_000
AIM_RATIO = 0.8
PARTITIONS = 2
PRODUCER = (
    "acks=all",
    "enable.idempotence=true",
    "linger.ms=5",
    "batch.size=524288",
    "compression.type=none",
)


@dataclass(frozen=True)
class Load:
    """The trace, as the other side must imitate it."""

    trace: Path
    records: int
    mean_bytes: int


def make_load(folder: Path, impressions: int) -> Load:
    """A generated trace, and what it weighs."""
    path = folder / "trace.jsonl"
    command = [sys.executable, "-m", "producers", "generate", "--out", str(path)]
    subprocess.run(
        [*command, "--impressions", str(impressions), "--pace", "backlog"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    records = weight = 0
    with TraceReader(path) as reader:
        for record in reader:
            records += 1
            weight += len(record.value_bytes() or b"") + len(record.key_bytes() or b"")
    return Load(path, records, weight // records)


def ours_per_s(load: Load, bootstrap: str) -> float:
    """Records a second of ``python -m producers replay``, reading the trace and waiting for all acks included."""
    names = {name: f"bench-{name}-{uuid.uuid4().hex[:8]}" for name in ("impressions", "clicks")}
    with topics(bootstrap, list(names.values())):
        pairs = [f"--topic={logical}={topic}" for logical, topic in names.items()]
        command = [sys.executable, "-m", "producers", "replay", str(load.trace), "--bootstrap", bootstrap]
        done = subprocess.run([*command, *pairs], check=True, stdout=subprocess.PIPE)
        said = json.loads(done.stdout)
    return float(said["records"]) / float(said["seconds"])


def theirs_per_s(load: Load, bootstrap: str, class_path: str) -> float:
    """Records a second, as ``kafka-producer-perf-test`` says itself."""
    topic = f"bench-perf-{uuid.uuid4().hex[:8]}"
    with topics(bootstrap, [topic]):
        command = [str(find_java()), "-Xms256m", "-Xmx512m", "-cp", class_path]
        command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic]
        command += ["--num-records", str(load.records), "--record-size", str(load.mean_bytes)]
        command += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}", *PRODUCER]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    found = re.findall(r"([\d.]+) records/sec", done.stdout)
    return float(found[-1])


@contextmanager
def broker(bootstrap: str) -> Iterator[str]:
    """The address of a broker that runs."""
    if bootstrap:
        yield bootstrap
        return
    with lease(StackSpec()) as stack:
        yield stack.bootstrap_servers


@contextmanager
def topics(bootstrap: str, names: list[str]) -> Iterator[None]:
    """Topics that are gone afterwards."""
    kafka.create_topics(bootstrap, dict.fromkeys(names, PARTITIONS))
    try:
        yield
    finally:
        kafka.delete_topics(bootstrap, names)


@contextmanager
def one_core() -> Iterator[None]:
    """What is started here runs on one core."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.publish", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--impressions", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bootstrap", default="", help="a broker; a stack's if not said")
    args = parser.parse_args()
    jars = provide(find_java(), find_spark(Path(sys.executable)), ("broker", "tools"), say)
    class_path = os.pathsep.join(str(jar) for group in jars.values() for jar in group)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, broker(args.bootstrap) as bootstrap:
        load = make_load(Path(folder), args.impressions)
        for run in range(args.runs):
            with one_core():
                ours.append(ours_per_s(load, bootstrap))
                theirs.append(theirs_per_s(load, bootstrap, class_path))
            say(f"run {run + 1}: ours {ours[-1]:,.0f}, theirs {theirs[-1]:,.0f} records/s")
    result = summary("publish", "events/s", ours)
    against = summary("kafka-producer-perf-test", "records/s", theirs)
    ratio = round(result["median"] / against["median"], 3)
    about = {"records": load.records, "mean_bytes": load.mean_bytes}
    aims = {"aim_per_s": AIM_PER_S, "aim_ratio": AIM_RATIO}
    print_result({**result, "ratio": ratio, "against": against, **about, **aims})


if __name__ == "__main__":
    main()
