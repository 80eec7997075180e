"""A query that never ran: its topics are filled, its checkpoint is typed, and its output is right. No Spark is needed.

It is the left outer join of ``foreign_query``, with one batch that has read all. It is large enough that its evidence
has some megabytes, and that its topics are read in many fetches.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from tests.e2e.foreign_query import CONTRACT, moment
from tidemark.formats.events import read_time_us
from tidemark.kafka import client as kafka

START_S = 1_767_225_600
PAIRS = 30_000
QUERY = "8e6f0f0e-2f7f-4f59-9d5e-3f8f1c1d7a10"
COMMAND = (sys.executable, "-m", "tidemark", "audit")
END_S = 240.0
"""Calibration: an audit of 90,000 records takes 5 s; one that lost its broker gives up after a minute."""


@dataclass(frozen=True)
class TypedQuery:
    """The folder of its checkpoint and its contract, on the cluster at ``bootstrap``."""

    folder: Path
    bootstrap: str

    @property
    def checkpoint(self) -> Path:
        """The checkpoint: batch 0 is committed."""
        return self.folder / "checkpoint"

    def make(self) -> None:
        """Fill the topics: an order each 10 ms, a payment 5 s after it, and their pair."""
        kafka.create_topics(self.bootstrap, {"orders": 1, "payments": 1, "paid": 1})
        producer = Producer({"bootstrap.servers": self.bootstrap, "queue.buffering.max.messages": 200_000})
        for number in range(PAIRS):
            at_s, customer = START_S + number / 100, f"c{number}"
            order = {"order_id": f"o{number}", "customer": customer, "ordered_at": moment(at_s)}
            payment = {"payment_id": f"p{number}", "customer": customer, "paid_at": moment(at_s + 5)}
            pair = {"order_id": f"o{number}", "payment_id": f"p{number}"}
            for topic, value in (("orders", order), ("payments", payment), ("paid", pair)):
                producer.produce(topic, json.dumps(value).encode(), partition=0)
        assert producer.flush(60) == 0
        (self.folder / "orders_paid.json").write_text(json.dumps(CONTRACT))
        self._type_checkpoint()

    def _type_checkpoint(self) -> None:
        latest_us = read_time_us(moment(START_S + (PAIRS - 1) / 100))
        assert latest_us is not None
        watermark_ms = min(latest_us // 1000 - 10_000, latest_us // 1000 + 5_000 - 20_000)
        ends = [json.dumps({topic: {"0": PAIRS}}) for topic in ("orders", "payments")]
        files = {
            "metadata": json.dumps({"id": QUERY}),
            "offsets/0": "\n".join(["v1", json.dumps({"batchWatermarkMs": 0, "conf": {}}), *ends]),
            "commits/0": f'v1\n{{"nextBatchWatermarkMs":{watermark_ms}}}',
            "sources/0/0": '\0v1\n{"orders":{"0":0}}',
            "sources/1/0": '\0v1\n{"payments":{"0":0}}',
        }
        for name, text in files.items():
            (self.checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            (self.checkpoint / name).write_text(text)

    def files(self) -> dict[str, tuple[bytes, int]]:
        """What is in the checkpoint: content and time of modification of each file."""
        return {
            str(path.relative_to(self.checkpoint)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(self.checkpoint.rglob("*"))
            if path.is_file()
        }

    def arguments(self, run_dir: Path, bootstrap: str = "") -> list[str]:
        """The options of an audit of it."""
        given = {
            "--checkpoint": self.checkpoint, "--contract": self.folder / "orders_paid.json",
            "--bootstrap": bootstrap or self.bootstrap, "--output": "paid", "--run-dir": run_dir,
            "--delivery": "exactly-once",
        }  # fmt: skip
        return [str(item) for pair in given.items() for item in pair]


@dataclass(frozen=True)
class Place:
    """Where an audit runs: its working folder, its temporary files, and the folder of its evidence, all empty."""

    root: Path

    @property
    def work(self) -> Path:
        """The current folder."""
        return self.root / "work"

    @property
    def temporary(self) -> Path:
        """``TMPDIR``."""
        return self.root / "temporary"

    @property
    def evidence(self) -> Path:
        """The folder in which the run directory is made."""
        return self.root / "evidence"

    def make(self) -> None:
        """Make the folders."""
        for folder in (self.work, self.temporary, self.evidence):
            folder.mkdir(parents=True)

    def left(self) -> list[str]:
        """All that lies in them."""
        folders = (self.work, self.temporary, self.evidence)
        return sorted(str(path.relative_to(self.root)) for folder in folders for path in folder.rglob("*"))

    def start(
        self, command: Sequence[str], environment: dict[str, str], *, in_background: bool = False
    ) -> subprocess.Popen[str]:
        """Start a command in it; ``in_background``: with SIGINT ignored, as by a shell that has no job control."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN if in_background else signal.default_int_handler)
        try:
            return subprocess.Popen(
                command, cwd=self.work, env={**environment, "TMPDIR": str(self.temporary)},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        finally:
            signal.signal(signal.SIGINT, before)
