"""Bugs that Spark once had in stream-stream joins, each with a trace on which they would show.

``NAME.jsonl`` beside this file is the trace. Watermark delays are 10 s on impressions and 20 s on clicks, a click
matches for 20 s; ``W`` is the watermark, in the seconds of the trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.mutants.mutants import CLICKS, IMPRESSIONS

Row = tuple[str, str]
"""Ids of an output row, ``-`` for NULL."""


@dataclass(frozen=True)
class Historic:
    """``right`` are all rows that are owed, with their batches; ``broken`` says what the old engine did instead.

    It left out ``gone`` and wrote ``come``, which must be killed by ``killed_by``; ``conf`` makes today's Spark do it.
    """

    join: str
    broken: str
    right: Mapping[Row, int]
    killed_by: str
    gone: tuple[Row, ...] = ()
    come: Mapping[Row, int] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    conf: tuple[str, ...] = ()


HISTORIC = {
    "SPARK-26154": Historic(
        "left_outer",
        "An impression that has been joined stays in the state longer than its click: W is 20 when c1 leaves, and 40"
        " when i1 does. Whether i1 had a match was looked up in the clicks that were left, so it got a NULL row too.",
        {("i1", "c1"): 0, ("i2", "-"): 7, ("i3", "-"): 7},
        "nulls_for_matched_rows",
        come={("i1", "-"): 5},
    ),
    "SPARK-32148": Historic(
        "left_outer",
        "Two impressions of one batch match a click of the batch before. Rows came out of an iterator that used one"
        " buffer for all of them, so the first was written with the columns of the second.",
        {("i1", "c1"): 2, ("i2", "c1"): 2, ("i0", "-"): 5},
        "lost_rows",
        gone=(("i1", "c1"),),
        come={("i2", "c1"): 2},
    ),
    "SPARK-38684": Historic(
        "left_outer",
        "In one batch i3 is stored under the key under which i1 leaves, W being 90. The iterator over leaving rows was"
        " not consistent with what was written meanwhile, and passed i1 over.",
        {("i1", "-"): 1, ("i3", "c3"): 1, ("i2", "-"): 3, ("i4", "-"): 3},
        "missing_nulls",
        gone=(("i1", "-"),),
    ),
    "SPARK-38809": Historic(
        "left_outer",
        "Of four impressions of one key the first and the third leave, and the rest move up in the list. Where that"
        " left a hole, a row could not be read any more and its match was lost.",
        {("i1", "-"): 1, ("i3", "-"): 1, ("i2", "c2"): 2, ("i4", "c2"): 2, ("i5", "-"): 5},
        "lost_rows",
        gone=(("i4", "c2"),),
        come={("i4", "-"): 5},
    ),
    "SPARK-49829": Historic(
        "left_outer",
        "W is 90 when i3 and c3 arrive together, 50 and 52: not late, for the batch before had no watermark, but"
        " already expired. Neither was stored, so they did not meet, and i3 got a NULL row.",
        {("i3", "c3"): 1, ("i1", "-"): 3, ("i2", "-"): 3, ("i4", "-"): 3},
        "nulls_for_matched_rows",
        gone=(("i3", "c3"),),
        come={("i3", "-"): 1},
    ),
    "SPARK-28074": Historic(
        "inner",
        "With one watermark for all operators, rows were late by the watermark of their own batch, which an operator"
        " further up had not been given yet: i3 and c3, at 85 and 89 below W of 90, were dropped.",
        {("i3", "c3"): 1},
        "lost_rows",
        gone=(("i3", "c3"),),
        conf=("spark.sql.streaming.statefulOperator.allowMultiple=false",),
    ),
    "SPARK-29438": Historic(
        "left_outer",
        "The impressions are a union. Its second half opened state by the number of the partition in the whole union,"
        " and found none of what it had stored before.",
        {**{(f"i{n}", f"c{n}"): 2 for n in range(1, 7)}, ("i7", "-"): 5, ("i8", "-"): 5},
        "nulls_for_matched_rows",
        gone=(("i2", "c2"), ("i4", "c4"), ("i6", "c6")),
        come={("i2", "-"): 5, ("i4", "-"): 5, ("i6", "-"): 5},
        before='left.where("partition = 1").unionByName(left.where("partition = 0")), right',
    ),
    "SPARK-38204": Historic(
        "left_outer",
        "Both inputs are partitioned by the user already, of the keys user and ad. That was taken for good enough,"
        " and state that had been stored by all keys was looked for in the wrong partition.",
        {**{(f"i{n}", f"c{n}"): 2 for n in range(1, 7)}, ("i7", "-"): 5},
        "nulls_for_matched_rows",
        gone=(("i3", "c3"),),
        come={("i3", "-"): 5},
        changes={
            IMPRESSIONS: f'.repartition("user_id"){IMPRESSIONS}',
            CLICKS: f'.repartition("user_id"){CLICKS}',
        },
    ),
}
