"""The known defects of Spark's stream-stream join, as data: what is wrong, in which versions, and what shows it.

Free of I/O. A *defect* is a row that SQL gives and Spark does not, or the other way round, on default settings
and with Spark's rules followed to the letter. A finding that is one names it, and the verdict is ``INVALID`` unless
that defect is accepted. A *case* is a pipeline and a trace of the folder ``spark_bugs``, and one telling row of its
output.

Not a defect but a rule, which the oracle follows: a query that was started again has forgotten the latest event time of
each input, so under the policy ``min`` its watermark stands still until every input with a watermark has shown a row
again, and the batch without data that was due before is not run (``WatermarkTracker`` keeps its map in no file).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemark.errors import UsageError
from tidemark.oracle.spark.spark_versions import Version, minor_version

LEFT_SEMI_LOSES_SAME_BATCH_ROWS = "left-semi-loses-same-batch-rows"
FULL_OUTER_JOINS_NULL_KEYS = "full-outer-joins-null-keys"
ONE_SIDED_WATERMARK = "one-sided-watermark"
NULL_EVENT_TIME_NEVER_EVICTED = "null-event-time-never-evicted"
CONDITION_BOUNDS_THE_STATE = "condition-bounds-the-state"
FORMAT_4_MISSES_ROWS = "format-4-misses-rows"
UNUSED_SIDE_HOLDS_THE_WATERMARK = "unused-side-holds-the-watermark"


@dataclass(frozen=True)
class DefectCase:
    """``pipeline`` and ``trace`` are files of the folder ``defects``; ``says`` is the heading of its row in a table.

    ``row`` is ``left_id`` and ``right_id`` of the telling output row (``None``: none); ``is_right`` says whether SQL
    has it. ``control``: a join of the same trace that does not have the defect. ``conf`` are settings that it needs,
    ``NAME=VALUE``, which Spark knows ``since`` that version.
    """

    pipeline: str
    trace: str
    says: str
    row: tuple[str | None, str | None]
    is_right: bool = True
    control: bool = False
    conf: tuple[str, ...] = ()
    since: Version | None = None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.removesuffix(".py")

    def is_for(self, spark: str) -> bool:
        """Whether a Spark knows what it needs; one whose version cannot be read is taken for the newest."""
        return (minor_version(spark) or (self.since or (0, 0))) >= (self.since or (0, 0))


@dataclass(frozen=True)
class Defect:
    """``first`` and ``last`` are the versions that have it, among those that were tried; ``None``: no such end."""

    name: str
    text: str
    cases: tuple[DefectCase, ...]
    ticket: str | None = None
    first: Version | None = None
    last: Version | None = None

    def affects(self, spark: str) -> bool:
        """Whether a Spark has it; one whose version cannot be read is taken for the newest."""
        version = minor_version(spark)
        if version is None:
            return self.last is None
        return (self.first or version) <= version <= (self.last or version)


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FORMAT_4 = (
    f"spark.sql.streaming.stateStore.providerClass={ROCKSDB}",
    "spark.sql.streaming.join.stateFormatV4.enabled=true",
    "spark.sql.streaming.join.stateFormatVersion=4",
)
_SAME_BATCH, _SAME_WINDOW = "same_batch.jsonl", "same_window.jsonl"
DEFECTS = (
    Defect(
        LEFT_SEMI_LOSES_SAME_BATCH_ROWS,
        "Spark 4.2.0 takes the right rows of a batch first in a left semi join (SPARK-55973) and does not keep"
        " those that this batch will evict, so left rows of the same batch cannot see them; nothing is counted as"
        " dropped. Of windowed aggregates on both sides, whose rows are evictable in the batch in which they come, it"
        " gives nothing at all. A regression: 4.1 gives these rows.",
        (
            DefectCase(
                "same_batch_inner.py", _SAME_BATCH, "inner gives the pair (L50, R50)", ("L50", "R50"), control=True
            ),
            DefectCase(
                "same_batch_left_outer.py", _SAME_BATCH, "left outer gives the pair (L50, R50)", ("L50", "R50"),
                control=True,
            ),
            DefectCase("same_batch_left_semi.py", _SAME_BATCH, "left semi gives L50", ("L50", None)),
            DefectCase(
                "same_window_inner.py", _SAME_WINDOW, "inner of counts per window gives the pair of a", ("a", "a"),
                control=True,
            ),
            DefectCase(
                "same_window_left_semi.py", _SAME_WINDOW, "left semi of counts per window gives that of a", ("a", None),
            ),
        ),
        ticket="SPARK-55973",
        first=(4, 2),
    ),
    Defect(
        FULL_OUTER_JOINS_NULL_KEYS,
        "The stream-stream join compares keys byte by byte, by which NULL equals NULL. In the other joins the"
        " optimizer filters NULL keys out beforehand (InferFiltersFromConstraints); in a full outer join both sides"
        " are preserved and it may not, so rows with NULL keys are joined, and their NULL rows are missing.",
        (
            DefectCase(
                "null_keys.py", "null_keys.jsonl", "full outer joins a NULL key with a NULL key", ("L1", "R1"),
                is_right=False,
            ),
        ),
    ),
    Defect(
        ONE_SIDED_WATERMARK,
        "Spark accepts a join with a watermark on one side only. With a range between the event times the side without"
        " a watermark is never evicted, and the NULL rows of an outer join never come (SPARK-46350); with equal times"
        " both sides are evicted, but rows of the side without a watermark are never late, so the pair of one whose"
        " partner is gone is lost, and in an outer join that partner had its NULL row already. Give both sides a"
        " watermark.",
        (
            DefectCase(
                "one_sided_range.py", "one_sided_range.jsonl",
                "left outer, range, watermark on the right only: the NULL row of L1 comes", ("L1", None),
            ),
            DefectCase(
                "one_sided_equal.py", "one_sided_equal.jsonl",
                "left outer, equal times, watermark on the right only: a NULL row comes for the matched L1",
                ("L1", None), is_right=False,
            ),
        ),
        ticket="SPARK-46350",
    ),
    Defect(
        NULL_EVENT_TIME_NEVER_EVICTED,
        "A row whose event time is NULL is never at or before a watermark: on a preserved side it stays in the state"
        " for ever, and its NULL row never comes. (State format 4 takes no time for the epoch: there it comes.)"
        " Filter such rows out before the join.",
        (
            DefectCase(
                "null_event_time.py", "null_event_time.jsonl",
                "left outer: the NULL row of L1, which has no event time, comes",
                ("L1", None),
            ),
        ),
    ),
    Defect(
        CONDITION_BOUNDS_THE_STATE,
        "In the condition of an outer join Spark takes a lower bound on any column of a preserved side (left.price > 5)"
        " for one on its event time, as if the number were seconds since the epoch: rows with later times never leave"
        " the state, and their NULL rows never come. Write it so that Spark cannot read it, as in"
        " coalesce(left.price, 0) > 5.",
        (
            DefectCase(
                "condition_bound.py", "condition_bound.jsonl",
                "left outer with left.price > 5 in its condition: the NULL row of L1 comes", ("L1", None),
            ),
        ),
    ),
    Defect(
        FORMAT_4_MISSES_ROWS,
        "State format 4, which Spark 4.2 has behind a setting, goes by ranges of event time there, and some are too"
        " small. An eviction begins where the one before it ended: a row that comes behind that and is not late,"
        " because the bound puts the state watermark of its side ahead of the watermark (left.time at least 10 s after"
        " right.time), is never evicted, its NULL row never comes, and the state grows. And the range in which partners"
        " are looked for, if the bound leaves an end of it open, is closed there by a condition on an ordinary column"
        " (left.price > 5): pairs are lost. Other formats give these rows, and so does 4.3.",
        (
            DefectCase(
                "evicted_early.py", "evicted_early.jsonl",
                "state format 4, left outer, left.time at least 10 s after right.time: the NULL row of L105 comes",
                ("L105", None), conf=FORMAT_4, since=(4, 2),
            ),
            DefectCase(
                "condition_range.py", "condition_bound.jsonl",
                "state format 4, left outer, no lower bound, left.price > 5 in its condition: the pair (L2, R2) comes",
                ("L2", "R2"), conf=FORMAT_4, since=(4, 2),
            ),
        ),
        first=(4, 2),
        last=(4, 2),
    ),
    Defect(
        UNUSED_SIDE_HOLDS_THE_WATERMARK,
        "Spark takes an outer join out of the plan if nothing of its other side is needed and that has one row for each"
        " key, or only a min or max stands above (EliminateOuterJoin); but its WatermarkTracker goes on waiting for the"
        " watermark of the side that is not read any more: it stays at 0, and nothing is ever written. Write a column"
        " of that side, too, or leave the join out. 3.5 waits for the side that is read alone.",
        (
            DefectCase(
                "unused_side.py", _SAME_WINDOW,
                "left outer of counts per window, nothing of the right is used: the row of a comes", ("a", None),
            ),
        ),
        first=(4, 0),
    ),
)  # fmt: skip
BY_NAME = {defect.name: defect for defect in DEFECTS}
KNOWN_DEFECTS = {defect.name: defect.text for defect in DEFECTS}


def known(names: Iterable[str]) -> tuple[str, ...]:
    """These names, each once, in order; raises ``UsageError`` for one that is no known defect."""
    wanted = tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in BY_NAME:
            raise UsageError(
                f"there is no known defect {name!r} of Spark",
                detail="only findings that a known defect explains can be accepted",
                hint=f"known are {', '.join(BY_NAME)}",
            )
    return wanted


def has_defect(versions: Mapping[str, str], name: str) -> bool:
    """Whether the Spark of a run has the defect of that name; raises ``KeyError`` for one that is not known."""
    return BY_NAME[name].affects(versions.get("spark", ""))
