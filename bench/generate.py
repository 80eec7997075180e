"""Making a trace: events a second, with starting Python, making the pools, and writing the file.

    python -m bench.generate [--impressions 200000] [--runs 5]

Measured against the least that any generator must do: writing the same records, made before, through the same format.
The aim is 100,000 events a second.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench._summary import print_result, say, summary
from tidemark.formats.trace import TraceReader, write_trace

AIM_PER_S = 100_000


def generated_per_s(path: Path, impressions: int, seed: int) -> tuple[float, float]:
    """Events a second of ``python -m producers generate``, the whole process: by the clock, and of CPU time."""
    command = [sys.executable, "-m", "producers", "generate", "--out", str(path)]
    start_s, start_cpu_s = time.monotonic(), _children_cpu_s()
    done = subprocess.run(
        [*command, "--impressions", str(impressions), "--seed", str(seed)],
        check=True,
        stdout=subprocess.PIPE,
    )
    seconds, cpu_s = time.monotonic() - start_s, _children_cpu_s() - start_cpu_s
    counts = json.loads(done.stdout)["counts"]
    events = float(counts["impressions"] + counts["clicks"])
    return events / seconds, events / cpu_s


def written_per_s(path: Path, scratch: Path) -> float:
    """Records a second that are written when making them costs nothing."""
    with TraceReader(path) as reader:
        header, records = reader.header, list(reader)
    start_s = time.monotonic()
    write_trace(scratch, header, records)
    return len(records) / (time.monotonic() - start_s)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.generate", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--impressions", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    made, of_cpu, written = [], [], []
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        path, scratch = Path(folder) / "trace.jsonl", Path(folder) / "again.jsonl"
        for run in range(args.runs):
            by_clock, by_cpu = generated_per_s(path, args.impressions, seed=run + 1)
            made.append(by_clock)
            of_cpu.append(by_cpu)
            written.append(written_per_s(path, scratch))
            say(f"run {run + 1}: generated {made[-1]:,.0f} events/s, written {written[-1]:,.0f} records/s")
    result = summary("generate", "events/s", made)
    against = summary("write only", "records/s", written)
    ratio = round(result["median"] / against["median"], 3)
    cpu = summary("generate, per second of CPU", "events/s", of_cpu)
    print_result({**result, "ratio": ratio, "against": against, "cpu": cpu, "aim_per_s": AIM_PER_S})


if __name__ == "__main__":
    main()
