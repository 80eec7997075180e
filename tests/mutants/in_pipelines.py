"""Mutants in the pipeline: in what an application says to Spark, and in Spark's settings."""

from __future__ import annotations

from tests.mutants.mutants import (
    CLICKS,
    IMPRESSIONS,
    NO_NULL_KEYS,
    NULL_KEYS,
    ON_EDGES,
    ON_TIME,
    SENT_TWICE,
    Mutant,
)

UPPER = "c.click_time <= i.impression_time + INTERVAL 20 SECONDS"
LOWER = "c.click_time >= i.impression_time"
READ = 'read_json(impressions, "impression", IMPRESSION, "impression_time")'
TIMED = '''
def timed(records):
    """Impressions; one without an event time gets that of its record."""
    from pyspark.sql.functions import expr, from_json

    places = "partition AS impression_partition", "offset AS impression_offset", "timestamp AS arrived"
    event = from_json(expr("CAST(value AS STRING)"), IMPRESSION).alias("event")
    read = records.select(event, *map(expr, places)).select("event.*", *(one.split()[-1] for one in places))
    filled = read.withColumn("impression_time", expr("coalesce(impression_time, arrived)"))
    return filled.drop("arrived").where("impression_id IS NOT NULL")
'''
UNREADABLE = (*ON_TIME, "--unreadable", "0.2")
"""A fifth of all records is no JSON, or has no event time."""

IN_WATERMARKS = {
    "watermark delay cut short": Mutant(
        {"left_outer": "premature_nulls", "right_outer": "premature_nulls"},
        {CLICKS: CLICKS.replace("20", "1")}, every_day=True,
    ),
    "watermark delay drawn out": Mutant(
        {"left_outer": "misplaced_rows"}, {CLICKS: CLICKS.replace("20", "50")},
    ),
    "watermark delay off by a millisecond": Mutant(
        {"inner": "wrong_watermarks", "left_semi": "wrong_watermarks"},
        {CLICKS: CLICKS.replace("20 seconds", "20001 milliseconds")},
    ),
    "watermarks left out": Mutant(
        {"inner": "late_rows_joined"}, {IMPRESSIONS: "", CLICKS: ""}, generator=(),
    ),
    "watermarks left out, Spark's check switched off": Mutant(
        {"left_semi": "late_rows_joined"}, {IMPRESSIONS: "", CLICKS: ""},
        generator=(), conf=("spark.sql.streaming.unsupportedOperationCheck=false",),
    ),
    "watermark on another column": Mutant(
        {"inner": "wrong_watermarks"},
        {CLICKS: '.withColumn("seen", expr("click_time + INTERVAL 3 SECONDS")).withWatermark("seen", "20 seconds")'},
    ),
    "time of arrival instead of event time": Mutant(
        {"left_outer": "wrong_watermarks"},
        {IMPRESSIONS: f'.withColumn("impression_time", expr("current_timestamp()")){IMPRESSIONS}'},
    ),
    "event time cut to seconds": Mutant(
        {"inner": "wrong_watermarks"},
        {CLICKS: f""".withColumn("click_time", expr("date_trunc('SECOND', click_time)")){CLICKS}"""},
    ),
    "time zone shifted": Mutant(
        {"inner": "lost_rows"},
        {CLICKS: f""".withColumn("click_time", expr("from_utc_timestamp(click_time, 'Asia/Kolkata')")){CLICKS}"""},
    ),
    "the slower side's watermark overruled": Mutant(
        {"left_outer": "wrong_watermarks"},
        conf=("spark.sql.streaming.multipleWatermarkPolicy=max",),
    ),
    "late by this batch's watermark": Mutant(
        {"inner": "lost_rows"}, pace="backlog", generator=(),
        conf=("spark.sql.streaming.statefulOperator.allowMultiple=false",),
    ),
}  # fmt: skip

