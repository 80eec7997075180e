"""Runs of chains small enough to read: as ``histories``, for ``tidemark.formats.chain``.

    run = ChainRun(COUNTS).batch("c1 u 3, c2 u 4").batch("c3 u 20").batch(out="u 10 2")

An input row of topic ``a`` is ``id key seconds``, with a number behind it if there is one; rows of ``b`` come second.
An output row is its fields in their order, a time in seconds, ``-`` for NULL. The watermark of a batch is given, and
judged.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from tidemark.formats import chain
from tidemark.formats.chain import BIGINT, Chain, Field, Source
from tidemark.formats.contract import Delivery
from tidemark.formats.events import write_time
from tidemark.formats.evidence import Batch, ExecutorAssignment, InputRecord, OperatorStateRow, OutputRecord
from tidemark.formats.faults import Fault
from tidemark.formats.manifest import InputTopic, Manifest, StateInfo
from tidemark.oracle import Verdict, judge
from tidemark.oracle.coverage import WAIVABLE

QUERY = "the-query"
OF_STEPS = ("rows_came", "duplicate_dropped", "limit_reached")


def source(topic: str, delay_s: float | None = 0, **changes: Any) -> Source:
    """A source whose fields end in its topic: ``id_a``, ``k_a``, ``v_a``, ``t_a``."""
    given = {
        "time": f"t_{topic}",
        "fields": (Field(f"id_{topic}", "id"), Field(f"k_{topic}", "k"), Field(f"v_{topic}", "v", BIGINT)),
        "watermark_delay_ms": None if delay_s is None else round(delay_s * 1000),
        "required": (f"k_{topic}",),
        "time_column": "t",
    }
    return Source(topic, **{**given, **changes})


class ChainRun:
    """An ``Evidence`` made by hand."""

    def __init__(self, described: Chain) -> None:
        self.chain = described
        self.delivery = Delivery.AT_LEAST_ONCE
        self.goals: list[str] = []
        self.waived = [
            name for name in WAIVABLE if name not in OF_STEPS
        ]  # what so small a run does not exercise
        self.versions: dict[str, str] = {}
        self.rows: dict[str, list[str]] = {topic: [] for topic in described.topics}
        self.sentinels: dict[str, int] = {}
        self.plans: list[Batch] = []
        self.records: list[OutputRecord] = []
        self.journal: list[Fault] = []
        self.reports: list[dict[str, Any]] = []
        self.kept: dict[int, list[OperatorStateRow]] | None = None
        """Batch -> the rows of all states after it."""
        self.state_format: int | None = None

    def batch(self, *topics: str, watermark: float = 0, out: str = "", **plan: Any) -> ChainRun:
        """One planned batch: the rows of each topic, its watermark in seconds, and what it wrote."""
        for topic, text in zip(self.rows, topics, strict=False):
            self.rows[topic] += [row.strip() for row in text.split(",") if row.strip()]
        ends = {topic: {"0": len(rows)} for topic, rows in self.rows.items()}
        number = len(self.plans)
        self.plans.append(Batch(batch=number, watermark_ms=round(watermark * 1000), end_offsets=ends, **plan))
        return self.out(number, out)

    def flush(self, *, watermark: float = 0, out: str = "", after: float = 1000) -> ChainRun:
        """Sentinels at 1000 s, and the no-data batch that follows (``watermark`` is that of their own batch)."""
        self.sentinels = {topic: len(rows) for topic, rows in self.rows.items()}
        self.batch(*(f"s-{topic} sentinel-{topic} 1000" for topic in self.rows), watermark=watermark)
        return self.batch(watermark=after, out=out)

    def out(self, batch: int, rows: str, **changes: Any) -> ChainRun:
        """Output rows of a batch."""
        for row in rows.split(","):
            if row.strip():
                self.records.append(self.record(batch, row.split(), **changes))
        return self

    def record(self, batch: int, parts: list[str], **changes: Any) -> OutputRecord:
        """One output record."""
        types = chain.types_of(self.chain.last)
        read = {
            chain.STRING: str,
            chain.BIGINT: int,
            chain.TIME: lambda text: write_time(round(float(text) * 1e6)),
        }
        value = {
            name: None if part == "-" else read[types[name]](part)
            for name, part in zip(self.chain.output, parts, strict=True)
        }
        headers = [("query", QUERY), ("batch", str(batch)), ("partition", "0"), ("attempt", "0")]
        record = {"value": json.dumps(value), "headers": headers} | changes
        return OutputRecord(partition=0, offset=len(self.records), **record)

    def without(self, index: int) -> ChainRun:
        """A copy that lacks an output record."""
        twin = copy.copy(self)
        twin.records = [record for record in self.records if record is not self.records[index]]
        return twin

    @property
    def manifest(self) -> Manifest:
        """The manifest."""
        inputs = {
            topic: InputTopic(topic=topic, start_offsets={"0": 0}, end_offsets={"0": len(rows)})
            for topic, rows in self.rows.items()
        }
        return Manifest(
            tidemark_evidence=2,
            contract=self.chain.to_json(),
            delivery=self.delivery,
            inputs=inputs,
            goals=self.goals,
            waived=list(self.waived),
            versions=self.versions,
            query_id=QUERY,
            state=self._state_info,
        )

    @property
    def _state_info(self) -> StateInfo | None:
        if self.kept is None and self.state_format is None:
            return None
        return StateInfo(batches=sorted(self.kept or ()), format=self.state_format)

    def inputs(self) -> Iterator[InputRecord]:
        """Rows, then sentinels."""
        for sentinels in (False, True):
            for topic, rows in self.rows.items():
                first = self.sentinels.get(topic, len(rows))
                for offset, row in enumerate(rows):
                    if (offset >= first) == sentinels:
                        yield InputRecord(topic, 0, offset, _value(row), sentinels)

    def batches(self) -> list[Batch]:
        """The plans."""
        return self.plans

    def output(self) -> list[OutputRecord]:
        """The records."""
        return self.records

    def faults(self) -> list[Fault]:
        """The journal."""
        return self.journal

    def progress(self) -> list[dict[str, Any]]:
        """The reports."""
        return self.reports

    def state(self) -> list[OperatorStateRow] | None:
        """The rows of the states."""
        return None if self.kept is None else [row for rows in self.kept.values() for row in rows]

    def state_keys(self) -> None:
        """They were not read."""

    def executor_assignments(self) -> list[ExecutorAssignment]:
        """Nobody knows."""
        return []

    def judge(self) -> Verdict:
        """The verdict."""
        return judge(self)


def _value(row: str) -> str:
    if row == "garbage":
        return "no json"
    name, key, seconds, *number = row.split()
    time = write_time(round(float(seconds) * 1e6))
    return json.dumps(
        {"id": name, "k": None if key == "-" else key, "t": time, "v": int(number[0]) if number else None}
    )
