"""The state as evidence: the state store's format and provider, and its rows after some batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidemark.errors import TidemarkError
from tidemark.formats.manifest import StateInfo
from tidemark.sparkfiles.checkpoint import STATE_FORMAT, STATE_PROVIDER, Checkpoint

READ_S = 120.0
"""Calibration: four batches of a thousand rows are read in 1 to 2 s."""

BATCHES = 4
"""Number of batches whose state is read: the last one, and others evenly spaced before it."""

ROWS = 50_000
"""A batch with more state rows is skipped: reading it takes longer than the rest of the run."""

_OLDEST_FORMAT = 1
"""``SymmetricHashJoinStateManager.legacyVersion``: the format of a checkpoint that does not name one."""


Ask = Callable[[str, float], Mapping[str, Any]]
"""Sends a command to the query's program; the second argument is the timeout in seconds."""


def read_state(
    ask: Ask,
    checkpoint: Checkpoint,
    reports: Iterable[Mapping[str, Any]],
    folder: Path,
    *,
    most: int = BATCHES,
) -> StateInfo:
    """Let the stopped query's program write ``state.jsonl`` and, of a single join, ``state_keys.jsonl``.

    ``reports`` are the progress reports of all runs of the query: they say how many rows the state had after a batch.
    An error is recorded in ``problem``, and in ``note`` that every batch has more state than is read.
    """
    committed = checkpoint.committed()
    info = StateInfo(batches=chosen(committed, _too_large(reports), most))
    if committed and not info.batches:
        info.note = f"after each committed batch it had more than {ROWS:,} rows"
    if info.batches:
        wanted = {
            "format": _format(checkpoint),
            "batches": info.batches,
            "path": str(folder.resolve() / "state.jsonl"),
            "keys_path": str(folder.resolve() / "state_keys.jsonl"),
        }
        try:
            answer = ask(f"state {json.dumps(wanted)}", READ_S)
            info.problem, info.note = answer.get("problem"), answer.get("note")
            info.batches = [] if info.note else info.batches
        except TidemarkError as error:
            info.problem = str(error)
    return info


def what_ran(checkpoint: Checkpoint, conf: Sequence[str], read: StateInfo) -> StateInfo | None:
    """The state format and provider in the checkpoint, beside the format requested in ``conf``; ``None`` if unknown."""
    ran, asked = checkpoint.conf(), dict(pair.partition("=")[::2] for pair in conf)
    if not ran:
        return None
    return msgspec.structs.replace(
        read,
        format=_format(checkpoint),
        provider=ran.get(STATE_PROVIDER, "").rpartition(".")[2] or None,
        changelog=checkpoint.has_changelogs(),
        asked_format=_number(asked.get(STATE_FORMAT)),
    )


def chosen(
    committed: Sequence[int], left_out: frozenset[int] = frozenset(), most: int = BATCHES
) -> list[int]:
    """The batches whose state is read: the last one, and others evenly spaced before it."""
    batches = [batch for batch in committed if batch not in left_out]
    last = len(batches) - 1
    if not batches:
        return []
    chosen = {round(last * step / (most - 1)) for step in range(most)} if most > 1 else {last}
    return sorted(batches[at] for at in chosen)


def _too_large(reports: Iterable[Mapping[str, Any]]) -> frozenset[int]:
    return frozenset(
        int(report["batchId"])
        for report in reports
        if sum(int(operator.get("numRowsTotal", 0)) for operator in report.get("stateOperators", ())) > ROWS
    )


def _format(checkpoint: Checkpoint) -> int:
    return _number(checkpoint.conf().get(STATE_FORMAT)) or _OLDEST_FORMAT


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