IN_CONDITIONS = {
    "time bound half as long": Mutant(
        {"left_outer": "nulls_for_matched_rows", "inner": "lost_rows"},
        {"INTERVAL 20 SECONDS": "INTERVAL 10 SECONDS"},
    ),
    "no upper time bound": Mutant({"inner": "phantom_rows"}, {f" AND\n                {UPPER}": ""}),
    "bound strict instead of inclusive": Mutant(
        {"left_outer": "nulls_for_matched_rows", "inner": "lost_rows"},
        {LOWER: LOWER.replace(">=", ">")}, generator=ON_EDGES,
    ),
    "bound that reaches a millisecond further back": Mutant(
        {"inner": "phantom_rows"}, {LOWER: f"{LOWER} - INTERVAL 1 MILLISECOND"}, generator=ON_EDGES,
    ),
    "bound that Spark cannot read, its check switched off": Mutant(
        {"left_outer": "missing_nulls"},
        {
            LOWER: "unix_micros(c.click_time) >= unix_micros(i.impression_time)",
            UPPER: "unix_micros(c.click_time) <= unix_micros(i.impression_time) + 20000000",
        },
        pace="backlog", conf=("spark.sql.streaming.unsupportedOperationCheck=false",),
    ),
    "one key of two": Mutant(
        {"left_semi": "phantom_rows", "inner": "phantom_rows"}, {"i.user_id = c.user_id AND ": ""},
    ),
    "NULL keys joined": Mutant(
        {"inner": "phantom_rows"}, {"i.user_id = c.user_id": "i.user_id <=> c.user_id"}, generator=NULL_KEYS,
    ),
    "NULL keys made one key": Mutant(
        {"left_outer": "phantom_rows"}, {"i.user_id = c.user_id": "nvl(i.user_id, '') = nvl(c.user_id, '')"},
        generator=NULL_KEYS,
    ),
    "NULL keys joined by the optimizer": Mutant(
        {"inner": "phantom_rows"}, generator=NULL_KEYS,
        conf=("spark.sql.constraintPropagation.enabled=false",),
    ),
    "inner instead of left outer": Mutant(
        {"left_outer": "missing_nulls"}, {'"leftOuter"': '"inner"'}
    ),
    "left outer instead of right outer": Mutant(
        {"right_outer": "missing_nulls"}, {'"rightOuter"': '"leftOuter"'},
    ),
    "left outer instead of full outer": Mutant(
        {"full_outer": "missing_nulls"}, {'"fullOuter"': '"leftOuter"'}, generator=NO_NULL_KEYS,
    ),
    "inner instead of left semi": Mutant(
        {"left_semi": "repeated_semi_rows"}, {'"leftSemi"': '"inner"'},
    ),
    "left semi made of inner and deduplication": Mutant(
        {"left_semi": "lost_rows"}, {'"leftSemi"': '"inner"'}, generator=SENT_TWICE,
        after='.dropDuplicates(["impression_id"])',
    ),
}  # fmt: skip

BESIDE_THE_JOIN = {
    "deduplicated before the join": Mutant(
        {"inner": "lost_rows"},
        {IMPRESSIONS: f'{IMPRESSIONS}.dropDuplicatesWithinWatermark(["impression_id"])'}, generator=SENT_TWICE,
    ),
    "right rows dropped before the join": Mutant(
        {"left_outer": "nulls_for_matched_rows", "left_semi": "lost_rows"},
        {CLICKS: f'.where("hash(click_id) % 10 != 0"){CLICKS}'},
    ),
    "right column asked for after a left outer join": Mutant(
        {"left_outer": "missing_nulls"}, after='.where("click_id IS NOT NULL")', generator=ON_TIME,
    ),
    "event times that are missing filled in": Mutant(
        {"inner": "decoded_differently", "left_outer": "decoded_differently"}, {READ: "timed(impressions)"},
        added=TIMED, generator=UNREADABLE,
    ),
    "output ids exchanged": Mutant(
        {"inner": "corrupt_rows"},
        after='.selectExpr("* EXCEPT (impression_id, click_id)", "click_id AS impression_id",'
        ' "impression_id AS click_id")',
    ),
    "refs missing": Mutant(
        {"left_outer": "corrupt_rows"},
        after='.selectExpr("* EXCEPT (impression_offset)", "CAST(NULL AS BIGINT) AS impression_offset")',
    ),
    "refs of the next record": Mutant(
        {"inner": "corrupt_rows"},
        after='.selectExpr("* EXCEPT (impression_offset)", "impression_offset + 1 AS impression_offset")',
    ),
}  # fmt: skip

PIPELINE = {**IN_WATERMARKS, **IN_CONDITIONS, **BESIDE_THE_JOIN}
