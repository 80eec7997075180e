"""A pipeline that starts its own query: its sources, its options, its sink."""

from __future__ import annotations

import json

import pytest

from tests.support.stranger import Stranger
from tests.support.tiers import every_day
from tidemark.formats.evidence import RunDirectory

QUERY = '''"""Orders and payments, written as the team writes them."""

from dataclasses import replace

from adteam import join
from pyspark.sql.functions import struct, to_json

CONTRACT = replace(join.PROMISE, output=replace(join.PROMISE.output, left_ref=None, right_ref=None))


def start(spark, io):
    sides = [spark.readStream.format("kafka").options(**io.source(name)).load() for name in ("orders", "payments")]
    rows = join.build(*sides).select("order_id", "payment_id")

    def write(batch, _number):
        records = batch.select(to_json(struct("*")).alias("value")).write.format("kafka")
        records.option("kafka.bootstrap.servers", io.bootstrap).option("topic", io.output).save()

    writer = rows.writeStream.foreachBatch(write).trigger(**io.trigger)
    return writer.option("checkpointLocation", io.checkpoint).start()
'''
WITH_HEADERS = """

def start(spark, io):
    from tidemark.sink import write_exactly_once

    sides = [spark.readStream.format("kafka").options(**io.source(name)).load() for name in ("orders", "payments")]
    records = join.build(*sides).select(to_json(struct("*"), {"ignoreNullFields": "false"}).alias("value"))
    options = {
        "kafka.bootstrap.servers": io.bootstrap, "topic": io.output, "checkpointLocation": io.checkpoint,
    }
    return write_exactly_once(records, options, provenance=True).trigger(**io.trigger).start()
"""


@pytest.fixture
def stranger(stack, tmp_path):
    return Stranger(tmp_path / "theirs", {"src/adteam/query.py": QUERY})


def run(stranger, *options):
    """A run of the query; its directory."""
    directory = stranger.folder / "run"
    done = stranger.run("run", "adteam.query", "--trace", "trace.jsonl", "--run-dir", directory, *options)
    return done, RunDirectory(directory)


@pytest.mark.long
def test_a_query_of_their_own_is_judged_by_its_ids_also_after_its_driver_was_killed(stranger):
    done, evidence = run(stranger, "--faults", "driver@planned")

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "judged as at-least-once" in done.stdout
    assert "as a multiset of ids" in done.stdout
    assert "faults         1 (1 kill driver at planned)" in done.stdout
    assert [batch.batch for batch in evidence.batches() if batch.restarted] == [evidence.faults()[0].batch]
    assert not [note for note in evidence.manifest.notes if "not compared" in note]
    assert {json.loads(record.value)["order_id"] for record in evidence.output()} == {"o1", "o2", "o3"}


def test_a_query_that_loses_rows_is_invalid_and_names_them(stranger):
    stranger.change(
        "src/adteam/query.py", '.select("order_id"', '.where("order_id <> \'o3\'").select("order_id"'
    )

    done, _ = run(stranger)

    assert done.returncode == 1
    assert "o3 (orders/0/2" in done.stdout


@pytest.mark.long
def test_records_that_name_their_batch_are_judged_as_those_of_any_run(stranger):
    text = (stranger.folder / "src/adteam/query.py").read_text().partition("\n\ndef start")[0]
    contract = text.replace(
        "output=replace(join.PROMISE.output, left_ref=None, right_ref=None)", "delivery=Delivery.EXACTLY_ONCE"
    )
    contract = contract.replace(
        "from adteam import join", "from adteam import join\nfrom tidemark import Delivery"
    )
    stranger.write("src/adteam/query.py", contract + WITH_HEADERS)

    done, evidence = run(stranger)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "VALID  orders_payments, judged as exactly-once" in done.stdout
    assert evidence.manifest.audit is None
    assert evidence.manifest.delivery == "exactly-once"


WRONG = {
    "nothing": ("    return writer", "    writer", 2, "returned NoneType"),
    "another checkpoint": (
        'Location", io.checkpoint', 'Location", io.checkpoint + "-2"', 2, "another checkpoint",
    ),
    "latest offsets": (
        "**io.source(name)", '**{**io.source(name), "startingOffsets": "latest"}', 4, "but from offset",
    ),
    "another topic": (
        'options(**io.source(name))', 'options(**{**io.source(name), "subscribe": io.output})', 4,
        "does not read the topic of 'orders'",
    ),
    "an exception": (
        "    rows = ", "    rows = 1 / 0\n    rows = ", 2, "src/adteam/query.py:13 in start: rows = 1 / 0",
    ),
}  # fmt: skip
"""What is replaced in the query, by what, the exit code and the error."""


@pytest.mark.parametrize("what", every_day(WRONG, ("another topic",)))
def test_a_query_that_cannot_be_judged_is_refused(what, stranger):
    old, new, code, says = WRONG[what]
    stranger.change("src/adteam/query.py", old, new)

    done, _ = run(stranger)

    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert says in done.stderr[done.stderr.rindex("error: ") :]


def test_a_commit_point_that_nothing_shows_is_refused(stranger):
    done, evidence = run(stranger, "--kill-drivers", "1")

    assert done.returncode == 2
    assert "driver@written cannot be injected: the pipeline writes with a sink of its own" in done.stderr
    assert not list(evidence.path.glob("trace*"))
