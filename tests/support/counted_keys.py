"""The counts of a state's keys, of its rows: for recorded evidence that is older than they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidemark.formats.evidence import RunDirectory, StateKey, StateRow
from tidemark.formats.seal import seal


def keys_of(rows: Iterable[StateRow]) -> list[StateKey]:
    """What Spark counts in the state of a join whose times are no keys."""
    groups: dict[object, list[StateRow]] = {}
    for row in rows:
        groups.setdefault((row.batch, row.side, row.key), []).append(row)
    return [
        StateKey(
            batch=first.batch,
            side=first.side,
            key=first.key,
            time_us=first.time_us if len({row.time_us for row in some}) == 1 else None,
            count=len(some),
        )
        for some in groups.values()
        for first in some[:1]
    ]


def add_keys(run: RunDirectory, keys: Iterable[StateKey]) -> None:
    """Write the counts into a run directory that has none, and seal it."""
    some = list(keys)
    run.write_lines("state_keys", some)
    manifest = run.manifest
    manifest.records["state_keys"] = len(some)
    run.write_json("manifest", manifest)
    (run.path / "seal.json").unlink(missing_ok=True)
    seal(Path(run.path))
