"""Joins of orders and payments as teams write them: many ways to read a record, and many ways to join.

Each query is a way to read with a way to join; nothing of them is ever run. ``expected`` says what the contract of a
query is, written by hand for each way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from tidemark import read_json
from tidemark.formats.contract import Bound, Filter, JoinKind

Read = Callable[[DataFrame, str], DataFrame]
Join = Callable[[DataFrame, DataFrame], DataFrame]
ORDER = "order_id STRING, customer STRING, amount BIGINT, ordered_at TIMESTAMP"
PAYMENT = "payment_id STRING, customer STRING, cents BIGINT, paid_at TIMESTAMP"
FIELDS = {"order": ("order_id", "ordered_at", "amount"), "payment": ("payment_id", "paid_at", "cents")}
"""Of each side its id, its event time, and a number."""


@dataclass(frozen=True)
class Way:
    """A way to read: the paths in the record, by side; ``undecided``: what a plan does not say of it.

    ``time_type`` is the type of an event time that is a number with a fraction.
    """

    read: Read
    paths: dict[str, tuple[str, str, str, str]]
    form: str = "iso"
    zone: str = "UTC"
    time_type: str = ""
    undecided: str = ""


def flat(of: str) -> tuple[str, str, str, str]:
    """Id, key, time and number of a record whose fields have the names of the columns."""
    own, at, number = FIELDS[of]
    return own, "customer", at, number


FLAT = {of: flat(of) for of in FIELDS}
META = {of: (f"meta.{of}", "customer.id", "meta.at", "totals.net") for of in FIELDS}


def by_schema_text(records: DataFrame, of: str) -> DataFrame:
    """``from_json`` with a schema in DDL, and all its fields."""
    schema = ORDER if of == "order" else PAYMENT
    return records.select(f.from_json(f.col("value").cast("string"), schema).alias("e")).select("e.*")


def by_struct_type(records: DataFrame, of: str) -> DataFrame:
    """A schema of objects, fields renamed one by one."""
    own, at, number = FIELDS[of]
    schema = StructType(
        [
            StructField(
                "meta", StructType([StructField(of, StringType()), StructField("at", TimestampType())])
            ),
            StructField("customer", StructType([StructField("id", StringType())])),
            StructField("totals", StructType([StructField("net", LongType())])),
        ]
    )
    parsed = records.withColumn("e", f.from_json(f.col("value").cast("string"), schema))
    return parsed.select(
        f.col(f"e.meta.{of}").alias(own), f.col("e.customer.id").alias("customer"),
        f.col("e.totals.net").alias(number), f.col("e.meta.at").alias(at),
    )  # fmt: skip


def by_get_json_object(records: DataFrame, of: str) -> DataFrame:
    """``get_json_object`` and casts."""
    own, at, number = FIELDS[of]
    text = records.select(f.col("value").cast("string").alias("v"))
    return text.select(
        f.get_json_object("v", f"$.{own}").alias(own), f.get_json_object("v", "$.customer").alias("customer"),
        f.get_json_object("v", f"$.{number}").cast("bigint").alias(number),
        f.get_json_object("v", f"$.{at}").cast("timestamp").alias(at),
    )  # fmt: skip


def by_select_expr(records: DataFrame, of: str) -> DataFrame:
    """Texts of SQL expressions."""
    own, at, number = FIELDS[of]
    schema = ORDER if of == "order" else PAYMENT
    return records.selectExpr(f"from_json(CAST(value AS STRING), '{schema}') AS e").selectExpr(
        f"e.{own}", "e.customer AS customer", f"e.{number} AS {number}", f"e.{at} AS {at}"
    )


def by_view(records: DataFrame, of: str) -> DataFrame:
    """A temporary view and a statement of SQL."""
    own, at, number = FIELDS[of]
    schema = ORDER if of == "order" else PAYMENT
    records.createOrReplaceTempView(f"raw_{of}")
    return records.sparkSession.sql(
        f"WITH parsed AS (SELECT from_json(CAST(value AS STRING), '{schema}') AS e FROM raw_{of})"
        f" SELECT e.{own}, e.customer, e.{number}, e.{at} FROM parsed WHERE e.{at} IS NOT NULL"
    )


def of_milliseconds(records: DataFrame, of: str) -> DataFrame:
    """Milliseconds since 1970 in a nested object."""
    own, at, number = FIELDS[of]
    schema = f"meta STRUCT<{of}: STRING, at: BIGINT>, customer STRUCT<id: STRING>, totals STRUCT<net: BIGINT>"
    parsed = records.select(f.from_json(f.col("value").cast("string"), schema).alias("e"))
    return parsed.select(
        f.col(f"e.meta.{of}").alias(own), f.col("e.customer.id").alias("customer"),
        f.col("e.totals.net").alias(number), f.timestamp_millis(f.col("e.meta.at")).alias(at),
    )  # fmt: skip


def of_seconds(records: DataFrame, of: str) -> DataFrame:
    """Seconds since 1970, cast."""
    own, at, number = FIELDS[of]
    schema = f"{own} STRING, customer STRING, {number} BIGINT, {at} BIGINT"
    parsed = records.select(f.from_json(f.col("value").cast("string"), schema).alias("e")).select("e.*")
    return parsed.withColumn(at, f.col(at).cast("timestamp"))


def of_pattern(records: DataFrame, of: str) -> DataFrame:
    """Text by a datetime pattern."""
    own, at, number = FIELDS[of]
    schema = f"{own} STRING, customer STRING, {number} BIGINT, {at} STRING"
    parsed = records.select(f.from_json(f.col("value").cast("string"), schema).alias("e")).select("e.*")
    return parsed.withColumn(at, f.try_to_timestamp(f.col(at), f.lit("yyyy-MM-dd HH:mm:ss")))


def renamed(records: DataFrame, of: str) -> DataFrame:
    """Short names in the record, renamed afterwards."""
    own, at, number = FIELDS[of]
    schema = "i STRING, c STRING, n BIGINT, t TIMESTAMP"
    parsed = records.select(f.from_json(f.col("value").cast("string"), schema).alias("e")).select("e.*")
    return (
        parsed.withColumnRenamed("i", own).withColumnRenamed("c", "customer").withColumnRenamed("n", number)
        .withColumnRenamed("t", at)
    )  # fmt: skip


def by_read_json(records: DataFrame, of: str) -> DataFrame:
    """The reader of tidemark."""
    return read_json(records, of, ORDER if of == "order" else PAYMENT, FIELDS[of][1])


def upper_keys(records: DataFrame, of: str) -> DataFrame:
    """A key that is computed."""
    return by_schema_text(records, of).withColumn("customer", f.upper("customer"))


def arrival_times(records: DataFrame, of: str) -> DataFrame:
    """The timestamp of the Kafka record as event time."""
    own, at, number = FIELDS[of]
    schema = f"{own} STRING, customer STRING, {number} BIGINT"
    parsed = records.select(f.from_json(f.col("value").cast("string"), schema).alias("e"), "timestamp")
    return parsed.select("e.*", f.col("timestamp").alias(at))


def of_local_time(records: DataFrame, of: str) -> DataFrame:
    """Text by a datetime pattern, in the time of a place."""
    own, at, number = FIELDS[of]
    schema = f"{own} STRING, customer STRING, {number} BIGINT, {at} STRING"
    parsed = records.select(f.from_json(f.col("value").cast("string"), schema).alias("e")).select("e.*")
    return parsed.withColumn(
        at, f.expr(f"to_utc_timestamp(try_to_timestamp({at}, 'dd.MM.yyyy HH:mm:ss'), 'Europe/Berlin')")
    )


def of_fractions(records: DataFrame, of: str) -> DataFrame:
    """Seconds since 1970 with a fraction."""
    own, at, number = FIELDS[of]
    schema = f"{own} STRING, customer STRING, {number} BIGINT, {at} DECIMAL(20,6)"
    parsed = records.select(f.from_json(f.col("value").cast("string"), schema).alias("e")).select("e.*")
    return parsed.withColumn(at, f.timestamp_seconds(at))


SHORT = dict.fromkeys(FIELDS, ("i", "c", "t", "n"))
READ = {
    "schema text": Way(by_schema_text, FLAT),
    "nested schema": Way(by_struct_type, META),
    "get_json_object": Way(by_get_json_object, FLAT),
    "selectExpr": Way(by_select_expr, FLAT),
    "SQL view": Way(by_view, FLAT),
    "epoch milliseconds": Way(of_milliseconds, META, "epoch-ms"),
    "epoch seconds": Way(of_seconds, FLAT, "epoch-s"),
    "datetime pattern": Way(of_pattern, FLAT, "yyyy-MM-dd HH:mm:ss"),
    "local time": Way(of_local_time, FLAT, "dd.MM.yyyy HH:mm:ss", zone="Europe/Berlin"),
    "fractions of seconds": Way(of_fractions, FLAT, "epoch-s", time_type="decimal(20,6)"),
    "renamed": Way(renamed, SHORT),
    "read_json": Way(by_read_json, FLAT),
    "computed key": Way(upper_keys, FLAT, undecided="keys"),
    "arrival time": Way(arrival_times, FLAT, undecided="time"),
}


def marked(orders: DataFrame, payments: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Both sides with their watermarks."""
    return (
        orders.withWatermark("ordered_at", "10 minutes").alias("o"),
        payments.withWatermark("paid_at", "5 minutes").alias("p"),
    )


