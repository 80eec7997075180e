"""Tasks of the exactly-once sink, each in a process of its own (``sink_writer.py``), and what they leave in Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tidemark.kafka import client as kafka
from tidemark.sink.ledger import (
    DEFAULT_LEDGER,
    DEFAULT_PREFIX,
    DEFAULT_SINK,
    TRY_S,
    LedgerEntry,
    Names,
    Reader,
)
from tidemark.waiting import wait_until

PROGRAM = Path(__file__).parent / "sink_writer.py"
LEDGER = DEFAULT_LEDGER
POINTS = (
    "first-rows",
    "starting",
    "initialised",
    "looked-up",
    "begun",
    "producing",
    "produced",
    "sent-entry",
    "committed",
    "closed",
)
UNWRITTEN = POINTS[: POINTS.index("committed")]
ROWS_S = 90.0
"""Calibration: a task that begins has sent its rows within 0.1 s."""


class Writer:
    """A task in a process of its own."""

    told_on = False

    def __init__(self, **told: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def reached(self) -> str:
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def let_go(self) -> None:
        self.told_on = True
        self.process.stdin.write("on\n")
        self.process.stdin.flush()

    def go_on(self) -> tuple[str, dict]:
        more = None if self.told_on else "on\n"
        said, _ = self.process.communicate(more, timeout=150)
        word, _, rest = said.strip().splitlines()[-1].partition(" ")
        return word, json.loads(rest)


def made(bootstrap: str) -> dict:
    """What tasks of a query are told, its topics made."""
    topic = f"protocol-{uuid.uuid4().hex[:8]}"
    has_ledger = LEDGER in kafka.partitions(bootstrap)
    kafka.create_topics(bootstrap, {topic: 2} if has_ledger else {topic: 2, LEDGER: 1})
    return {"bootstrap": bootstrap, "topic": topic, "query": uuid.uuid4().hex, "batch": 0, "rows": 20}


def values(told, settle_s: float = 0.2):
    """What a reader at read_committed sees, when nothing is open and no more comes for ``settle_s``."""
    return sorted(row.value for row in kafka.drain(told["bootstrap"], told["topic"], settle_s=settle_s))


def wanted(*batches, rows=20):
    """What ought to be there."""
    return sorted(f"{batch}-{number}" for batch in batches for number in range(rows))


def after_a_sleep(told, point) -> tuple[str, dict]:
    """What a task says that stood still at a point, was taken for dead, and goes on when another has done its work."""
    sleeper = Writer(**told, stop_at=point)
    assert sleeper.reached() == f"at {point}"
    assert Writer(**told).go_on()[1]["new"]
    return sleeper.go_on()


def is_open(bootstrap: str, topic: str) -> bool:
    """Whether rows of an open transaction are in a topic, which a reader at read_committed waits for."""
    return kafka.end_offsets(bootstrap, [topic]) != kafka.stable_offsets(bootstrap, [topic])


def await_rows(told) -> None:
    """Wait until rows of an open transaction have arrived."""
    wait_until(lambda: is_open(told["bootstrap"], told["topic"]), ROWS_S, lambda: "its rows to arrive")


def entries(bootstrap: str, query: str) -> dict[int, LedgerEntry]:
    """Partition -> what the ledger knows of it, for one query."""
    names = Names(DEFAULT_PREFIX, query, DEFAULT_SINK)
    reader = Reader(lambda: AdminClient({"bootstrap.servers": bootstrap}), LEDGER)
    found = {number: reader.look_up(names.group(number), TRY_S) for number in reader.listed(names)}
    return {number: entry for number, entry in found.items() if entry is not None}


def lose_entries(bootstrap: str, query: str) -> None:
    """Delete the groups of a query, as an operator who cleans up."""
    names = Names(DEFAULT_PREFIX, query, DEFAULT_SINK)
    groups = [names.group(partition) for partition in entries(bootstrap, query)]
    assert groups
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.delete_consumer_groups(groups).values():
        answer.result(30)
