"""Replays a trace outside of a run, into the topics of any query, at the trace's pace.

The producers implement ``backlog`` and ``timed``. ``stepped`` follows the query through its checkpoint: a slice is
published after the previous slice and its no-data batch have been committed. The driver is not suspended here, so a
slice may be split into two batches; the checkpoint shows this, and the result reports it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidemark.errors import UsageError
from tidemark.formats.trace import TraceReader
from tidemark.kafka import client as kafka
from tidemark.runner.programs import Program, program_environment
from tidemark.runner.run_options import Report, report_nothing
from tidemark.sparkfiles.checkpoint import Checkpoint
from tidemark.waiting import wait_until

PUBLISH_S = 300.0
"""Calibration: a slice of 30,000 records is acknowledged in half a second."""

NO_DATA_S = 15.0
"""Calibration: a no-data batch starts within a trigger interval; a query may be set to have none
(noDataMicroBatches).
"""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """Target of a replay: ``broker`` has the settings of Kafka's client, ``kafka_conf`` is the file with its login, if
    it wants one. ``topics`` is logical name -> Kafka topic. ``batch_s`` is the timeout for processing a slice, in
    seconds.
    """

    broker: Mapping[str, str]
    topics: Mapping[str, str]
    checkpoint: Path
    kafka_conf: Path | None = None
    batch_s: float = 300.0
    report: Report = field(default=report_nothing, compare=False)


@dataclass(frozen=True)
class Stepped:
    """The result of a stepped replay."""

    records: int
    batches: int
    torn: list[int]
    """Slices that were read by more than one batch."""


def replay_by_itself(arguments: Sequence[str]) -> int:
    """Run ``python -m producers replay ARGUMENTS`` with this terminal; returns its exit code."""
    command = [sys.executable, "-P", "-m", "producers", "replay", *arguments, "--end-with-stdin"]
    # Nothing is written to this pipe. It closes when this process ends for any reason, and then the child ends too.
    with subprocess.Popen(command, env=program_environment(None), stdin=subprocess.PIPE) as child:
        try:
            return child.wait()
        except BaseException:
            child.terminate()
            raise


def replay_stepped(trace: Path, options: ReplayOptions) -> Stepped:
    """Publish a trace slice by slice, following the query that writes ``options.checkpoint``."""
    checkpoint = Checkpoint(options.checkpoint)
    if not (options.checkpoint / "offsets").is_dir():
        raise UsageError(
            f"{str(options.checkpoint)!r} is not the checkpoint of a streaming query",
            detail="it has no folder `offsets`",
            hint="start the query first; its option checkpointLocation names the folder",
        )
    kafka.end_offsets(options.broker, options.topics.values())  # says why a broker does not answer
    with TraceReader(trace) as reader:
        slices = reader.header.slices
    topics = [f"--topic={name}={topic}" for name, topic in options.topics.items()]
    arguments = [
        "producers",
        "replay",
        str(trace),
        "--bootstrap",
        options.broker["bootstrap.servers"],
        *([f"--kafka-conf={options.kafka_conf}"] if options.kafka_conf is not None else []),
        *topics,
        "--interactive",
    ]
    records, torn, before = 0, [], checkpoint.next_planned()
    with (
        tempfile.TemporaryDirectory() as folder,
        Program(arguments, Path(folder) / "publisher.log") as publisher,
    ):
        for number in range(slices):
            first = checkpoint.next_planned()
            published = int(publisher.ask(f"publish {number}", PUBLISH_S)["records"])
            records += published
            if published and _processed(checkpoint, options) > first:
                torn.append(number)
            options.report("publish", number + 1, slices)
    return Stepped(records, checkpoint.next_planned() - before, torn)


def _processed(checkpoint: Checkpoint, options: ReplayOptions) -> int:
    """Wait until all records of the topics are processed; returns the batch that read the last one."""
    wanted = kafka.end_offsets(options.broker, options.topics.values())

    def reader() -> list[int]:
        return [batch for batch in checkpoint.committed()[-3:] if checkpoint.batch(batch).has_read(wanted)][
            :1
        ]

    [last] = wait_until(reader, options.batch_s, lambda: f"a committed batch that ends at {wanted}")
    deadline = time.monotonic() + NO_DATA_S

    def settled() -> bool:
        """The last batch did not move the watermark, so no no-data batch is due."""
        latest = checkpoint.committed()[-1]
        still = checkpoint.next_watermark_ms(latest) <= checkpoint.batch(latest).watermark_ms
        return checkpoint.running() is None and (still or time.monotonic() > deadline)

    wait_until(settled, options.batch_s, lambda: f"the no-data batch after batch {last}")
    return last
