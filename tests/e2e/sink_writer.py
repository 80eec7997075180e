"""One task of the exactly-once sink, as a program: says at which point it is, and waits there to be killed or told on.

    python sink_writer.py '{"bootstrap": ..., "topic": ..., "query": ..., "batch": 0, "rows": 10, "stop_at": "begun"}'

At ``stop_at`` it prints ``at POINT`` and waits for a line on standard input; it ends with ``done`` and what it did, or
``failed`` and the error. ``columns`` has the cells of other columns than ``value``; ``pad`` makes every value longer,
``last_pad`` the last.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from tidemark.errors import TidemarkError
from tidemark.sink.ledger_checks import Task
from tidemark.sink.sink_options import read_options
from tidemark.sink.task.transaction import write_task


def rows(told: dict, values: list[str], first: int) -> pa.RecordBatch:
    """Rows with these values, and what ``columns`` says of them."""
    more = {name: cells[first : first + len(values)] for name, cells in told.get("columns", {}).items()}
    return pa.RecordBatch.from_pydict({"value": values, **more})


def main() -> None:
    told = json.loads(sys.argv[1])
    options = read_options(
        {
            "kafka.bootstrap.servers": told["bootstrap"],
            **({} if "topic" in told.get("columns", {}) else {"topic": told["topic"]}),
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
    values[-1:] = [value + "." * told.get("last_pad", 0) for value in values[-1:]]
    half = len(values) // 2
    batches = [rows(told, values[:half], 0), rows(told, values[half:], half)]
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
