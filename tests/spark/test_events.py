"""The judge reads a record's value as the pipelines' ``from_json`` does: the same table, read by both."""

from __future__ import annotations

import pytest

from pipelines.left_outer import CONTRACT
from pipelines.schemas import IMPRESSION
from tidemark.formats.events import read_event

TIME = '"impression_time":"2026-01-01T00:00:00.123Z"'

VALUES = [
    # well-formed
    f'{{"impression_id":"i1","user_id":"u","ad_id":"a",{TIME}}}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"2026-01-01T00:00:00.123456Z"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"2026-01-01T00:00:00Z"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"2026-01-01T02:00:00+02:00"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"2026-01-01T00:00:00.5"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"2026-01-01 00:00:00"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"1969-12-31T23:59:59.999Z"}',
    f'{{"impression_id":"ü€\\u0041","user_id":"","ad_id":"a",{TIME}}}',
    f'  {{"impression_id":"i1","user_id":"u","ad_id":"a",{TIME}}}  ',
    f'{{"impression_id":"i1","user_id":"u","ad_id":"a",{TIME},"unknown":{{"deep":[1,2]}}}}',
    # no key, or a key of another type
    f'{{"impression_id":"i1","user_id":null,"ad_id":"a",{TIME}}}',
    f'{{"impression_id":"i1","ad_id":"a",{TIME}}}',
    f'{{"impression_id":7,"user_id":true,"ad_id":1.5,{TIME}}}',
    f'{{"impression_id":"i1","user_id":[1,"x"],"ad_id":{{"a":1}},{TIME}}}',
    f"{{{TIME}}}",
    # no event time
    '{"impression_id":"i1","user_id":"u","ad_id":"a"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":null}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":""}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"soon"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"2026-13-01T00:00:00Z"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"2026-02-30T00:00:00Z"}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":true}',
    '{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":["2026-01-01T00:00:00Z"]}',
    # times that one reader might take and the other not
    *(
        f'{{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":{time}}}'
        for time in ("1767225600", "-5", "0", "1767225600.5", "1e3", '"1767225600"')
    ),
    *(
        f'{{"impression_id":"i1","user_id":"u","ad_id":"a","impression_time":"{time}"}}'
        for time in (
            "2026", "2026-01", "2026-1", "2026-01-01", "2026-1-1T00:00:00Z", "2026-001-01", "26-01-01",
            "2026-01-01T", "2026-01-01Z", "2026-01-01T00", "2026-01-01T00Z", "2026-01-01T00:00",
            "2026-01-01T0:0", "2026-01-01T0:0:0", "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z",
            "2026-W01-4", "today", "2026-01-01t00:00:00z", " 2026-01-01T00:00:00Z ", "2026-01-01T00:00:00ZZ",
            "2026-01-01T00:00:00.", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00,5Z", "20260101T000000Z",
            "2026-01-01T00:00:00.1234567Z", "2026-01-01T23:59:59.9999999", "9999-12-31T23:59:59.999999Z",
            "0999-01-01T00:00:00Z", "1500-01-01T00:00:00Z", "2026-01-01T00:00Z", "026-01-01",
            "2026-01-01T00:00:00 UTC", "2026-01-01T00:00:00GMT+1", "2026-01-01T00:00:00 +01:00",
            "2026-01-01T00:00:00+2:00", "2026-01-01T00:00:00+0200", "2026-01-01T00:00:00+02",
            "2026-01-01T00:00:00+02:00:30", "2026-01-01T00:00:00-18:00", "2026-01-01T00:00:00+19:00",
            "2026-01-01T00:00:00Europe/Berlin", "2026-07-01T00:00:00 Europe/Berlin",
        )
    ),
    # no JSON object
    "not json", "{", '{"impression_id":"i1","impression_time":"2026-01-01T00:00', "42", '"text"', "null", "",
    f'{{"impression_id":"i1","user_id":"u","ad_id":"a",{TIME}',
]  # fmt: skip


@pytest.fixture(scope="module")
def as_spark_reads(stack):
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col, from_json, unix_micros

    session = SparkSession.builder.remote(stack.driver().remote).create()
    try:
        rows = session.createDataFrame(list(enumerate(VALUES)), "number INT, value STRING")
        event = rows.select("number", from_json(col("value"), IMPRESSION).alias("e")).select(
            "number", "e.*", unix_micros(col("e.impression_time")).alias("time_us")
        )
        yield {row.number: row for row in event.drop("impression_time").collect()}
    finally:
        session.stop()


@pytest.mark.parametrize("number", range(len(VALUES)), ids=[value[:60] or "(empty)" for value in VALUES])
def test_the_judge_reads_what_spark_reads(number, as_spark_reads):
    row = as_spark_reads[number]
    event = read_event(VALUES[number], CONTRACT.left)

    if row.time_us is None:
        assert event is None
    else:
        assert event is not None
        assert event == (row.impression_id, (row.user_id, row.ad_id), row.time_us)
