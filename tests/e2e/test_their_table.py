"""A user's query that writes a table in the place of a topic: Spark's file sink, Delta, Delta in ``foreachBatch``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.test_their_job import APP, CONTRACT, JOB
from tests.e2e.test_their_query import QUERY
from tests.support.delta import delta_jars
from tests.support.stranger import HEADER, Stranger
from tidemark import check
from tidemark.formats.evidence import RunDirectory

FILE = "src/adteam/job.py"
TO_TABLE = APP.replace("{output}", "{table}")
KAFKA_WRITER = """    writer = rows.select(to_json(struct("*")).alias("value")).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", args.brokers).option("topic", args.out)
"""
TABLE_WRITER = '    writer = rows.writeStream.format("{}").option("path", args.out)\n'
ROWS = {("o1", "p1"), ("o2", None), ("o3", "p3")}
NOT_LATE = ROWS | {("o4", None)}
"""Where Delta had the batch before its driver was killed, it is not run again and moves no watermark: o4 is in time."""
BATCHES = "judged         row by row and batch by batch"

SESSION = 'appName("orders-paid")'
DELTA_SESSION = """appName("orders-paid").config("spark.jars", "{}").config(
        "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
    ).config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")"""
APPENDING = """    def write(batch, number):
        table = batch.write.format("delta").mode("append"){}
        table.save(args.out){}

    writer = rows.writeStream.foreachBatch(write)
"""
ONCE = '.option("txnAppId", "orders").option("txnVersion", number)'
CRASH = """
        if number == 0 and not os.path.exists("crashed"):
            open("crashed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)"""
"""Batch 0 has a row. The job ends after its append and before the batch is committed, as a lost machine would."""
CRASH_FAULT = ("--faults", "driver@planned")
"""A job that ends by itself is started again in a run with faults only."""


@pytest.fixture
def stranger(stack, tmp_path):
    if stack.spec.backend != "local":
        pytest.skip("a job is a process of this machine")
    made = Stranger(tmp_path / "theirs", {FILE: JOB})
    made.write("orders_paid.json", json.dumps(CONTRACT))
    return made


def run(stranger, *options):
    """A run of the job with a table; its directory."""
    directory = stranger.folder / "run"
    done = stranger.run(
        "run", "orders_paid.json", "--trace", "trace.jsonl", "--run-dir", directory, "--app", TO_TABLE, *options,
        TIDEMARK_BACKEND="local",
    )  # fmt: skip
    return done, RunDirectory(directory)


def came(evidence):
    """The ids of the rows, each once."""
    rows = [json.loads(record.value) for record in evidence.output()]
    ids = [(row["order_id"], row.get("payment_id")) for row in rows]
    assert len(set(ids)) == len(ids)
    return set(ids)


def must_be_valid_batch_by_batch(done, evidence, rows=(ROWS,)):
    """The rows are right, one of these sets, each with its batch, and are judged again without the table."""
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "VALID  orders_paid, judged as exactly-once" in done.stdout
    assert BATCHES in done.stdout
    assert came(evidence) in rows
    about = evidence.manifest.audit
    assert (about.output_topic, about.output_removals) == (None, [])
    assert not Path(about.output_table).exists()
    assert check(evidence.path).verdict == "VALID"


def must_have_survived_a_kill(evidence):
    """The driver was killed in a batch, which ran again."""
    [fault] = evidence.faults()
    assert fault.injected
    assert fault.batch in [batch.batch for batch in evidence.batches() if batch.restarted]


@pytest.mark.long
def test_a_table_of_the_file_sink_is_judged_batch_by_batch_after_its_driver_was_killed(stranger):
    stranger.change(FILE, KAFKA_WRITER, TABLE_WRITER.format("parquet"))

    done, evidence = run(stranger, "--faults", "driver@planned")

    must_be_valid_batch_by_batch(done, evidence)
    must_have_survived_a_kill(evidence)
    assert "has Parquet files of Spark's file sink" in done.stdout


