"""On the driver: shutting out whoever writes under a query's names. Needs a broker; free of Spark.

Each transactional id gets a new producer, which ends what is open under that name, as the next task's own would.

* Before a batch is run again, and before any task of it writes: what is committed then is all that ever will be of the
  run before, and has to fit what is to be written now.
* At batch 0: with an entry that says that nothing is written yet. From then on an empty ledger is a lost one, also of a
  query that dies in its first batch with rows.
* After a batch failed or was stopped: a Python worker that Spark has killed left its transaction open, and readers
  would wait for its timeout.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tidemark.errors import SinkRefused
from tidemark.sink.driver.in_flight import InFlight
from tidemark.sink.ledger import Entry, Names
from tidemark.sink.ledger_checks import Task
from tidemark.sink.sink_options import SinkOptions
from tidemark.sink.task.transaction import Writer, ledger_reader, new_producer

AT_ONCE = 8
"""Producers at a time; each waits for its coordinator for some milliseconds."""
END_S = 5.0
"""Calibration: ending an open transaction takes 0.5 s (librdkafka asks again after that time)."""


def take_over(query: str, batch: InFlight, options: SinkOptions) -> None:
    """Before a batch is run again: compare what was left of it with what is to be written.

    Raises:
        SinkRefused: it was begun with other settings or of other input, or nothing is known of it.
        SinkFailed: Kafka does not say.
    """
    task = Task(query, "", batch.batch, 0, 0, options.partitions, batch.offsets)
    known = ledger_reader(options).listed(Names(options.prefix, query, options.sink))
    numbers = sorted({*range(options.partitions), *known})
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


def open_ledger(query: str, batch: InFlight, options: SinkOptions) -> None:
    """At a query's first batch: an entry of partition 0 without any rows, unless there is one.

    Raises:
        SinkFailed: Kafka does not take it.
    """
    with Writer(Task(query, "", batch.batch, 0, 0, options.partitions, batch.offsets), options) as writer:
        if writer.own_entry() is None:
            writer.open_ledger()


def end_transactions(query: str, options: SinkOptions) -> None:
    """After a batch failed or was stopped: end what its tasks have left open.

    What cannot be ended now, the next attempt or the timeout ends; a task that is still at it fails.
    """
    from confluent_kafka import KafkaException

    names = Names(options.prefix, query, options.sink)

    def end(partition: int) -> None:
        producer = new_producer(options, names.group(partition), lambda *_: None)
        try:
            producer.init_transactions(END_S)
        except KafkaException:
            return

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(end, range(options.partitions)))


def _entry(task: Task, options: SinkOptions) -> Entry | None:
    with Writer(task, options) as writer:
        return writer.own_entry()
