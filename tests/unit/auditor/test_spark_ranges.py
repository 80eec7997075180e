"""Which Spark ran which batches, as ``--spark-version`` says it."""

from __future__ import annotations

import pytest

from tidemark.auditor.spark_ranges import named_sparks, newest_named, spark_spans
from tidemark.errors import UsageError


def test_one_spark_is_that_of_all_batches():
    assert named_sparks("4.2.0") == [("4.2.0", None, None)]
    assert (newest_named("4.2.0"), spark_spans("4.2.0", 0, 9)) == ("4.2.0", [])
    assert (newest_named(""), spark_spans("", 0, 9)) == ("", [])


def test_each_spark_has_its_batches_and_the_newest_is_the_last():
    assert spark_spans("3.5.7@:11,4.3.0@12:", 0, 30) == [("3.5.7", 0, 11), ("4.3.0", 12, 30)]
    assert spark_spans("3.5.7@2:3, 4.0.5@4:5, 4.3.0@6:7", 2, 7)[1:] == [("4.0.5", 4, 5), ("4.3.0", 6, 7)]
    assert newest_named("3.5.7@:11,4.3.0@12:") == "4.3.0"


def test_a_batch_may_be_begun_by_one_spark_and_finished_by_the_next():
    assert spark_spans("3.5.7@:11,4.3.0@11:", 0, 30) == [("3.5.7", 0, 11), ("4.3.0", 11, 30)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3.5.7@:11,4.3.0@13:", "where does 3.5.7 end"),
        ("3.5.7@:11,4.3.0@10:", "where does 3.5.7 end"),
        ("3.5.7@:11,4.3.0@12:20", "the log has batches 0 to 30"),
        ("3.5.7@:,4.3.0@12:", "where does 3.5.7 end"),
    ],
)
def test_a_batch_of_no_spark_or_of_two_is_refused(text, said):
    with pytest.raises(UsageError) as caught:
        spark_spans(text, 0, 30)
    assert said in caught.value.detail


@pytest.mark.parametrize(
    "text", ["3.5.7,4.3.0@12:", "new@:3,4.3.0@4:", "3.5.7@,4.3.0@12:", "3.5.7@x,4.3.0@12:"]
)
def test_what_names_no_batches_is_refused(text):
    with pytest.raises(UsageError, match="--spark-version"):
        named_sparks(text)
