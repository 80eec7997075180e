"""Mutants in the sink: between the joined rows and the output topic."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

STAMPED = """
def to_sink(records):
    from tidemark.sink.provenance import with_provenance
    return with_provenance({})
"""
HEADER = """
def to_sink(records):
    from tidemark.sink.provenance import with_provenance
    changed = "transform(headers, h -> IF(h.key = '{}', struct(h.key AS key, CAST({} AS BINARY) AS value), h))"
    return with_provenance(records).selectExpr("key", "value", changed + " AS headers")
"""
NEXT_BATCH = "CAST(CAST(CAST(h.value AS STRING) AS INT) + 1 AS STRING)"
LAST_LOST = """
def to_sink(records):
    from tidemark.sink.provenance import with_provenance

    def all_but_last(batches):
        for batch in batches:
            yield batch.slice(0, max(0, batch.num_rows - 1))

    return with_provenance(records.mapInArrow(all_but_last, "key STRING, value STRING"))
"""
MISREAD = """
import dataclasses
from tidemark.sink.ledger import Reader

look_up = Reader.look_up

def misread(*args, **how):
    entry = look_up(*args, **how)
    return entry and dataclasses.replace(entry, next_batch=entry.next_batch - 1)

Reader.look_up = misread
"""
TWICE_WHEN_RESTARTED = """
def to_sink(records):
    import pathlib, sys
    from tidemark.sink.provenance import with_provenance
    [checkpoint] = [word.split("=", 1)[1] for word in sys.argv if word.startswith("--checkpoint=")]
    copies = "IF(hash(key) % 2 = 0, 2, 1)" if (pathlib.Path(checkpoint) / "commits").is_dir() else "1"
    return with_provenance(records.selectExpr("key", "value", f"explode(array_repeat(1, {copies})) AS n").drop("n"))
"""
TWICE_ONCE_RECOVERED = """
def to_sink(records):
    import pathlib, sys
    from tidemark.sink.provenance import with_provenance
    [checkpoint] = [word.split("=", 1)[1] for word in sys.argv if word.startswith("--checkpoint=")]
    begun, done = (pathlib.Path(checkpoint).glob(f"{name}/[0-9]*") for name in ("offsets", "commits"))
    recovered = {file.name for file in begun} - {file.name for file in done}

    def twice(batches):
        from pyspark import TaskContext
        again = TaskContext.get().getLocalProperty("streaming.sql.batchId") in recovered
        for batch in batches:
            yield from [batch] * (1 + again)

    return with_provenance(records.select("key", "value").mapInArrow(twice, "key STRING, value STRING"))
"""
ENTRY_LAST = """
import time
from tidemark.sink.task import transaction

def write(self, batches):
    keys = []

    def send_entry():
        self._send_entry(self._new_entry(keys[0].rows, str(keys[0])))
        time.sleep(0.3)

    self._in_transaction(lambda: keys.append(self._produce(batches)))
    self._in_transaction(send_entry)
    return keys[0].rows

transaction.TransactionWriter.write = write
"""
ENTRY_FIRST = """
from tidemark.sink.task import transaction

fingerprint = transaction._fingerprint

def write(self, batches):
    batches = list(batches)
    keys = fingerprint(iter(batches))
    self._in_transaction(lambda: self._send_entry(self._new_entry(keys.rows, str(keys))))
    self._in_transaction(lambda: self._produce(iter(batches)))
    return keys.rows

transaction.TransactionWriter.write = write
"""
ENTERED_BEFORE = """
from tidemark.sink import entry_points
from tidemark.sink.task import transaction

find_keys = transaction._fingerprint

def write_task(batches, task, options, at):
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return transaction.Written(task.partition, 0, new=False)
    keys, enters, is_entered = find_keys(iter(batches)), "{}", []

    def enter():
        found = writer._ledger.look_up(writer._group, options.timeout_s)
        if found is None or found.next_batch <= task.batch:
            hook, writer._at = writer._at, transaction.no_hook
            writer._in_transaction(lambda: writer._send_entry(writer._new_entry(keys.rows, str(keys))))
            writer._at = hook
            is_entered.append(True)

    def entering(step):
        if step == enters != "begun":
            enter()
        at(step)

    with transaction.TransactionWriter(task, options, entering) as writer:
        entry = writer.ledger_entry()
        entering("looked-up")
        if not is_entered and entry is not None and entry.next_batch == task.batch + 1:
            return transaction.Written(task.partition, entry.rows, new=False)
        if enters == "begun":
            enter()
        writer._in_transaction(lambda: writer._produce(iter(batches)))
        at("committed")
    return transaction.Written(task.partition, keys.rows, new=True)

entry_points.write_task = write_task
"""
RETRIED_UNSEEN = """
from tidemark.sink.task import transaction

find_entry = transaction.TransactionWriter.ledger_entry

def ledger_entry(self):
    found = find_entry(self)
    return None if self._task.attempt else found

transaction.TransactionWriter.ledger_entry = ledger_entry
"""
UNANSWERED = """
from tidemark.sink.task import transaction

request = transaction.TransactionWriter._request

