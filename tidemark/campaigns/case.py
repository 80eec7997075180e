"""A case: a contract, a trace in slices, and how the query is run over it.

Free of Kafka and Spark. Three run modes have the trigger ``AvailableNow``, under which Spark itself says when a query
has done all there is to do, so that nobody has to guess:

``backlog``      all slices are there, and the query reads about one of them a batch (``maxOffsetsPerTrigger``);
``stepped``      a slice is published, the query is started and ends, and so on: each slice is a restart;
``interrupted``  a backlog whose query is stopped, wherever it is, once so many batches are planned, and started again.

The fourth is that of a run at the pace ``stepped``, for what depends on a query that goes on from slice to slice:

``followed``     each slice is published while the query sleeps (``tidemark.runner.pace``), and so is the flush.

The flush is published and read like a slice, in as many rounds as it takes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tidemark.campaigns.chain_inputs import ChainInputs
from tidemark.formats.contract import Contract
from tidemark.formats.trace import FORMAT, Header, Pace, Record, TopicSpec, write_trace
from tidemark.oracle.coverage import WAIVABLE

RunMode = Literal["backlog", "stepped", "interrupted", "followed"]
RUN_MODES: tuple[RunMode, ...] = ("backlog", "stepped", "interrupted")
"""Those that are generated."""
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
PARTITIONS = 2
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting that says how many partitions the state of a join and Spark's own sink have."""


@dataclass(frozen=True)
class Case:
    """``records`` of the trace by slice, ``flush`` by round; ``stops`` are the batches at which it is interrupted.

    ``states`` is how many batches the state is read of. ``goals`` are what the run has to meet, ``waived`` what its
    contract implies and it need not meet besides: a random or hand-written trace is too small for all of it.
    A chain is there by its inputs (``ChainInputs``).
    ``pipeline`` is what runs in the place of what the contract describes: a file, or the name of a bundled one. Each
    input topic has so many ``partitions``; ``compacted`` are the topics that Kafka compacts. ``traits`` says what is
    mean about the input (``tidemark.campaigns.input_traits``).
    """

    name: str
    contract: Contract
    records: tuple[Record, ...]
    flush: tuple[Record, ...]
    mode: RunMode = "backlog"
    sink: str = "spark"
    conf: dict[str, str] = field(default_factory=dict)
    stops: tuple[int, ...] = ()
    states: int = 0
    goals: tuple[str, ...] = ()
    waived: tuple[str, ...] = WAIVABLE
    seed: int | None = None
    pipeline: str = ""
    partitions: int = PARTITIONS
    compacted: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The logical topics, left and right; of a chain each once."""
        contract = self.contract
        if isinstance(contract, ChainInputs):
            return contract.topics
        return contract.left.topic, contract.right.topic

    @property
    def slices(self) -> int:
        """How many slices the trace has."""
        return max((record.slice for record in self.records), default=0) + 1

    @property
    def rounds(self) -> int:
        """How many rounds the flush has."""
        return max((record.slice for record in self.flush), default=0) + 1

    @property
    def pace(self) -> Pace:
        """The pace of a run that is most like this run mode."""
        return "stepped" if self.mode in ("stepped", "followed") else "backlog"

    @property
    def limits(self) -> dict[str, int]:
        """``maxOffsetsPerTrigger`` of each topic: about one slice a batch, unless slices come one by one."""
        if self.pace == "stepped":
            return {}
        totals = Counter(record.topic for record in self.records)
        # At least one for each partition, or Spark reads a partition now and another then.
        return {topic: max(self.partitions, -(-totals[topic] // self.slices)) for topic in self.topics}

    def write(self, folder: Path) -> None:
        """Write ``trace.jsonl`` and ``flush.jsonl``."""
        for name, records, slices in (
            ("trace", self.records, self.slices),
            ("flush", self.flush, self.rounds),
        ):
            header = Header(
                tidemark_trace=FORMAT,
                pace=self.pace,
                topics={topic: TopicSpec(self.partitions) for topic in self.topics},
                slices=slices,
                seed=self.seed,
                generator="tidemark.campaigns",
                compacted=list(self.compacted),
            )
            write_trace(folder / f"{name}.jsonl", header, records)
