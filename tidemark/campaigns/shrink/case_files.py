"""A case on disk as ``tidemark run`` takes it: trace, contract, and the pipeline's file if there is one."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from tidemark.atomic_files import write_atomically
from tidemark.campaigns.case import Case
from tidemark.campaigns.shrink.shrinkable import Shrinkable
from tidemark.formats.trace import FORMAT, Header, TopicSpec, write_trace
from tidemark.oracle.coverage import WAIVABLE

AS_A_RUN = ("backlog", "followed")
"""The run modes that ``tidemark run`` has at the paces ``backlog`` and ``stepped``; restarts need faults there."""
TRACE, CONTRACT, PIPELINE = "trace.jsonl", "contract.json", "pipeline.py"


def write_best(one: Shrinkable, folder: Path) -> None:
    """Write trace, contract and pipeline of a case; a folder that has those of another gets these."""
    case = one.case
    folder.mkdir(parents=True, exist_ok=True)
    header = Header(
        tidemark_trace=FORMAT,
        pace=case.pace,
        topics={topic: TopicSpec(case.partitions) for topic in case.topics},
        slices=case.slices,
        waived=list(WAIVABLE),
    )
    write_trace(folder / TRACE, header, case.records)
    contract = msgspec.json.format(msgspec.json.encode(case.contract.to_json()), indent=2)
    write_atomically(folder / CONTRACT, contract + b"\n")
    kept = folder / PIPELINE
    if case.pipeline.endswith(".py"):
        shutil.copyfile(case.pipeline, kept)
    else:
        kept.unlink(missing_ok=True)


def pipeline_of(case: Case) -> str:
    """What ``tidemark run`` is given: a file of the folder, or the name of a bundled pipeline."""
    if case.pipeline.endswith(".py"):
        return PIPELINE
    return case.pipeline or CONTRACT
