"""A stranger's project: a package ``adteam`` in ``src``, with a join, helpers, and functions for Spark.

Nothing of it is installed, and nothing in it knows tidemark but the module with the contract.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FILES = {
    "pyproject.toml": '[project]\nname = "adteam"\nversion = "1.0"\n',
    "src/adteam/__init__.py": "",
    "src/adteam/names.py": '''"""Names of customers."""

from importlib.resources import files

TITLES = tuple(files("adteam").joinpath("titles.txt").read_text().split())


def tidy(name):
    """A name without its title and in lower case."""
    words = [word for word in (name or "").split() if word not in TITLES]
    return " ".join(words).lower() or None
''',
    "src/adteam/titles.txt": "Mr Mrs Dr\n",
    "src/adteam/functions.py": '''"""Functions for Spark, made when the module is imported."""

from pyspark.sql.functions import pandas_udf, udf

from adteam.names import tidy


@udf("string")
def customer(name):
    return tidy(name)


@pandas_udf("string")
def order_number(numbers):
    return numbers.map(lambda number: number.strip())
''',
    "src/adteam/join.py": '''"""Every order with its payments of the next minute, or with NULL."""

from adteam.functions import customer, order_number
from pyspark.sql.functions import expr

from tidemark import Bound, Contract, JoinKind, Output, Side, read_json

PROMISE = Contract(
    name="orders_payments",
    kind=JoinKind.LEFT_OUTER,
    left=Side("orders", "order_id", ("customer",), "ordered_at", 10_000),
    right=Side("payments", "payment_id", ("customer",), "paid_at", 10_000),
    bound=Bound(lower_ms=-60_000, upper_ms=0),
    output=Output(
        "order_id",
        "payment_id",
        ("order_partition", "order_offset"),
        ("payment_partition", "payment_offset"),
    ),
)


def build(orders, payments):
    """Join two Kafka streams of JSON records."""
    print("built")  # what is printed is no answer of a program
    ordered = read_json(
        orders, "order", "order_id STRING, customer STRING, ordered_at TIMESTAMP", "ordered_at"
    )
    paid = read_json(payments, "payment", "payment_id STRING, customer STRING, paid_at TIMESTAMP", "paid_at")
    return (
        ordered.withWatermark("ordered_at", "10 seconds")
        .alias("o")
        .join(
            paid.withWatermark("paid_at", "10 seconds").alias("p"),
            expr(
                """
                o.customer = p.customer AND
                p.paid_at >= o.ordered_at AND
                p.paid_at <= o.ordered_at + INTERVAL 60 SECONDS
                """
            ),
            "leftOuter",
        )
        .select(
            order_number("o.order_id").alias("order_id"),
            customer("o.customer").alias("who"),
            "o.order_partition",
            "o.order_offset",
            "p.payment_id",
            "p.payment_partition",
            "p.payment_offset",
        )
    )
''',
}
HEADER = {
    "tidemark_trace": 2,
    "pace": "stepped",
    "slices": 3,
    "topics": {"orders": {"partitions": 1}, "payments": {"partitions": 1}},
}
EVENTS = (
    (0, "orders", "o1", "Dr Ann", "12:00:00"),
    (0, "orders", "o2", "Bob", "12:00:10"),
    (0, "payments", "p1", "Dr Ann", "12:00:30"),
    (0, "payments", "p0", "Dr Ann", "11:59:50"),
    (0, "payments", "p2", "Dr Ann", "12:02:00"),
    (1, "orders", "o3", "Cem", "12:10:00"),
    (1, "payments", "p3", "Cem", "12:10:20"),
    (2, "orders", "o4", "Bob", "12:00:20"),
)
"""Slice, topic, id, customer and event time: a pair, an order without a payment, payments that are too early and too
late, and a late order."""
NAMES = {"orders": ("order_id", "ordered_at"), "payments": ("payment_id", "paid_at")}
COMMAND_S = 900.0
"""Calibration: a job with a killed driver takes 60 s on idle cores, and five times that on overloaded ones."""


class Stranger:
    """The project in a folder; files may be changed, and commands are run in it."""

    def __init__(self, folder: Path, files: dict[str, str] | None = None) -> None:
        self.folder = folder
        for name, text in {**FILES, **(files or {})}.items():
            self.write(name, text)
        self.write("trace.jsonl", trace_lines())

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def change(self, name: str, old: str, new: str) -> None:
        """Replace a text that a file has exactly once."""
        text = (self.folder / name).read_text()
        assert text.count(old) == 1, (name, old)
        self.write(name, text.replace(old, new))

    def run(
        self, *arguments: object, module: str = "tidemark", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """``python -P -m MODULE ARGUMENTS`` in the project's folder."""
        return subprocess.run(
            [sys.executable, "-P", "-m", module, *map(str, arguments)], cwd=self.folder,
            env={**os.environ, **environment}, capture_output=True, text=True, timeout=COMMAND_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip


def trace_lines() -> str:
    """The trace as JSON Lines."""
    lines = [HEADER]
    for number, (part, topic, name, customer, time) in enumerate(EVENTS):
        own, at = NAMES[topic]
        value = {own: name, "customer": customer, at: f"2026-01-01T{time}Z"}
        lines.append(
            {
                "topic": topic,
                "slice": part,
                "arrival_ms": 1_767_225_600_000 + number,
                "value": json.dumps(value),
            }
        )
    return "".join(f"{json.dumps(line)}\n" for line in lines)
