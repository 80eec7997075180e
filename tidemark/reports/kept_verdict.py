"""The verdict of a run directory: the one beside the evidence, if it can be relied on, or a new one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidemark.formats.evidence import RunDirectory
from tidemark.formats.seal import NAME, is_intact
from tidemark.oracle import Verdict, judge
from tidemark.oracle.large.duckdb_engine import duckdb_engine
from tidemark.oracle.large.engine import OpenEngine


def kept_verdict(run: Path) -> Verdict | None:
    """``verdict.json`` of a run directory that is as it was sealed before that was written; ``None``: judge it.

    Raises ``BrokenEvidence`` if the evidence is not as it was sealed.
    """
    path, seal = run / "verdict.json", run / NAME
    try:
        if path.stat().st_mtime_ns < seal.stat().st_mtime_ns:
            return None
        found = msgspec.json.decode(path.read_bytes(), type=Verdict)
    except (OSError, msgspec.DecodeError):
        return None  # there is none, or one of another version
    return found if is_intact(run) else None


def judged_verdict(
    run: RunDirectory, accept: Sequence[str] = (), *, engine: OpenEngine = duckdb_engine
) -> Verdict:
    """A new verdict, which says whether the evidence is as it was sealed.

    Raises ``TidemarkError`` if the evidence cannot be read or is not as it was sealed, and for a name that is no known
    defect.
    """
    sealed = is_intact(run.path)
    verdict = judge(run, accept, engine=engine)
    redacted = run.manifest.redacted
    verdict.sealed = sealed and (redacted is None or redacted.sealed)
    return verdict
