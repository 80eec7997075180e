"""Spark's own account of its state, as lines of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemark.oracle.compare.spark_account import SparkAccount

SHOWN = 3
"""Moves shown; the rest is in ``verdict.json``."""


def state_lines(spark_account: SparkAccount | None) -> Iterable[tuple[str, str]]:
    """Name and value of each line; none for evidence without Spark's account."""
    if spark_account is None:
        return
    if spark_account.format is not None:
        changelog = ", with changelogs" if spark_account.changelog else ""
        yield (
            "state",
            f"format {spark_account.format}, {spark_account.provider or 'an unknown store'}{changelog}",
        )
    if spark_account.state_batches or spark_account.metric_batches:
        yield "state compared", _compared(spark_account)
    if spark_account.rows:
        kept = spark_account.rows.get("kept", 0)
        sums = ", ".join(
            f"{spark_account.rows.get(what, 0):,} {what}" for what in ("stored", "removed", "dropped")
        )
        yield "state rows", f"{sums}; at most {kept:,} at once"
    if spark_account.times_ms:
        yield "state times", ", ".join(
            f"{what} {'/'.join(f'{time:,}' for time in times)}" for what, times in spark_account.times_ms.items()
        ) + " ms (min/median/max of a batch)"  # fmt: skip
    if spark_account.locality is not None:
        found = spark_account.locality
        yield "partitions", f"{found.stayed:,} stayed, {found.moved:,} moved{_some(found.moves)}"
        if found.restarts:
            yield "placed anew", f"after a restart of the driver{_some(found.restarts)}"
    for note in spark_account.notes:
        yield "state note", note


def _compared(spark_account: SparkAccount) -> str:
    """Whether rows of the state were compared, or only how many there are."""
    batches, counted = spark_account.state_batches, f"of {spark_account.metric_batches:,} batches"
    if not batches:
        return f"counts only, {counted}"
    of_keys = spark_account.count_batches or []
    what = "rows and the counts of their keys" if of_keys == batches else "rows"
    said = f"{what} {_after(batches)}"
    if of_keys and of_keys != batches:
        said += f", the counts of their keys {_after(of_keys)}"
    return f"{said}; counts {counted}" if spark_account.metric_batches else said


def _after(batches: Sequence[int]) -> str:
    return f"after {'batches' if len(batches) > 1 else 'batch'} {', '.join(map(str, batches))}"


def _some(texts: Sequence[str]) -> str:
    """`` (the first few; and N more)``."""
    if not texts:
        return ""
    more = f"; and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return f" ({'; '.join(texts[:SHOWN])}{more})"
