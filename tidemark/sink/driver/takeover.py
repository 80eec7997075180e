"""On the driver: fences the producers of earlier attempts of a query. Needs a broker; free of Spark.

For each transactional id a new producer is initialized, which ends the open transaction of that id.

* Before a batch is run again, before any of its tasks writes: afterwards the earlier run cannot commit anything, and
  its ledger entries are checked against the batch.
* At batch 0: an entry without rows is written. From then on an empty ledger means a lost ledger, also for a query that
  fails in its first batch with rows.
* After a batch failed or was stopped: a killed Python worker leaves its transaction open, and readers at read_committed
  would wait for its timeout.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tidemark.errors import SinkRefused
from tidemark.sink.driver.in_flight import InFlight
from tidemark.sink.ledger import LedgerEntry, Names
from tidemark.sink.ledger_checks import Task
from tidemark.sink.sink_options import SinkOptions
from tidemark.sink.task.transaction import TransactionWriter, ledger_reader, new_producer

CONCURRENT_PRODUCERS = 8
"""Producers that are initialized at the same time; each waits a few milliseconds for its coordinator."""
INIT_S = 5.0
"""Calibration: ending an open transaction takes 0.5 s (librdkafka's retry interval)."""


def take_over(query: str, batch: InFlight, options: SinkOptions) -> None:
    """Before a batch is run again: fence its earlier attempts, and check their ledger entries against the batch.

    Raises:
        SinkRefused: the batch was begun with other settings or input, or the ledger has no entry of the query.
        SinkFailed: the ledger cannot be read.
    """
    task = Task(query, "", batch.batch, 0, 0, options.partitions, batch.offsets)
    known = ledger_reader(options).listed(Names(options.prefix, query, options.sink))
    numbers = sorted({*range(options.partitions), *known})
    with ThreadPoolExecutor(CONCURRENT_PRODUCERS) as pool:
        entries = list(pool.map(lambda number: _fence(replace(task, partition=number), options), numbers))
    if batch.batch > 0 and not any(entries) and not options.new_ledger:
        raise SinkRefused(
            f"batch {batch.batch} of query {query} was begun before, but the ledger has no entry of this query",
            detail="rows of the batch that are already in Kafka would be written twice: its consumer groups "
            "or the ledger "
            "topic were deleted, sinkId or transactionalIdPrefix was changed, or another sink began the batch",
            hint="if another sink began the batch, start the query with that sink and let the batch "
            "complete; otherwise, "
            "if no earlier batch had rows or duplicates are acceptable, set the option newLedger to true for one start",
        )


def open_ledger(query: str, batch: InFlight, options: SinkOptions) -> None:
    """At a query's first batch: write an entry of partition 0 without rows, unless there is one.

    Raises:
        SinkFailed: the entry could not be written.
    """
    with TransactionWriter(
        Task(query, "", batch.batch, 0, 0, options.partitions, batch.offsets), options
    ) as writer:
        if writer.own_entry() is None:
            writer.open_ledger()


def end_transactions(query: str, options: SinkOptions) -> None:
    """After a batch failed or was stopped: end the transactions that its tasks left open.

    A task that is still running is fenced. A transaction that cannot be ended now is ended by the next attempt or by
    its timeout.
    """
    from confluent_kafka import KafkaException

    names = Names(options.prefix, query, options.sink)

    def end(partition: int) -> None:
        producer = new_producer(options, names.group(partition), lambda *_: None)
        try:
            producer.init_transactions(INIT_S)
        except KafkaException:
            return

    with ThreadPoolExecutor(CONCURRENT_PRODUCERS) as pool:
        list(pool.map(end, range(options.partitions)))


def _fence(task: Task, options: SinkOptions) -> LedgerEntry | None:
    with TransactionWriter(task, options) as writer:
        return writer.own_entry()
