"""Before a batch is run again: on the driver, before any task of it writes. Needs a broker; free of Spark.

Whoever began it is shut out: each transactional id of the query gets a new producer, which ends what is open under that
name, as the next task's own would. What is committed then is all that ever will be, and has to fit.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tidemark.errors import SinkRefused
from tidemark.sink.fit import Task
from tidemark.sink.inflight import InFlight, query_id
from tidemark.sink.ledger import Entry, Names, listed
from tidemark.sink.options import SinkOptions
from tidemark.sink.transaction import Writer, new_admin

AT_ONCE = 8
"""Producers at a time; each waits for its coordinator for some milliseconds."""


def take_over(batch: InFlight, options: SinkOptions) -> None:
    """Shut out who began the batch, and compare what they left of it with what is to be written.

    Raises:
        SinkRefused: it was begun with other settings or of other input, or nothing is known of it.
        SinkFailed: Kafka does not say.
    """
    query = query_id(options.checkpoint or "")
    task = Task(query, "", batch.batch, 0, 0, options.partitions, batch.offsets)
    names = Names(options.prefix, query, options.sink)
    numbers = sorted({*range(options.partitions), *listed(new_admin(options), names)})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        entries = list(pool.map(lambda number: _entry(replace(task, partition=number), options), numbers))
    if batch.batch > 0 and not any(entries) and not options.new_ledger:
        raise SinkRefused(
            f"batch {batch.batch} of query {query} was begun before, but the ledger knows nothing of this query",
            detail="rows of it that are in Kafka already would be written twice: its groups or the ledger topic were "
            "deleted, sinkId or transactionalIdPrefix is another, or the query was run with another sink until now",
            hint="if another sink began the batch, start the query with that one, and let it end; if this one did, and "
            "no batch before had any rows, or duplicates will do, set the option newLedger to true for one start",
        )


def _entry(task: Task, options: SinkOptions) -> Entry | None:
    with Writer(task, options) as writer:
        return writer.own_entry()