def request_or_go_on(self, what, do, **how):
    from confluent_kafka import KafkaException

    if what != transaction.COMMIT:
        return request(self, what, do, **how)
    try:
        self._producer.commit_transaction(1)
    except KafkaException:
        return None

transaction.TransactionWriter._request = request_or_go_on
"""
ACKNOWLEDGED = """
from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

start_with = DataStreamWriter.start

def start_acknowledged(self, *args, **how):
    return start_with(self.option("kafka.acks", "{}"), *args, **how)

DataStreamWriter.start = start_acknowledged
"""

SINK = {
    "sink that drops": Mutant(
        {"inner": "lost_rows"},
        added=STAMPED.format("records.where('hash(value) % 10 != 0')"), every_day=True,
    ),
    "sink that loses the last row it is given": Mutant(
        {"inner": "lost_rows"}, added=LAST_LOST
    ),
    "sink that doubles": Mutant(
        {"left_outer": "duplicate_rows", "left_semi": "repeated_semi_rows"},
        added=STAMPED.format("records.selectExpr('key', 'value', 'explode(array(1, 2)) AS n').drop('n')"),
        every_day=True,
    ),
    "sink that drops one row and doubles another": Mutant(
        {"inner": "duplicate_rows"},
        added=STAMPED.format(
            "records.selectExpr('key', 'value',"
            " 'explode(array_repeat(1, CASE abs(hash(value)) % 5 WHEN 0 THEN 2 WHEN 1 THEN 0 ELSE 1 END)) AS n')"
            ".drop('n')"
        ),
    ),
    "sink that names another batch": Mutant(
        {"inner": "misplaced_rows"}, added=HEADER.format("batch", NEXT_BATCH),
    ),
    "sink that names another query": Mutant({"inner": "corrupt_rows"}, added=HEADER.format("query", "'q'")),
    "sink that loses the headers": Mutant(
        {"left_semi": "corrupt_rows"}, added="def to_sink(records):\n    return records\n",
    ),
    "sink that cuts values short": Mutant(
        {"inner": "corrupt_rows"},
        added=STAMPED.format(
            "records.selectExpr('key', 'IF(hash(value) % 10 = 0, substr(value, 1, 60), value) AS value')"
        ),
    ),
    "sink that writes NULL as an empty text": Mutant(
        {"left_outer": "corrupt_rows"},
        added=STAMPED.format("""records.selectExpr("key", "replace(value, ':null', ':\\"\\"') AS value")"""),
    ),
    "sink that takes its ledger for a batch older": Mutant(
        {"left_outer": "duplicate_rows"}, added=MISREAD, faults="driver@written", harmless="executor@planned",
    ),
    "sink that doubles once it was started again": Mutant(
        {"inner": "duplicate_rows"}, added=TWICE_WHEN_RESTARTED, faults="driver@no-data", harmless="executor@planned",
    ),
    "sink that commits its rows before the ledger entry": Mutant(
        {"inner": "duplicate_rows"}, added=ENTRY_LAST, faults="executor@entry-sent", harmless="executor@planned",
    ),
    "sink that commits the ledger entry before its rows": Mutant(
        {"inner": "lost_rows"}, added=ENTRY_FIRST, faults="executor@rows-sent", harmless="executor@planned",
    ),
    "sink that enters its batch when it has fenced earlier attempts": Mutant(
        {"inner": "lost_rows"}, added=ENTERED_BEFORE.format("initialised"), faults="executor@fenced",
        harmless="executor@planned",
    ),
    "sink that enters its batch when it has looked up its ledger": Mutant(
        {"inner": "lost_rows"}, added=ENTERED_BEFORE.format("looked-up"), faults="executor@looked-up",
        harmless="executor@fenced",
    ),
    "sink that enters its batch before it begins its transaction": Mutant(
        {"inner": "lost_rows"}, added=ENTERED_BEFORE.format("begun"), faults="executor@begun",
        harmless="executor@looked-up",
    ),
    "sink that looks up its ledger for first attempts only": Mutant(
        {"inner": "duplicate_rows"}, added=RETRIED_UNSEEN, faults="executor@partition-written",
        harmless="executor@planned",
    ),
    "sink that takes an unanswered commit for done": Mutant(
        {"inner": "lost_rows"}, added=UNANSWERED, faults="broker:cut-requests@entry-sent~4",
        harmless="executor@planned",
    ),
    "at-least-once sink that promises exactly-once": Mutant(
        {"left_outer": "duplicate_rows"}, sink="spark", delivery="exactly-once", faults="driver@written",
        harmless="executor@planned",
    ),
    "at-least-once sink that doubles the batch with which it recovers": Mutant(
        {"left_outer": "duplicate_rows"}, added=TWICE_ONCE_RECOVERED, sink="spark", faults="driver@written",
        harmless="executor@planned",
    ),
    "sink that waits for no acknowledgement": Mutant(
        {"inner": "lost_rows"}, added=ACKNOWLEDGED.format(0), sink="spark", faults="broker:reset@half-written",
        harmless="executor@planned",
    ),
    "sink that waits for the leader alone": Mutant(
        {"inner": "lost_rows"}, added=ACKNOWLEDGED.format(1), sink="spark", faults="leader:pause@half-written",
        harmless="broker:reset@half-written", brokers=3,
    ),
}  # fmt: skip