OUT = ("o.order_id", "o.ordered_at", "p.payment_id", "p.paid_at")
HOUR = "p.paid_at >= o.ordered_at AND p.paid_at <= o.ordered_at + INTERVAL 1 HOUR"
WITHIN_AN_HOUR = Bound(lower_ms=-3_600_000, upper_ms=0)


def by_columns(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Expressions of columns, ``between``."""
    o, p = marked(orders, payments)
    condition = (f.col("o.customer") == f.col("p.customer")) & f.col("p.paid_at").between(
        f.col("o.ordered_at"), f.col("o.ordered_at") + f.expr("INTERVAL 1 HOUR")
    )
    return o.join(p, condition, "inner").select(*OUT)


def left_outer(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """One text with the condition."""
    o, p = marked(orders, payments)
    return o.join(p, f.expr(f"o.customer = p.customer AND {HOUR}"), "leftOuter").select(*OUT)


def payments_first(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """The second input on the left of the join."""
    o, p = marked(orders, payments)
    return p.join(o, f.expr(f"o.customer = p.customer AND {HOUR}"), "rightOuter").select(*OUT)


def full_outer(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """A strict bound on both sides of the time."""
    o, p = marked(orders, payments)
    apart = "p.paid_at > o.ordered_at - INTERVAL 10 MINUTES AND p.paid_at < o.ordered_at + INTERVAL 1 HOUR"
    return o.join(p, f.expr(f"o.customer = p.customer AND {apart}"), "fullOuter").select(*OUT)


def left_semi(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """The orders that were paid."""
    o, p = marked(orders, payments)
    joined = o.join(p, f.expr(f"o.customer = p.customer AND {HOUR}"), "leftSemi")
    return joined.select("order_id", "ordered_at")


def with_filters(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """A filter of each side, one of them behind the watermark."""
    o, p = marked(orders.where("amount >= 100"), payments)
    p = p.where("cents > 0")
    return o.join(p, f.expr(f"o.customer = p.customer AND {HOUR}"), "inner").select(*OUT)


def by_statement(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """A join in SQL, over views."""
    o, p = marked(orders, payments)
    o.createOrReplaceTempView("orders_with_watermark")
    p.createOrReplaceTempView("payments_with_watermark")
    return orders.sparkSession.sql(
        "SELECT o.order_id, o.ordered_at, p.payment_id, p.paid_at FROM orders_with_watermark o"
        f" LEFT OUTER JOIN payments_with_watermark p ON o.customer = p.customer AND {HOUR}"
    )


def deduplicated(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """A deduplication before the join."""
    o, p = marked(orders, payments)
    o = o.dropDuplicates(["order_id", "ordered_at"])
    return o.join(p, f.expr(f"o.customer = p.customer AND {HOUR}"), "inner").select(*OUT)


@dataclass(frozen=True)
class Form:
    """A way to join: what its contract says; ``undecided``: what is no contract of one join."""

    join: Join
    kind: JoinKind
    bound: Bound = WITHIN_AN_HOUR
    filters: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
    swapped: bool = False
    undecided: str = ""


JOIN = {
    "columns": Form(by_columns, JoinKind.INNER),
    "left outer": Form(left_outer, JoinKind.LEFT_OUTER),
    "second input first": Form(payments_first, JoinKind.RIGHT_OUTER, Bound(0, 3_600_000), swapped=True),
    "full outer, strict": Form(
        full_outer, JoinKind.FULL_OUTER, Bound(-3_600_000, 600_000, lower_strict=True, upper_strict=True)
    ),
    "left semi": Form(left_semi, JoinKind.LEFT_SEMI),
    "filters": Form(with_filters, JoinKind.INNER, filters=((">=", 100), (">", 0))),
    "SQL statement": Form(by_statement, JoinKind.LEFT_OUTER),
    "deduplication": Form(deduplicated, JoinKind.INNER, undecided="contract"),
}
QUERIES = {f"{read}, {join}": (READ[read], JOIN[join]) for read, join in itertools.product(READ, JOIN)}


def build(name: str, orders: DataFrame, payments: DataFrame) -> DataFrame:
    """A query over two streams of Kafka's source."""
    way, form = QUERIES[name]
    return form.join(way.read(orders, "order"), way.read(payments, "payment"))


def expected(name: str) -> dict[str, Any]:
    """What the contract of a query says, by hand."""
    way, form = QUERIES[name]
    sides: dict[str, Any] = {}
    delays = {"order": 600_000, "payment": 300_000}
    order = ("payment", "order") if form.swapped else ("order", "payment")
    for side, of, number in zip(("left", "right"), order, (0, 1), strict=True):
        own, key, time, value = way.paths[of]
        asked = form.filters[number]
        filters = (Filter(value, *asked),) if asked else ()
        sides[side] = {
            "topic": f"{of}s", "id": own, "keys": (key,), "time": time, "watermark_delay_ms": delays[of],
            "filters": filters, "time_format": way.form, "time_zone": way.zone, "time_type": way.time_type,
        }  # fmt: skip
    return {"kind": form.kind, "bound": replace(form.bound), **sides}
