"""A user's job as it is: a program with a classic driver of its own, killed and judged."""

from __future__ import annotations

import json

import pytest

from tests.support.shown_values import content_of, found_in
from tests.support.stranger import Stranger
from tidemark.formats.evidence import RunDirectory
from tidemark.stack import current

JOB = '''"""The team's job, as it runs in production."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr, from_json, struct, to_json, udf

from adteam.names import tidy


def events(spark, brokers, topic, schema, time):
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    records = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
    event = records.select(from_json(col("value").cast("string"), schema).alias("event")).select("event.*")
    return event.where(f"{time} IS NOT NULL").withWatermark(time, "10 seconds")


def main():
    parser = argparse.ArgumentParser()
    for name in ("brokers", "orders", "payments", "out", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    spark = SparkSession.builder.appName("orders-paid").getOrCreate()
    orders = events(
        spark, args.brokers, args.orders, "order_id STRING, customer STRING, ordered_at TIMESTAMP", "ordered_at"
    )
    payments = events(
        spark, args.brokers, args.payments, "payment_id STRING, customer STRING, paid_at TIMESTAMP", "paid_at"
    )
    soon = "o.customer = p.customer AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 60 SECONDS"
    joined = orders.alias("o").join(payments.alias("p"), expr(soon), "leftOuter")
    rows = joined.select("order_id", "payment_id", udf(tidy)("o.customer").alias("who"))
    writer = rows.select(to_json(struct("*")).alias("value")).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", args.brokers).option("topic", args.out)
    writer.option("checkpointLocation", args.checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main()
'''
CONTRACT = {
    "name": "orders_paid",
    "kind": "left_outer",
    "left": {
        "topic": "orders", "id": "order_id", "keys": ["customer"], "time": "ordered_at", "watermark_delay_ms": 10000,
    },
    "right": {
        "topic": "payments", "id": "payment_id", "keys": ["customer"], "time": "paid_at", "watermark_delay_ms": 10000,
    },
    "bound": {"lower_ms": -60000, "upper_ms": 0},
    "output": {"left_id": "order_id", "left_ref": None, "right_id": "payment_id", "right_ref": None},
}  # fmt: skip
APP = (
    "python -m adteam.job --brokers {bootstrap} --orders {topic:orders} --payments {topic:payments}"
    " --out {output} --checkpoint {checkpoint}"
)


@pytest.fixture
def project(tmp_path):
    made = Stranger(tmp_path / "theirs", {"src/adteam/job.py": JOB})
    made.write("orders_paid.json", json.dumps(CONTRACT))
    return made


@pytest.fixture
def stranger(stack, project):
    if stack.spec.backend != "local":
        pytest.skip("a job is a process of this machine")
    return project


def run(stranger, *options, app=APP):
    """A run of the job; its directory."""
    directory = stranger.folder / "run"
    done = stranger.run(
        "run", "orders_paid.json", "--trace", "trace.jsonl", "--run-dir", directory, "--app", app, *options
    )
    return done, RunDirectory(directory)


def test_a_job_is_judged_as_it_is_and_goes_on_after_its_driver_was_killed(stranger, stack):
    done, evidence = run(stranger, "--faults", "driver@planned")

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "VALID  orders_paid, judged as at-least-once" in done.stdout
    [fault] = evidence.faults()
    assert fault.injected
    assert [batch.batch for batch in evidence.batches() if batch.restarted] == [fault.batch]
    assert {json.loads(record.value).get("who") for record in evidence.output()} == {"ann", "bob", "cem"}
    assert (evidence.path / "project" / "adteam" / "job.py").read_text() == JOB
    assert len({report["runId"] for report in evidence.progress()}) == 2
    must_have_ended(stack, evidence)
    assert current() is not None
    must_be_drafted_from_its_event_log(stranger, stack, evidence)


def must_have_ended(stack, evidence):
    """No driver of the run is there any more; those of other runs may be."""
    topics = [topic.topic for topic in evidence.manifest.inputs.values()]
    assert topics
    assert not [name for name in stack.components() if any(topic.startswith(f"{name}-") for topic in topics)]


def must_be_drafted_from_its_event_log(stranger, stack, evidence):
    query = json.loads((evidence.path / "manifest.json").read_text())["query_id"]
    logs = [*(stack.state_dir / "event-logs").glob("orders_paid-*/*")]
    log = next(path for path in logs if query.encode() in path.read_bytes())
    drafted = stranger.run("contract", "--draft", str(log), "--query", query)

    assert drafted.returncode == 0, drafted.stderr
    for line in ('id="order_id"', 'keys=("customer",)', "bound=Bound(lower_ms=-60_000, upper_ms=0)",
                 "kind=JoinKind.LEFT_OUTER", 'right_id="payment_id"', "watermark_delay_ms=10_000"):  # fmt: skip
        assert line in drafted.stdout
    topics = [line.strip() for line in drafted.stdout.splitlines() if "topic=" in line]
    assert [line.partition("-")[2].rpartition("-")[2] for line in topics] == ['orders",', 'payments",']


