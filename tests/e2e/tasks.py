"""Tasks of the exactly-once sink, each in a process of its own (``sink_writer.py``), and what they leave in Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

from tidemark import kafka

PROGRAM = Path(__file__).parent / "sink_writer.py"
LEDGER = "tidemark-ledger"
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


def is_open(told) -> bool:
    """Whether a transaction is open in the topic."""
    at = told["bootstrap"], [told["topic"]]
    return kafka.end_offsets(*at) != kafka.stable_offsets(*at)
