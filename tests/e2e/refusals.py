"""What the exactly-once sink refuses of a batch that is run again; wherever the checkpoint is."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.e2e.sinks import Copy
from tests.e2e.tasks import lose_entries


def failure_of(copy: Copy, *args: Any, **how: Any) -> str:
    """What a run of the query ends with."""
    with pytest.raises(StreamingQueryException) as failed:
        copy.run(*args, **how)
    return str(failed.value)


def must_refuse_another_batch(copy: Copy) -> None:
    """After a rollback by one batch, in which there is more now."""
    copy.feed(150)
    copy.run()
    copy.forget("commits")
    copy.forget("offsets")
    copy.feed(150)
    assert "was read from other offsets" in failure_of(copy)
    assert copy.values() == [str(number) for number in range(150)]


def must_refuse_an_old_batch(copy: Copy) -> None:
    """One that is older than what brokers remember, unless it is forced."""
    copy.feed(50)
    copy.run()
    batch = copy.forget("commits")
    copy.backdate(batch, 365 * 24 * 3600)

    text = failure_of(copy)
    assert f"batch {batch} was begun" in text
    assert "ignoreExpiry" in text
    copy.run(options={"ignoreExpiry": "true"})
    assert copy.values() == copy.wanted()


def must_refuse_a_lost_ledger(copy: Copy) -> list[str]:
    """Nothing more is written then; returns the values that are there."""
    copy.feed(250)
    query = copy.run()
    batch = copy.forget("commits")
    lose_entries(copy.bootstrap, query.id)
    before = copy.values()

    text = failure_of(copy)
    assert f"batch {batch} of query {query.id} was begun before, but the ledger has no entry" in text
    assert "newLedger" in text
    assert copy.values() == before
    return before
