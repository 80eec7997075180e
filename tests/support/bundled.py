"""Bundled pipelines, and files made of them, as cases: on a warm driver, at a fraction of what a run of one costs.

Trace, sentinels, slices, sink, batches and evidence are those of a run; what is left out is the programs that a run
starts, and what only faults need: the event log.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.pipeline_loader import load
from producers.__main__ import app
from producers.sentinels import make_sentinels
from tidemark.campaigns.case import Case
from tidemark.formats.trace import TraceReader
from tidemark.runner.run_options import SINKS
from tidemark.runner.state_reader import BATCHES


def make_trace(path: Path, generator: Sequence[str] = (), *, pace: str = "stepped") -> Path:
    """A trace of 400 impressions; ``generator`` are options of ``python -m producers generate``."""
    options = ["--seed", "11", "--impressions", "400", "--pace", pace, *generator]
    app(["generate", "--out", str(path), *options], standalone_mode=False)
    return path


def case_of(pipeline: str | Path, trace: Path, *, sink: str = SINKS[0], conf: Sequence[str] = ()) -> Case:
    """A pipeline (its name, or its file) over a trace; ``conf`` are settings of the session, ``NAME=VALUE``."""
    contract = load(str(pipeline)).CONTRACT
    with TraceReader(trace) as reader:
        header, records = reader.header, tuple(reader)
    [partitions] = {topic.partitions for topic in header.topics.values()}
    _, flush = make_sentinels(contract, trace)
    return Case(
        name=contract.name,
        contract=contract,
        records=records,
        flush=tuple(flush),
        mode="followed" if header.pace == "stepped" else "backlog",
        sink=sink,
        conf=dict(pair.split("=", 1) for pair in conf),
        states=BATCHES,
        goals=("flushed", "all_input_read", *header.goals),
        waived=tuple(header.waived),
        seed=header.seed,
        pipeline=str(pipeline),
        partitions=partitions,
    )
