"""What the versions of Spark do differently in a stream-stream join, rule by rule, as data: the one place for it.

Free of everything. A *rule* is followed by both oracles, and is no defect; which defects a version has, is in
``known_defects``. Read in Spark's sources, and compared with each version by ``tidemark fuzz --spark``,
``python -m tests.matrix --spark`` and ``python -m tests.spark.chain_fuzz``.

What is the same in all of them: which rows are late, when a row leaves the state, watermarks, also over a restart, what
the optimizer does with filters and conditions, the state formats 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Version = tuple[int, int]
"""Spark's major and minor version."""


@dataclass(frozen=True)
class SparkRules:
    """The rules of a version.

    ``semi_right_first``: a left semi join takes the right rows of a batch first, and removes a left row from the state
    when it emits it (SPARK-55973). Else left rows come first, and a left row of the state that is emitted is marked as
    matched: it stays until it is evicted, and is not emitted again (``excludeRowsAlreadyMatched``).

    ``counts_all_removed``: ``numRowsRemoved`` counts all rows that leave the state. Else it leaves out those of the
    preserved sides of an outer join, which leave with a NULL row, or without one.

    ``waits_for_unread``: the watermark waits for all inputs of the query as it was written, also for those that the
    optimizer takes out (``WatermarkTracker.initialPlan``). Else it waits for those that are read.
    """

    semi_right_first: bool
    counts_all_removed: bool
    waits_for_unread: bool = True


RULES: Mapping[Version, SparkRules] = {
    (3, 5): SparkRules(semi_right_first=False, counts_all_removed=False, waits_for_unread=False),
    (4, 0): SparkRules(semi_right_first=False, counts_all_removed=False),
    (4, 2): SparkRules(semi_right_first=True, counts_all_removed=False),
    (4, 3): SparkRules(semi_right_first=True, counts_all_removed=True),
}
"""The rules of each version that changed one, oldest first.

3.5 is 3.5.4 and later: before, rows that are evictable in their own batch are not stored (SPARK-49829).
"""
OLDEST: Version = next(iter(RULES))
"""The oldest Spark whose rules were compared with the oracles."""


def minor_version(spark: str) -> Version | None:
    """``(4, 2)`` of ``4.2.0``; ``None`` if it cannot be read."""
    numbers = spark.split(".")[:2]
    if len(numbers) < 2 or not all(part.isdecimal() for part in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


def rules_of_spark(versions: Mapping[str, str]) -> SparkRules:
    """The rules of the Spark of a run. One that is not named is taken for the newest, an older one for the oldest."""
    newest = max(RULES)
    version = minor_version(versions.get("spark", "")) or newest
    return RULES[max((since for since in RULES if since <= version), default=OLDEST)]


def not_compared(versions: Mapping[str, str]) -> str:
    """Why a run is inconclusive whose Spark is older than all whose rules are known; empty if it is not."""
    version = minor_version(versions.get("spark", "")) or OLDEST
    if version >= OLDEST:
        return ""
    return f"the rules of Spark {versions['spark']} were not compared with the oracles"
