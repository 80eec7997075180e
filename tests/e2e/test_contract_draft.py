"""``tidemark contract --draft``: the contract of a function of somebody's project, from its plan; SQL over views."""

from __future__ import annotations

import pytest

from tests.support.stranger import Stranger
from tests.support.tiers import every_day

STATEMENT = '''"""Orders with their payments, as a statement of SQL over views; it has no contract."""

from adteam.functions import customer
from pyspark.sql.functions import col, from_json


def pairs(orders, payments):
    schema = "order_id STRING, customer STRING, ordered_at TIMESTAMP"
    parsed = orders.select(from_json(col("value").cast("string"), schema).alias("e"), "partition", "offset")
    parsed = parsed.where("e.ordered_at IS NOT NULL").withColumn("ordered_at", col("e.ordered_at"))
    parsed.withWatermark("ordered_at", "10 seconds").createOrReplaceTempView("o")
    schema = "payment_id STRING, customer STRING, paid_at TIMESTAMP"
    parsed = payments.select(from_json(col("value").cast("string"), schema).alias("e"), "partition", "offset")
    parsed = parsed.where("e.paid_at IS NOT NULL").withColumn("paid_at", col("e.paid_at"))
    parsed.withWatermark("paid_at", "10 seconds").createOrReplaceTempView("p")
    return orders.sparkSession.sql(
        """
        SELECT o.e.order_id, o.partition AS order_partition, o.offset AS order_offset,
            p.e.payment_id, p.partition AS payment_partition, p.offset AS payment_offset, o.ordered_at
        FROM o LEFT OUTER JOIN p ON o.e.customer = p.e.customer
            AND p.paid_at BETWEEN o.ordered_at AND o.ordered_at + INTERVAL 1 MINUTE
        """
    )


def one(orders):
    return orders


def nothing(orders, payments):
    pass


def wrong(orders, payments):
    return orders.select("no_such_column")


def alone(orders, payments):
    return orders.select("value")


def main(spark, args):
    return spark.readStream.format("kafka").option("subscribe", args.orders).load()
'''
BUILD = """

def build(orders, payments):
    from adteam.statement import pairs

    return pairs(orders, payments)
"""


@pytest.fixture
def stranger(stack, tmp_path):
    return Stranger(tmp_path / "theirs", {"src/adteam/statement.py": STATEMENT})


@pytest.mark.long
def test_the_draft_of_a_statement_of_sql_is_a_contract_that_holds(stranger):
    drafted = stranger.run("contract", "--draft", "adteam.statement:pairs")

    assert drafted.returncode == 0, drafted.stderr
    assert drafted.stderr == "adteam_statement_pairs: 0 questions in the draft\n"
    for line in ('topic="orders"', 'id="order_id"', 'keys=("customer",)', "bound=Bound(lower_ms=-60_000, upper_ms=0)",
                 "kind=JoinKind.LEFT_OUTER", 'left_ref=("order_partition", "order_offset")'):  # fmt: skip
        assert line in drafted.stdout
    stranger.write("src/adteam/promise.py", drafted.stdout + BUILD)
    compared = stranger.run("contract", "adteam.promise")
    assert "0 mismatches between contract and plan, 0 warnings" in compared.stdout, compared.stderr
    done = stranger.run(
        "run", "adteam.promise", "--trace", "trace.jsonl", "--run-dir", stranger.folder / "run"
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


REFUSED = {
    "adteam.statement:other": "has no function other",
    "adteam.statement": "has no function build",
    "adteam.statement:one": "does not take two data frames",
    "adteam.statement:nothing": "the function nothing returned NoneType",
    "adteam.statement:wrong": "src/adteam/statement.py:35: return orders.select",
    "adteam.statement:main": "takes a session, not two data frames",
    "adteam.statement:alone": "the plan has 0 joins of two streams",
}
"""A function, and what is said of it."""


@pytest.mark.parametrize("function", every_day(REFUSED, ("adteam.statement:wrong", "adteam.statement:alone")))
def test_what_cannot_be_drafted_is_refused(function, stranger):
    says = REFUSED[function]
    done = stranger.run("contract", "--draft", function)

    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert says in done.stderr
