"""One task of the exactly-once sink, as a program: says at which point it is, and waits there to be killed or told on.

    python sink_writer.py '{"bootstrap": ..., "topic": ..., "query": ..., "batch": 0, "rows": 10, "stop_at": "begun"}'

At ``stop_at`` it prints ``at POINT`` and waits for a line on standard input; it ends with ``done`` and what it did, or
``failed`` and the error.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from tidemark.errors import TidemarkError
from tidemark.sink.fit import Task
from tidemark.sink.options import read_options
from tidemark.sink.transaction import write_task


def main() -> None:
    told = json.loads(sys.argv[1])
    options = read_options(
        {
            "kafka.bootstrap.servers": told["bootstrap"],
            "topic": told["topic"],
            "partitions": "2",
            **told.get("options", {}),
        }
    )
    task = Task(
        query=told["query"],
        run=told.get("run", "run"),
        batch=told["batch"],
        partition=told.get("partition", 0),
        attempt=0,
        partitions=options.partitions,
        offsets=told.get("offsets", ""),
    )
    pad = "." * told.get("pad", 0)
    values = [f"{told['batch']}-{number}{pad}" for number in range(told["rows"])]
    half = len(values) // 2
    batches = [pa.RecordBatch.from_pydict({"value": part}) for part in (values[:half], values[half:])]
    passed: list[str] = []

    def at(point: str) -> None:
        passed.append(point)
        if point == told.get("stop_at"):
            print(f"at {point}", flush=True)
            sys.stdin.readline()

    try:
        written = write_task(batches, task, options, at)
    except TidemarkError as error:
        print("failed", json.dumps({"message": str(error), "passed": passed}), flush=True)
        return
    print("done", json.dumps({"rows": written.rows, "new": written.new, "passed": passed}), flush=True)


if __name__ == "__main__":
    main()
