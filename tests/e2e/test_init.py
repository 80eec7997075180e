"""``tidemark init``: from a join in somebody's project to a test that passes, without a line written by hand."""

from __future__ import annotations

import shlex

import pytest

from tests.e2e.test_contract_draft import STATEMENT
from tests.support.stranger import Stranger

SAMPLES = {
    "orders.json": '{"order_id": "o-17", "customer": "Ann", "ordered_at": "2026-03-01T12:00:00Z", "more": [1]}\n',
    "payments.json": '{"payment_id": "p-17", "customer": "Ann", "paid_at": "2026-03-01T12:00:09Z"}\n',
    "text.json": "no JSON\n",
    "other.json": '{"order_id": "o-17"}\n',
}
NESTED = '''"""Alarms with what acknowledged them, nested; the output has ids alone."""

from pyspark.sql.functions import col, expr, from_json, timestamp_millis

ALARM = "header STRUCT<eventId: STRING, ts: BIGINT>, plant STRUCT<site: STRING>, severity INT"
ACK = "header STRUCT<ackId: STRING, ts: BIGINT>, target STRUCT<site: STRING>"


def acknowledged(alarms, acks):
    alarm = alarms.select(from_json(col("value").cast("string"), ALARM).alias("a")).select(
        col("a.header.eventId").alias("alarm_id"), col("a.plant.site").alias("site"),
        timestamp_millis("a.header.ts").alias("raised_at"), col("a.severity").alias("severity"),
    ).where("raised_at IS NOT NULL AND severity >= 2")
    ack = acks.select(from_json(col("value").cast("string"), ACK).alias("a")).select(
        col("a.header.ackId").alias("ack_id"), col("a.target.site").alias("ack_site"),
        timestamp_millis("a.header.ts").alias("acked_at"),
    ).where("acked_at IS NOT NULL")
    on = expr("site = ack_site AND acked_at BETWEEN raised_at AND raised_at + INTERVAL 30 MINUTES")
    joined = alarm.withWatermark("raised_at", "10 minutes").join(ack.withWatermark("acked_at", "5 minutes"), on, "left")
    return joined.select("alarm_id", "ack_id", "site", "raised_at", "acked_at")
'''
NESTED_SAMPLES = {
    "alarms.json": '{"header": {"eventId": "e1", "ts": 1772366400000}, "plant": {"site": "x"}, "severity": 3}\n',
    "acks.json": '{"header": {"ackId": "a1", "ts": 1772366400000}, "target": {"site": "x"}}\n',
}
GIVEN = ("--sample", "orders=orders.json", "--sample", "payments=payments.json")


@pytest.fixture
def stranger(stack, tmp_path):
    return Stranger(tmp_path / "theirs", {"src/adteam/statement.py": STATEMENT, **SAMPLES})


@pytest.mark.parametrize("function", ["adteam.statement:pairs", "src/adteam/statement.py:pairs"])
@pytest.mark.long
def test_the_test_that_is_written_passes(function, stranger):
    made = stranger.run("init", function, "--name", "paid", "--no-ci", *GIVEN)

    assert made.returncode == 0, made.stderr
    assert sorted(path.name for path in (stranger.folder / "tests").iterdir()) == [
        "paid.jsonl", "paid.py", "test_paid.py",
    ]  # fmt: skip
    assert "next:" in made.stdout
    wanted = ("-k", "every_row") if function.startswith("src") else ()
    done = stranger.run("-q", "-p", "no:cacheprovider", "tests", *wanted, module="pytest")
    assert done.returncode == 0, done.stdout + done.stderr
    again = stranger.run("init", function, "--name", "paid", *GIVEN)
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert "`tidemark init tests/paid.py --sample" in again.stderr


@pytest.mark.long
def test_the_contract_stays_where_a_sample_is_no_event_of_it_and_the_rest_is_written_later(stranger):
    began = stranger.run("init", "adteam.statement:pairs", "--name", "paid", "--no-ci",
                         "--sample", "orders=other.json", *GIVEN[2:])  # fmt: skip

    assert began.returncode == 2, began.stderr
    assert "the sample of 'orders' is no event" in began.stderr
    assert [path.name for path in (stranger.folder / "tests").iterdir()] == ["paid.py"]
    stranger.write("other.json", SAMPLES["orders.json"])
    words = shlex.split(began.stderr.split("`tidemark ")[1].split("`")[0])
    went_on = stranger.run(*words)
    assert went_on.returncode == 0, went_on.stderr
    assert "kept: tests/paid.py" in went_on.stdout
    done = stranger.run("run", "tests/paid.py", "--trace", "tests/paid.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_nested_records_and_an_output_of_ids_alone_are_judged_as_they_are_drafted(stack, tmp_path):
    theirs = Stranger(tmp_path / "theirs", {"src/adteam/alarms.py": NESTED, **NESTED_SAMPLES})
    samples = ("--sample", "alarms=alarms.json", "--sample", "acks=acks.json")

    made = theirs.run("init", "adteam.alarms:acknowledged", "--name", "acked", "--no-ci", *samples)

    assert made.returncode == 0, made.stderr
    trace = ("--trace", "tests/acked.jsonl", "--run-dir", theirs.folder / "run")
    done = theirs.run("run", "tests/acked.py", *trace)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "state compared rows and the counts of their keys after batches" in done.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sample", "orders=orders.json"), "there is no sample of payments"),
        ((*GIVEN[:3], "payments=none.json"), "there is no sample 'none.json'"),
        ((*GIVEN[:3], "payments=text.json"), "has no record"),
        ((*GIVEN, "--id", "bills=id"), "the join has no topic 'bills'"),
        ((*GIVEN, "--sample", "nothing"), "cannot read 'nothing'"),
    ],
)
def test_what_cannot_be_begun_is_refused_and_writes_nothing(options, says, stranger):
    done = stranger.run("init", "adteam.statement:pairs", *options)

    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert not (stranger.folder / "tests").exists() or not list((stranger.folder / "tests").iterdir())
    assert not (stranger.folder / ".github").exists()
