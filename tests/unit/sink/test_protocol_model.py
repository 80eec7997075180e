"""The protocol of the exactly-once sink is safe in every order of events, and needs each of its safeguards."""

from __future__ import annotations

import functools
import re

import pytest

from tests.unit.sink.protocol_model import MUTATIONS, Result, as_text, explore
from tests.unit.sink.protocol_steps import EVERY_SAFEGUARD, TV1, TV2, Broker, Safeguard

BROKERS = pytest.mark.parametrize("broker", [TV1, TV2], ids=lambda broker: broker.name)
MUTATION = {mutation.safeguard: mutation for mutation in MUTATIONS}
TWICE = r"row \d of batch 0 is committed twice"
LOST = r"is complete, and its row \d is lost"


@functools.cache
def explored(broker: Broker, attempts: int = 2) -> Result:
    return explore(EVERY_SAFEGUARD, broker, attempts)


def assert_safe(result: Result, more_than: int) -> None:
    assert not result.counterexample, as_text(result.counterexample)
    assert result.states > more_than


def assert_counterexample(result: Result, *lines: str) -> None:
    """Its counterexample has a line for each of these patterns, in this order, and the last one is its end."""
    assert result.counterexample, f"nothing was found in {result.states} states"
    text = as_text(result.counterexample)
    assert re.search(".*".join(lines) + r"\Z", text, re.DOTALL), text


# With every safeguard


@BROKERS
@pytest.mark.parametrize(("attempts", "more_than"), [(2, 5_000), (3, 20_000)])
def test_each_row_is_committed_once_and_nothing_stays_open(broker, attempts, more_than):
    assert_safe(explored(broker, attempts), more_than)


@BROKERS
def test_a_rolled_back_checkpoint_makes_the_query_fail_and_loses_nothing(broker):
    result = explore(EVERY_SAFEGUARD, broker, 1, rollback=True)
    assert_safe(result, 1_000)
    assert any("finds the batch with other contents, the attempt fails" in step for step in result.outcomes)
    assert any(
        "other contents, attempt 1: the lookup finds a later batch, the" in step for step in result.outcomes
    )
    assert not any("batch 0 with other contents into the commit log" in step for step in result.outcomes)


@BROKERS
def test_partitions_that_keep_their_rows_are_safe_when_the_driver_dies_between_them(broker):
    result = explore(EVERY_SAFEGUARD, broker, 2, partitions=2)
    assert_safe(result, 5_000)
    assert "partition 0: batch 0, attempt 2: the lookup finds the batch, the attempt skips" in result.outcomes


@BROKERS
@pytest.mark.parametrize(
    "outcome",
    [
        r"batch 0, attempt 1 is fenced with its Produce$",
        r"batch 0, attempt 1 is fenced with its EndTxn\(commit\)$",
        r"the delayed EndTxn\(commit\) of batch 0, attempt 1 is fenced$",
        r"attempt 1: the delayed EndTxn\(commit\) ends the open transaction",
        r"EndTxn\(commit\) ends the open transaction, the answer is lost$",
        r"EndTxn\(commit\) was done before$",
        r"EndTxn\(abort\) ends the open transaction$",
        r"batch 0, attempt 2: InitProducerId aborts an open transaction, and is to come back",
        r"attempt 1: the delayed InitProducerId aborts .*; batch 1, attempt 1 is fenced with its TxnOffsetCommit$",
        r"batch 0, attempt 2: the lookup is answered UNSTABLE_OFFSET_COMMIT$",
        r"batch 0, attempt 2: the lookup finds the batch, the attempt skips$",
        r"batch 0, attempt 1: the lookup finds a later batch, the attempt fails$",
        r"the lookup finds nothing, but the attempt is fenced by now$",
        r"batch 0, attempt 2: Produce writes row 1$",
        r"batch 0, attempt 2 reports success$",
        r"the transaction was open for too long, and is aborted; batch 1, attempt 2 is fenced",
        r"^the driver dies before the commit log, and runs batch 0 again$",
        r"^all attempts have failed, and the query with them$",
        r"^Spark writes batch 1 into the commit log$",
    ],
)
def test_every_interesting_outcome_occurs(broker, outcome):
    assert any(re.search(outcome, step) for step in explored(broker).outcomes)


def test_a_delayed_produce_whose_transaction_has_ended_is_refused():
    assert any("the delayed Produce is refused" in step for step in explored(TV1).outcomes)


# Without one of them


@BROKERS
def test_a_lookup_before_init_misses_what_a_zombie_commits_in_between(broker):
    assert_counterexample(
        MUTATION[Safeguard.INIT_FIRST].explore(broker),
        r"attempt 2: the lookup finds nothing\n",
        r"attempt 1: EndTxn\(commit\) ends the open transaction",
        r"attempt 2: InitProducerId is answered",
        r"attempt 2: EndTxn\(commit\) ends the open transaction",
        TWICE,
    )


