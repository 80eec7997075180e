"""The verdict that is beside the evidence, if it can be relied on."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tidemark.formats.seal import NAME, is_intact
from tidemark.oracle import Verdict


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
