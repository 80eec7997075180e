"""Batches without the times at which they were planned and committed: what two runs of one trace have in common."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from tidemark.formats.evidence import Batch, RunDirectory


def untimed_batches(run: RunDirectory) -> list[Batch]:
    """The batches of a run."""
    return [replace(batch, planned_at_ms=UNSET, committed_at_ms=UNSET) for batch in run.batches()]
