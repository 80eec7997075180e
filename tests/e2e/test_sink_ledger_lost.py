"""A batch that is run again, while what of it is in Kafka is unknown, or known of partitions that are gone."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from tests.e2e.refusals import must_refuse_a_lost_ledger
from tests.e2e.sinks import Copy, connected
from tests.e2e.tasks import Writer, made, values
from tidemark.sink import write_exactly_once

pytestmark = [pytest.mark.e2e]


@pytest.fixture(scope="module")
def session(stack):
    with connected(stack, stack.driver()) as shared:
        yield shared


@pytest.fixture
def copy(stack, session):
    return Copy(stack, session)


def test_a_batch_in_flight_without_a_ledger_is_refused_unless_a_new_one_is_asked_for(copy):
    before = must_refuse_a_lost_ledger(copy)

    copy.run(options={"newLedger": "true"})
    assert set(copy.values()) == set(copy.wanted())
    assert len(copy.values()) > len(before)

    copy.feed(100)
    copy.forget("commits")
    written = len(copy.values())
    copy.run()
    assert len(copy.values()) == written + 100


def test_without_a_batch_in_flight_an_empty_ledger_is_a_beginning(copy):
    copy.feed(150)
    copy.run_with_spark()
    copy.feed(150)
    copy.run()
    assert copy.values() == copy.wanted()


def test_a_batch_that_another_sink_has_begun_is_left_to_that_sink(copy):
    copy.feed(250)
    copy.run_with_spark()
    copy.forget("commits")
    with pytest.raises(StreamingQueryException, match="start the query with that sink"):
        copy.run()

    copy.run_with_spark()
    written = len(copy.values())
    copy.feed(100)
    copy.run()
    assert len(copy.values()) == written + 100
    assert set(copy.values()) == set(copy.wanted())


@pytest.mark.parametrize("now", [1, 3])
def test_no_task_writes_anything_if_any_partition_of_the_batch_is_there_with_another_number_of_them(
    now, stack
):
    told = made(stack.bootstrap_servers)
    assert Writer(**told, partition=1).go_on()[1]["new"]

    for partition in range(now):
        word, said = Writer(**told, partition=partition, run="next", options={"partitions": str(now)}).go_on()
        assert word == "failed"
        assert f"partitions 2 before, {now} now" in said["message"]
        assert "begun" not in said["passed"]
    assert len(values(told)) == 20


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ({"continuous": "1 second"}, "Continuous processing does not support Repartition"),
        ({"realTime": "5 minutes"}, "is not in the sink allowlist for Real-Time Mode"),
    ],
)
def test_spark_itself_refuses_modes_without_micro_batches(trigger, said, copy):
    writer = write_exactly_once(copy.source(), copy.options())
    with pytest.raises(Exception, match=said):
        writer.trigger(**trigger).start().awaitTermination(60)
    assert copy.values() == []