@pytest.mark.long
def test_a_connect_program_is_judged_as_it_is_and_started_again_with_its_driver(project, stack):
    project.change("src/adteam/job.py", '("brokers",', '("remote", "brokers",')
    project.change("src/adteam/job.py", 'appName("orders-paid")', "remote(args.remote)")
    project.change("src/adteam/job.py", 'udf(tidy)("o.customer")', 'expr("lower(o.customer)")')

    done, evidence = run(project, "--faults", "driver@planned", app=f"{APP} --remote {{connect}}")

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    [fault] = evidence.faults()
    assert (fault.component, fault.injected) == ("driver", True)
    assert [batch.batch for batch in evidence.batches() if batch.restarted] == [fault.batch]
    assert len({report["runId"] for report in evidence.progress()}) == 2
    must_have_ended(stack, evidence)


@pytest.mark.long
def test_a_redacted_run_of_a_job_keeps_and_shows_no_value(stranger):
    longer = {"Dr Ann": "Doctor Antonia", "Bob": "Roberta", "o1": "order-number-1", "p3": "payment-number-3"}
    lines = (stranger.folder / "trace.jsonl").read_text()
    for short, value in longer.items():
        lines = lines.replace(f'\\"{short}\\"', f'\\"{value}\\"')
        assert value in lines
    stranger.write("trace.jsonl", lines)

    done, evidence = run(stranger, "--faults", "driver@planned", "--redact")

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "VALID  orders_paid, judged as at-least-once" in done.stdout
    assert found_in({*longer.values(), "adteam"}, content_of(evidence.path) + done.stdout + done.stderr) == []
    assert [fault.injected for fault in evidence.faults()] == [True]
    assert evidence.manifest.records["output"] > 0


def test_a_job_that_fails_is_the_line_of_its_error_and_its_place(stranger):
    stranger.change("src/adteam/job.py", "joined.select(", "joined.select('nothing', ")

    done, evidence = run(stranger)

    assert done.returncode == 4
    error = done.stderr[done.stderr.rindex("error: ") :]
    assert error.startswith("error: the job ended: AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION]")
    assert "adteam/job.py:32 in main" in error
    assert "UNRESOLVED_COLUMN" in (evidence.path / "logs" / "app.log").read_text()


READERS = '''"""Reads orders of the trace: number and time in the value, the customer in the key."""


def decode_order(record):
    name, time = record.value.decode().split("|")
    return {"order_id": name, "customer": record.key.decode(), "ordered_at": time}


def encode_order(event, like):
    value = "|".join((event["order_id"], event["ordered_at"]))
    return like._replace(key=event["customer"].encode(), value=value.encode())
'''
OF_JSON = """    event = records.select(from_json(col("value").cast("string"), schema).alias("event")).select("event.*")
"""
OF_TEXT = f"""{OF_JSON}    if time == "ordered_at":
        parts = "split(CAST(value AS STRING), '[|]')"
        name, at = f"get({{parts}}, 0) AS order_id", f"try_cast(get({{parts}}, 1) AS TIMESTAMP) AS ordered_at"
        event = records.selectExpr(name, "CAST(key AS STRING) AS customer", at)
"""


@pytest.mark.long
def test_a_job_whose_records_are_decoded_is_judged_by_its_contract_in_json(stranger):
    stranger.write("src/adteam/readers.py", READERS)
    stranger.change("src/adteam/job.py", OF_JSON, OF_TEXT)
    functions = {"decode": "decode_order", "encode": "encode_order"}
    stranger.write("orders_paid.json", json.dumps({**CONTRACT, "left": {**CONTRACT["left"], **functions}}))
    lines = []
    for line in map(json.loads, (stranger.folder / "trace.jsonl").read_text().splitlines()):
        if line.get("topic") == "orders":
            order = json.loads(line["value"])
            line |= {"key": order["customer"], "value": f"{order['order_id']}|{order['ordered_at']}"}
        lines.append(json.dumps(line))
    stranger.write("trace.jsonl", "\n".join(lines))

    refused, _ = run(stranger)
    done, evidence = run(stranger, "--functions", "adteam.readers")

    assert refused.returncode == 2
    assert "names functions that decode records, and 'orders_paid.json' has none" in refused.stderr
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "VALID  orders_paid, judged as at-least-once" in done.stdout
    assert "--functions adteam.readers" in evidence.manifest.command
    assert evidence.file("flush").with_name("decoded_flush.jsonl").is_file()


@pytest.mark.long
def test_a_job_with_another_bound_is_invalid_and_the_row_is_named(stranger):
    stranger.change("src/adteam/job.py", "INTERVAL 60 SECONDS", "INTERVAL 15 SECONDS")

    done, _ = run(stranger)

    assert done.returncode == 1
    assert "INVALID  orders_paid" in done.stdout
    assert "o1 (orders/0/0" in done.stdout
