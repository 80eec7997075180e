"""How a Spark is known to refuse a cell of the upgrade table. Whatever else ends a query is a cell that does not hold.

No cell changes its query, so that nothing but the state format of Spark 2 is refused, and that by the older Spark,
which starts the query anew. A checkpoint of another Spark that is refused, be it with
``STATE_STORE_..._SCHEMA_NOT_COMPATIBLE`` as after a change (``changed.py``), is a finding of the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.formats.contract import JoinKind
from tidemark.oracle.spark.spark_versions import Version, minor_version


@dataclass(frozen=True)
class Refusal:
    """Of these joins on a state, by these Sparks (minor versions), in words that begin so; ``why`` they refuse it."""

    state: str
    kinds: tuple[JoinKind, ...]
    sparks: tuple[Version, ...]
    words: str
    why: str


OF_OUTER_JOINS = Refusal(
    "HDFS, 1", (JoinKind.LEFT_OUTER,), ((3, 5), (4, 0), (4, 1), (4, 2)),
    "The query is using stream-stream LeftOuter join with state format version 1 - correctness issue is discovered.",
    "The format does not keep which rows have matched, so that NULL rows of matched ones came (SPARK-26154); each Spark"
    " since 3.0 refuses it for all joins but inner ones (StreamingSymmetricHashJoinExec).",
)  # fmt: skip
OF_NEW_SCHEMA_FILES = (
    Refusal(
        "HDFS, 1", (JoinKind.INNER,), ((4, 1),),
        "[INTERNAL_ERROR] The Spark SQL phase planning failed with an internal error.",
        "Since 4.1 the file with the schema of a join's state has the version of the state format"
        " (IncrementalExecution.StateSchemaAndOperatorMetadataRule), and version 1 has a writer in Spark's own tests"
        " only: a MatchError of SchemaHelper.SchemaWriter, which Spark reports as an internal error of the phase. A"
        " checkpoint that has the file goes on.",
    ),
    Refusal(
        "HDFS, 1", (JoinKind.INNER,), ((4, 2),),
        "Unsupported schema writer version: 1",
        "As 4.1, where SchemaHelper.SchemaWriter has a message since.",
    ),
)  # fmt: skip
KNOWN = (OF_OUTER_JOINS, *OF_NEW_SCHEMA_FILES)


def known_refusal(state: str, kind: str, spark: str, words: str) -> Refusal | None:
    """The refusal that a Spark's words are, when it starts a join on a new checkpoint; ``None`` if they are none."""
    return next(
        (
            one
            for one in KNOWN
            if one.state == state
            and kind in one.kinds
            and minor_version(spark) in one.sparks
            and words.startswith(one.words)
        ),
        None,
    )
