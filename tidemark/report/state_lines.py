"""What the engine said of its state, as lines of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemark.oracle.compare.spark_account import Engine

SHOWN = 3
"""Moves shown; the rest is in ``verdict.json``."""


def engine_lines(engine: Engine | None) -> Iterable[tuple[str, str]]:
    """Name and value of each line; none for evidence without anything about the engine."""
    if engine is None:
        return
    if engine.format is not None:
        changelog = ", with changelogs" if engine.changelog else ""
        yield "state", f"format {engine.format}, {engine.provider or 'an unknown store'}{changelog}"
    if engine.state_batches or engine.metric_batches:
        batches = ", ".join(map(str, engine.state_batches))
        after = (
            f" (after {'batches' if len(engine.state_batches) > 1 else 'batch'} {batches})" if batches else ""
        )
        yield (
            "state compared",
            f"{len(engine.state_batches):,}{after}, metrics of {engine.metric_batches:,} batches",
        )
    if engine.rows:
        kept = engine.rows.get("kept", 0)
        sums = ", ".join(f"{engine.rows.get(what, 0):,} {what}" for what in ("stored", "removed", "dropped"))
        yield "state rows", f"{sums}; at most {kept:,} at once"
    if engine.times_ms:
        yield "state times", ", ".join(
            f"{what} {'/'.join(f'{time:,}' for time in times)}" for what, times in engine.times_ms.items()
        ) + " ms (min/median/max of a batch)"  # fmt: skip
    if engine.locality is not None:
        found = engine.locality
        yield "partitions", f"{found.stayed:,} stayed, {found.moved:,} moved{_some(found.moves)}"
        if found.restarts:
            yield "placed anew", f"after a restart of the driver{_some(found.restarts)}"
    for note in engine.notes:
        yield "state note", note


def _some(texts: Sequence[str]) -> str:
    """`` (the first few; and N more)``."""
    if not texts:
        return ""
    more = f"; and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return f" ({'; '.join(texts[:SHOWN])}{more})"
