"""A checkpoint damaged between two runs of a query: its rows are right, or it stops, says why, and goes on once mended.

What is to be expected is in the name of each test, and as a table in ``docs/explanation/commit-points.md``.
"""

from __future__ import annotations

import pytest

from tests.chaos import damage
from tests.e2e.sinks import driver_of_ones_own
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.kafka import client as kafka

pytestmark = [pytest.mark.chaos]

SINKS = ("exactly-once", "spark")
NAMELESS = "EOFException: Stream ended prematurely"
"""All that Spark says of a state file that is cut and has no checksum: not which one."""


@pytest.fixture(scope="module")
def warm(stack, tmp_path_factory):
    """On a driver of its own that soon gives up, because trying a task again does not help here."""
    logs = tmp_path_factory.mktemp("warm")
    conf = {"spark.task.maxFailures": "2"}
    with driver_of_ones_own(stack, **conf) as driver, WarmDriver(stack, driver, logs) as running:
        yield running


@pytest.fixture
def judged(warm, tmp_path):
    """A function that runs the join with one of the sinks, as it is told to, and returns the verdict."""

    def judge(drive, sink="exactly-once"):
        return warm.run(damage.case(sink), tmp_path / "run", drive)

    return judge


@pytest.fixture(scope="module")
def mounts(stack):
    """Skips where the parts would not see what is mounted."""
    if stack.spec.backend != "local":
        pytest.skip("a container does not see what is mounted after it was started")


def assert_valid(verdict):
    assert verdict.verdict == "VALID", verdict


@pytest.mark.long  # every day, without a join: in tests/e2e/test_exactly_once_sink.py
@pytest.mark.parametrize("sink", SINKS)
def test_a_batch_whose_commit_is_gone_is_run_again_and_doubled_only_by_sparks_own_sink(sink, judged):
    def drive(run):
        checkpoint = damage.begin(run)
        damage.forget(checkpoint, "commits", checkpoint.committed()[-1])
        damage.finish(run)

    verdict = judged(drive, sink)
    assert_valid(verdict)
    assert verdict.counts["batches_run_again"] == 1
    assert (verdict.counts["duplicates_permitted"] > 0) == (sink == "spark")


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        (1, "was read from other offsets"),
        (2, "is older than the newest batch in Kafka"),
    ],
)
@pytest.mark.long
def test_a_checkpoint_rolled_back_is_refused_and_goes_on_once_the_newer_one_is_back(batches, said, judged):
    def drive(run):
        checkpoint = damage.begin(run)
        with damage.saved(checkpoint):
            damage.roll_back(checkpoint, batches)
            run.publish("trace", damage.SLICES - 1)
            assert said in damage.failure_of(run).detail
        damage.finish(run, published=True)

    assert_valid(judged(drive))


@pytest.mark.long
def test_of_a_checkpoint_that_was_refused_the_state_has_to_be_put_back_as_well(judged):
    """The join of the batch had run by then, and the sink comes after it."""

    def drive(run):
        checkpoint = damage.begin(run)
        with damage.saved(checkpoint, "offsets", "commits"):
            damage.roll_back(checkpoint, 1)
            run.publish("trace", damage.SLICES - 1)
            damage.failure_of(run)
        damage.finish(run, published=True)

    assert judged(drive).verdict == "INVALID"


@pytest.mark.long
def test_with_sparks_own_sink_nobody_is_told_of_a_rollback_but_the_judge_finds_the_rows_that_came_again(
    judged,
):
    def drive(run):
        checkpoint = damage.begin(run)
        damage.roll_back(checkpoint, 2)
        damage.finish(run)

    verdict = judged(drive, "spark")
    assert verdict.verdict == "INVALID"
    assert set(verdict.findings_total) == {"duplicate_rows"}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ([damage.cut], "Checksum error"),
        ([damage.without_checksum, damage.cut], NAMELESS),
        ([damage.remove], "does not exist"),
    ],
    ids=["cut", "cut-without-checksum", "gone"],
)
@pytest.mark.long
def test_a_state_file_that_is_not_whole_stops_the_query_until_it_is_back(how, said, judged):
    def drive(run):
        checkpoint = damage.begin(run)
        file = damage.newest_state(checkpoint)
        run.publish("trace", damage.SLICES - 1)
        with damage.saved(checkpoint):
            for step in how:
                step(file)
            failure = damage.failure_of(run)
            assert said in failure.detail
            assert (str(file) in failure.detail) == (said != NAMELESS)
        damage.finish(run, published=True)

    assert_valid(judged(drive))