@BROKERS
def test_a_lookup_that_is_not_stable_misses_what_is_committed(broker):
    assert_counterexample(
        MUTATION[Safeguard.STABLE_LOOKUP].explore(broker),
        r"the commit marker is written to the ledger\n",
        r"attempt 2: the lookup finds nothing, though an entry of it is committed\n",
        r"attempt 2: EndTxn\(commit\) ends the open transaction",
        TWICE,
    )


@BROKERS
def test_a_lookup_after_init_need_not_be_stable_where_a_marker_counts_when_it_is_written(broker):
    at_once = broker._replace(applies_later=False)
    assert_safe(explore(EVERY_SAFEGUARD - {Safeguard.STABLE_LOOKUP}, at_once, 2), 5_000)


def test_a_producer_that_is_used_again_has_its_transaction_ended_by_a_delayed_request():
    assert_counterexample(
        MUTATION[Safeguard.FRESH_PRODUCER].explore(TV1),
        r"attempt 1 sends EndTxn\(abort\) again, the first is on the way\n",
        r"attempt 2 starts with a producer that was used before\n",
        r"attempt 2: Produce writes row 0\n",
        r"attempt 1: the delayed EndTxn\(abort\) ends the open transaction\n",
        r"attempt 2: EndTxn\(commit\) ends the open transaction\n",
        LOST,
    )


def test_a_producer_may_be_used_again_where_each_transaction_has_its_own_epoch():
    result = MUTATION[Safeguard.FRESH_PRODUCER].explore(TV2)
    assert_safe(result, 5_000)
    assert any("starts with a producer that was used before" in step for step in result.outcomes)
    assert any(
        re.search(r"attempt 1: .*the delayed EndTxn\(commit\) of batch", step) for step in result.outcomes
    )


@BROKERS
def test_rows_that_change_their_partition_are_written_by_both(broker):
    assert_counterexample(
        MUTATION[Safeguard.PINNED_MAP].explore(broker),
        r"partition 0: batch 0, attempt 1: Produce writes row 0\n",
        r"the driver dies before the commit log, and runs batch 0 again\n",
        r"partition 0: batch 0, attempt 2: the lookup finds the batch, the attempt skips\n",
        r"partition 1: batch 0, attempt \d: Produce writes row 0\n",
        TWICE,
    )


@BROKERS
def test_a_batch_that_is_skipped_because_of_a_later_one_is_lost(broker):
    assert_counterexample(
        MUTATION[Safeguard.LATER_BATCH_FAILS].explore(broker),
        r"the checkpoint is rolled back to before batch 0\n",
        r"batch 0 with other contents, attempt 1: the lookup finds a later batch, the attempt skips\n",
        r"Spark writes batch 0 with other contents into the commit log\n",
        LOST,
    )


@BROKERS
def test_a_batch_that_is_skipped_because_its_number_is_there_is_lost(broker):
    assert_counterexample(
        MUTATION[Safeguard.FINGERPRINT].explore(broker),
        r"the checkpoint is rolled back to before batch 0\n",
        r"batch 0 with other contents, attempt 1: the lookup finds the batch, the attempt skips\n",
        r"Spark writes batch 0 with other contents into the commit log\n",
        LOST,
    )


@BROKERS
def test_an_attempt_that_takes_itself_for_the_first_writes_again(broker):
    assert_counterexample(
        MUTATION[Safeguard.EVERY_ATTEMPT_LOOKS].explore(broker),
        r"attempt 1: EndTxn\(commit\) ends the open transaction",
        r"attempt 2: InitProducerId is answered[^\n]*\n[^\n]*attempt 2: Produce writes row 0\n",
        TWICE,
    )


# Without what the protocol takes from the broker


@BROKERS
def test_a_transaction_stays_open_if_the_broker_never_aborts_it(broker):
    assert_counterexample(
        explore(EVERY_SAFEGUARD, broker._replace(times_out=False), 1),
        r"attempt 1 is killed, its Produce is on the way\n",
        r"attempt 1: the delayed Produce writes row 0\n",
        r"no end can be reached: something stays open",
    )


def test_a_produce_that_is_not_verified_outlives_its_abort_and_is_committed_by_the_next_attempt():
    assert_counterexample(
        explore(EVERY_SAFEGUARD, TV1._replace(verifies=False), 2),
        r"attempt 1 raises and sends EndTxn\(abort\), its Produce is on the way\n",
        r"the abort marker is written to the rows\n",
        r"attempt 1: the delayed Produce writes row 1\n",
        r"attempt 2: EndTxn\(commit\) ends the open transaction\n",
        TWICE,
    )


def test_every_safeguard_is_taken_away_once():
    assert [mutation.safeguard for mutation in MUTATIONS] == list(Safeguard)


def test_a_counterexample_is_told_with_a_line_for_each_step():
    assert (
        as_text(("this happens", "then that", "it is wrong"))
        == "  1. this happens\n  2. then that\n  => it is wrong"
    )