@pytest.mark.long
def test_a_table_of_a_job_with_another_bound_is_invalid_and_the_cause_is_named(stranger):
    stranger.change(FILE, KAFKA_WRITER, TABLE_WRITER.format("parquet"))
    stranger.change(FILE, "INTERVAL 60 SECONDS", "INTERVAL 40 SECONDS")
    stranger.write("trace.jsonl", pairs_at_distances(range(2, 61, 2)))

    done, evidence = run(stranger)

    assert done.returncode == 1, f"{done.stdout}\n{done.stderr}"
    assert BATCHES in done.stdout
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith(
        "INVALID        contract and plan differ in bound: the contract says -60000 ms <="
    ), first
    assert "the plan says -40000 ms <=" in first
    assert second.strip().startswith("10 of 30 rows that are due never came: in all 10, "), second
    assert "payments.paid_at - orders.ordered_at >= 0:00:42.000" in second
    assert "in none of 20 right rows" in second
    assert len(came(evidence)) == 30


def pairs_at_distances(distances):
    """A trace of an order and a payment of each customer, so many seconds apart."""
    lines = [{**HEADER, "slices": 1}]
    for number, distance in enumerate(distances):
        for topic, name, at in (
            ("orders", "order", "12:00:00"), ("payments", "payment", f"12:{distance // 60:02}:{distance % 60:02}"),
        ):  # fmt: skip
            time = "ordered_at" if topic == "orders" else "paid_at"
            value = {f"{name}_id": f"{name[0]}{number}", "customer": f"c{number}", time: f"2026-01-01T{at}Z"}
            lines.append({"topic": topic, "arrival_ms": 1_767_225_600_000, "value": json.dumps(value)})
    return "".join(f"{json.dumps(line)}\n" for line in lines)


@pytest.fixture
def with_delta(stranger):
    """The job has Delta."""
    stranger.change(FILE, SESSION, DELTA_SESSION.format(",".join(map(str, delta_jars()))))
    stranger.change(FILE, "import argparse\n", "import argparse\nimport os\nimport signal\n")
    return stranger


@pytest.mark.long
@pytest.mark.parametrize(
    "writer", [TABLE_WRITER.format("delta"), APPENDING.format(ONCE, "")], ids=["sink", "txn"]
)
def test_a_delta_table_is_judged_batch_by_batch_after_its_driver_was_killed(with_delta, writer):
    with_delta.change(FILE, KAFKA_WRITER, writer)

    done, evidence = run(with_delta, "--faults", "driver@planned")

    must_be_valid_batch_by_batch(done, evidence, (ROWS, NOT_LATE) if "txnVersion" in writer else (ROWS,))
    must_have_survived_a_kill(evidence)
    assert ("txnVersion is taken for the batch" in done.stdout) == ("txnVersion" in writer)


@pytest.mark.long
def test_a_batch_that_delta_has_before_a_crash_is_not_written_again_and_does_not_move_the_watermark(
    with_delta,
):
    with_delta.change(FILE, KAFKA_WRITER, APPENDING.format(ONCE, CRASH))

    done, evidence = run(with_delta, *CRASH_FAULT)

    must_be_valid_batch_by_batch(done, evidence)
    assert "restart inferred at batch 0" in done.stdout
    first, second, *_ = evidence.batches()
    assert (first.runs, second.watermark_ms) == (2, 0)


@pytest.mark.long
def test_rows_that_foreach_batch_appends_to_delta_again_after_a_crash_are_duplicates(with_delta):
    with_delta.change(FILE, KAFKA_WRITER, APPENDING.format("", CRASH))
    with_delta.write("orders_paid.json", json.dumps({**CONTRACT, "delivery": "exactly-once"}))

    done, evidence = run(with_delta, *CRASH_FAULT)

    assert done.returncode == 1, f"{done.stdout}\n{done.stderr}"
    assert "duplicate_rows: 1\n" in done.stdout
    assert "o1 (orders/0/0" in done.stdout
    assert BATCHES not in done.stdout
    assert evidence.manifest.audit.output_notes[1].startswith("the batch of ")


@pytest.mark.long
def test_a_query_that_start_returns_may_write_the_table(stack, tmp_path):
    begin = QUERY.index("    def write(")
    writer = """    writer = rows.writeStream.format("parquet").option("path", io.table).trigger(**io.trigger)
    return writer.option("checkpointLocation", io.checkpoint).start()
"""
    stranger = Stranger(tmp_path / "theirs", {"src/adteam/query.py": QUERY[:begin] + writer})

    directory = stranger.folder / "run"
    done = stranger.run(
        "run", "adteam.query", "--trace", "trace.jsonl", "--run-dir", directory, "--faults", "driver@planned"
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "VALID  orders_payments, judged as exactly-once" in done.stdout
    assert BATCHES in done.stdout
    assert came(RunDirectory(directory)) == ROWS