@pytest.mark.long
@pytest.mark.parametrize("sink", SINKS)
def test_a_state_file_of_the_last_batch_is_made_again_where_that_batch_is_forgotten(sink, judged):
    def drive(run):
        checkpoint = damage.begin(run)
        last = checkpoint.committed()[-1]
        file = damage.newest_state(checkpoint)
        damage.remove(file)
        run.publish("trace", damage.SLICES - 1)
        assert str(file) in damage.failure_of(run).detail
        damage.forget(checkpoint, "offsets", last + 1)
        damage.forget(checkpoint, "commits", last)
        damage.finish(run, published=True)

    verdict = judged(drive, sink)
    assert_valid(verdict)
    assert (verdict.counts["duplicates_permitted"] > 0) == (sink == "spark")


@pytest.mark.usefixtures("mounts")
@pytest.mark.long
@pytest.mark.parametrize("sink", SINKS)
def test_a_checkpoint_that_cannot_be_written_stops_the_query_until_it_can(sink, judged):
    def drive(run):
        checkpoint = damage.begin(run)
        run.publish("trace", damage.SLICES - 1)
        with damage.read_only(checkpoint.path):
            said = damage.failure_of(run).detail
            assert "Read-only file system" in said
            assert str(checkpoint.path) in said
        damage.finish(run, published=True)

    verdict = judged(drive, sink)
    assert_valid(verdict)
    assert verdict.counts["duplicates_permitted"] == 0


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize("sink", ["exactly-once", pytest.param("spark", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("free_pages", "planned"),
    [(6, True), pytest.param(0, False, marks=pytest.mark.long)],
    ids=["in-the-midst-of-a-batch", "before-it"],
)
def test_a_disk_that_is_full_stops_the_query_until_there_is_room(free_pages, planned, sink, judged):
    def drive(run):
        checkpoint = damage.begin(run)
        run.publish("trace", damage.SLICES - 1)
        with damage.full_disk(checkpoint.path, free_pages=free_pages):
            assert "No space left on device" in damage.failure_of(run).detail
            assert (checkpoint.running() is not None) == planned
        damage.finish(run, published=True)

    verdict = judged(drive, sink)
    assert_valid(verdict)
    assert verdict.counts["duplicates_permitted"] == 0


@pytest.mark.long  # every day: in tests/e2e/test_exactly_once_sink.py
def test_an_output_topic_that_is_missing_is_named_before_anything_is_read(stack, judged):
    def drive(run):
        kafka.delete_topics(stack.bootstrap_servers, [run.output])
        assert f"there is no topic '{run.output}'" in damage.failure_of(run).detail
        kafka.create_topics(stack.bootstrap_servers, {run.output: 2})
        damage.begin(run)
        damage.finish(run)

    assert_valid(judged(drive))


@pytest.mark.long
@pytest.mark.parametrize("sink", SINKS)
def test_records_deleted_before_they_were_read_stop_the_query_and_nothing_is_called_valid(
    stack, sink, judged
):
    def drive(run):
        damage.begin(run)
        run.publish("trace", damage.SLICES - 1)
        damage.lose_records(stack.bootstrap_servers, run.inputs["lefts"])
        for _ in range(2):
            assert "failOnDataLoss" in damage.failure_of(run).detail

    verdict = judged(drive, sink)
    assert verdict.verdict == "UNKNOWN"
