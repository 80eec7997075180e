"""How the generator grows: events a second, and the most memory of its process, over the number of events.

    python -m bench._trace_sizes [--events 100000 1000000 10000000] [--scratch DIR]

Each trace is generated in a process of its own, start of Python included, and removed. Ten million events take 4.4 GB
of disk, and 0.6 GB of temporary files meanwhile. Prints a table, and a JSON object on its last line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench._summary import print_result, say

SIZES = (100_000, 1_000_000, 10_000_000)
IMPRESSIONS_SHARE = 0.67
"""The share of a trace's events that are impressions, at the generator's defaults."""

_GENERATE = """
import json, sys, time
from pathlib import Path
from producers.generate import write
from producers.settings import Settings
_, header = write(Settings(impressions=int(sys.argv[2])), Path(sys.argv[1]))
[most_kb] = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(json.dumps({
    "events": header.counts["impressions"] + header.counts["clicks"],
    "cpu_s": round(time.process_time(), 2),
    "resident_bytes": most_kb * 1024,
}))
"""


def measured(events: int, scratch: Path | None) -> dict[str, Any]:
    """Generate a trace of about so many events in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-", dir=scratch) as folder:
        path, start_s = Path(folder) / "trace.jsonl", time.monotonic()
        command = [sys.executable, "-c", _GENERATE, str(path), str(round(events * IMPRESSIONS_SHARE))]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return {**json.loads(done.stdout), "seconds": round(time.monotonic() - start_s, 2)}


def row(one: dict[str, Any]) -> str:
    """A row of the table."""
    events, seconds, cpu_s = one["events"], one["seconds"], one["cpu_s"]
    rates = f"{events / seconds:,.0f} | {events / cpu_s:,.0f}"
    return f"| {events:,} | {seconds:.1f} | {rates} | {one['resident_bytes'] / 1e6:,.0f} |\n"


def main() -> None:
    """Measure each size, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench._trace_sizes", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--events", type=int, nargs="+", default=SIZES)
    parser.add_argument("--scratch", type=Path, help="write the traces here")
    args = parser.parse_args()
    found = []
    for events in args.events:
        found.append(measured(events, args.scratch))
        say(json.dumps(found[-1]))
    sys.stdout.write("| events | seconds | events/s | events/s of processor time | memory, MB |\n")
    sys.stdout.write("|---:|---:|---:|---:|---:|\n" + "".join(map(row, found)))
    print_result({"sizes": found})


if __name__ == "__main__":
    main()
