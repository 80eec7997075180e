"""Gathering the evidence of a run, also of one that failed or was interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemark import kafka, project
from tidemark.checkpoint import Checkpoint
from tidemark.contract import Contract, Delivery
from tidemark.evidence import FORMAT, Batch, Fault, InputTopic, Manifest, OutputRecord, RunDirectory
from tidemark.jsonlines import write_lines
from tidemark.runner.eventlog import QueryEvents
from tidemark.runner.options import RunOptions
from tidemark.stack import Driver, Stack
from tidemark.trace import TraceReader, trace_sha256
from tidemark.wait import wait_until

LOG_S = 20.0
"""Calibration: Spark's listener bus writes the end of a job within milliseconds; it may lag on a busy machine."""

DELIVERY_OF_SINK = {"spark": Delivery.AT_LEAST_ONCE}


@dataclass(frozen=True)
class Places:
    """Where a run happens: trace, topics (``inputs`` by logical name), checkpoint, driver."""

    trace: Path
    inputs: dict[str, str]
    output: str
    checkpoint: Checkpoint
    driver: Driver


class Collector:
    """Knows what the run has shown so far; ``finish`` writes it down."""

    def __init__(
        self, options: RunOptions, contract: Contract, directory: RunDirectory, stack: Stack, places: Places
    ) -> None:
        self._options = options
        self._contract = contract
        self._directory = directory
        self._stack = stack
        self._trace = places.trace
        self._inputs = places.inputs
        self._output = places.output
        self._checkpoint = places.checkpoint
        self._driver = driver = places.driver
        log = driver.event_log
        self._log_start = log.stat().st_size if log is not None and log.exists() else 0
        self._started_utc = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._query_id: str | None = None
        self._faults: list[Fault] = []
        self._progress: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._records: list[OutputRecord] | None = None

    def started(self, answer: dict[str, Any]) -> None:
        """The query runs."""
        self._query_id = str(answer["query_id"])

    def stopped(self, answer: dict[str, Any]) -> None:
        """The query was stopped and handed over its progress reports."""
        self._progress = answer["progress"]

    def journal(self, faults: list[Fault]) -> None:
        """What was done to the stack."""
        self._faults += faults

    def note(self, text: str) -> None:
        """Something that the reader of the evidence should know."""
        self._notes.append(text)

    def drain(self) -> None:
        """Read the output until it has settled."""
        self._records = list(kafka.drain(self._stack.bootstrap_servers, self._output))

    def finish(self) -> None:
        """Write every file of the evidence that can be written."""
        if self._records is None:  # the run did not get as far as draining
            self._records = list(kafka.read_all(self._stack.bootstrap_servers, self._output))
        failed = self._failed_tasks()
        self._directory.write_lines("output", self._records)
        self._directory.write_lines("batches", self._batches(failed))
        self._directory.write_lines("faults", self._faults)
        self._directory.write_lines("progress", self._progress)
        self._directory.write_json("manifest", self._manifest())

    def _failed_tasks(self) -> dict[int, int]:
        """From the event log, once it has caught up with the last committed batch."""
        if self._query_id is None:
            return {}
        if self._driver.event_log is None:
            self.note("no event log of the driver is to be seen: which tasks failed is not known")
            return {}
        events = QueryEvents(self._driver.event_log, self._log_start, self._query_id)
        committed = self._checkpoint.committed()
        if committed:
            last = committed[-1]
            wait_until(
                lambda: events.job_ended(last),
                LOG_S,
                lambda: f"the event log to have the end of batch {last}",
            )
        write_lines(self._directory.path / "logs" / "spark-events.jsonl.zst", events.excerpt())
        return dict(events.failed_tasks())

    def _batches(self, failed: dict[int, int]) -> list[Batch]:
        logical = {topic: name for name, topic in self._inputs.items()}
        committed = set(self._checkpoint.committed())
        return [
            Batch(
                batch=number,
                watermark_ms=planned.watermark_ms,
                end_offsets={logical[topic]: ends for topic, ends in planned.end_offsets.items()},
                committed=number in committed,
                failed_tasks=failed.get(number, 0),
            )
            for number in self._checkpoint.planned()
            for planned in [self._checkpoint.batch(number)]
        ]

    def _manifest(self) -> Manifest:
        with TraceReader(self._trace) as reader:
            header = reader.header
        ends = kafka.end_offsets(self._stack.bootstrap_servers, list(self._inputs.values()))
        return Manifest(
            tidemark_evidence=FORMAT,
            contract=self._contract.to_json(),
            delivery=DELIVERY_OF_SINK[self._options.sink],
            pace=self._options.pace or header.pace,
            inputs={
                name: InputTopic(
                    topic=topic,
                    start_offsets={str(partition): 0 for partition in ends[topic]},
                    end_offsets={str(partition): end for partition, end in ends[topic].items()},
                )
                for name, topic in self._inputs.items()
            },
            anchors=["flushed", "all_input_read", *header.anchors, *self._fault_anchors()],
            seed=self._options.seed,
            trace_sha256=trace_sha256(self._trace),
            versions=dict(self._stack.versions),
            code_sha256=project.code_sha256(),
            backend=self._stack.spec.backend,
            sink=self._options.sink,
            query_id=self._query_id,
            started_utc=self._started_utc,
            command=self._options.command(),
            notes=self._notes,
        )

    def _fault_anchors(self) -> list[str]:
        return ["fault_hit_running_batch"] if self._options.kill_executors else []
