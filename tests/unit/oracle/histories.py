"""Runs small enough to read: a batch is two lines of rows, and so is its output.

    run = Run("left_outer").batch("i1 a 10, i2 a 15", "c1 a 12").batch().batch(watermark=5)

An input row is ``id key seconds``; id or key ``-`` is NULL, digits are a number, seconds may be ``5.001``, or ``-`` for
no event time; a row may also be ``garbage``. Seconds count from the epoch. Rows of a side follow each other in one
partition, so ``i2`` above is ``impressions/0/1``. Batches have the watermark they are given (seconds) or that of the
naive model. An output row is ``i1 c1`` or ``i1 -`` or ``- c1`` (NULL) or ``i1`` (semi).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from tests.unit.oracle.naive import Naive, Row
from tidemark.formats.contract import Bound, Contract, Delivery, JoinKind, Output, Side
from tidemark.formats.events import write_time
from tidemark.formats.evidence import Batch, ExecutorAssignment, InputRecord, OutputRecord, StateKey, StateRow
from tidemark.formats.faults import Fault
from tidemark.formats.liveness import Demands, Hang
from tidemark.formats.manifest import InputTopic, Manifest, StateInfo
from tidemark.oracle import Verdict, judge
from tidemark.oracle.coverage import WAIVABLE

LEFT_TOPIC, RIGHT_TOPIC = "impressions", "clicks"
QUERY = "the-query"


def contract(kind: str = "inner", **changes: Any) -> Contract:
    """Watermark delays of 0 s and a click within 5 s after its impression, unless changed."""
    semi = kind == "left_semi"
    given = Contract(
        name=f"small_{kind}",
        kind=JoinKind(kind),
        left=Side(LEFT_TOPIC, "iid", ("user",), "time", 0),
        right=Side(RIGHT_TOPIC, "cid", ("user",), "time", 0),
        bound=Bound(-5000, 0),
        output=Output("iid", None if semi else "cid", ("ip", "io"), None if semi else ("cp", "co")),
    )
    return replace(given, **changes)


class Run:
    """An ``Evidence`` made by hand."""

    def __init__(
        self, kind: str = "inner", *, delays_s: tuple[float, float] = (0, 0), **changes: Any
    ) -> None:
        self.contract = contract(kind, **changes)
        self.contract = replace(
            self.contract,
            left=replace(self.contract.left, watermark_delay_ms=round(delays_s[0] * 1000)),
            right=replace(self.contract.right, watermark_delay_ms=round(delays_s[1] * 1000)),
        )
        self.delivery = Delivery.AT_LEAST_ONCE
        self.goals: list[str] = []
        self.pace = "timed"
        self.waived: list[str] | None = None  # None: all that so small a run does not exercise
        self.versions: dict[str, str] = {}
        self.rows: dict[str, list[str]] = {LEFT_TOPIC: [], RIGHT_TOPIC: []}
        self.sentinels: set[tuple[str, int]] = set()
        self.plans: list[Batch] = []
        self.watermarks_s: list[float | None] = []
        self.records: list[OutputRecord] = []
        self.journal: list[Fault] = []
        self.reports: list[dict[str, Any]] = []
        self.kept: list[StateRow] | None = None
        self.state_counts: list[StateKey] | None = None
        self.placed: list[ExecutorAssignment] = []
        self.info: StateInfo | None = None
        self.demands: Demands | None = None
        self.hang: Hang | None = None

    # Building

    def batch(
        self, left: str = "", right: str = "", *, watermark: float | None = None, out: str = "", **plan: Any
    ) -> Run:
        """One planned batch: the rows it read, its eviction watermark in seconds, and what it wrote."""
        for topic, text in ((LEFT_TOPIC, left), (RIGHT_TOPIC, right)):
            self.rows[topic] += [row.strip() for row in text.split(",") if row.strip()]
        ends = {topic: {"0": len(rows)} for topic, rows in self.rows.items()}
        number = len(self.plans)
        self.watermarks_s.append(watermark)
        self.plans.append(Batch(batch=number, watermark_ms=0, end_offsets=ends, **plan))
        return self.out(number, out)

    def flush(self, *, out: str = "", seconds: float = 1000) -> Run:
        """The sentinels, and the no-data batch that they cause."""
        for topic, rows in self.rows.items():
            self.sentinels.add((topic, len(rows)))
        self.batch(f"sentinel-i s {seconds}", f"sentinel-c t {seconds}")
        return self.batch(out=out)

    def out(self, batch: int, rows: str) -> Run:
        """Output rows of a batch."""
        for row in rows.split(","):
            if row.strip():
                self.records.append(self.record(batch, *row.split()))
        return self

    def record(self, batch: int, left: str, right: str | None = None, **changes: Any) -> OutputRecord:
        """One output record."""
        value: dict[str, Any] = dict(zip(("iid", "ip", "io"), self.ref(LEFT_TOPIC, left), strict=True))
        if self.contract.kind is not JoinKind.LEFT_SEMI:
            value |= zip(("cid", "cp", "co"), self.ref(RIGHT_TOPIC, right or "-"), strict=True)
        value |= changes
        headers = [("query", QUERY), ("batch", str(batch)), ("partition", "0"), ("attempt", "0")]
        return OutputRecord(partition=0, offset=len(self.records), value=json.dumps(value), headers=headers)

    def ref(self, topic: str, name: str) -> tuple[str | None, int | None, int | None]:
        """Id, partition and offset of one side of an output row; ``-`` is NULL."""
        return (None, None, None) if name == "-" else (name, 0, self.offset(topic, name))

    def offset(self, topic: str, name: str) -> int:
        """The offset of the first row with an id; unknown ids are far away."""
        return next((n for n, row in enumerate(self.rows[topic]) if row.split()[0] == name), 999)

    # Damage

    def without(self, row: str) -> Run:
        """A copy from which an output row was removed."""
        return self._copy([r for r in self.records if not self._is(r, row)])

    def moved(self, row: str, batch: int) -> Run:
        """A copy in which an output row is in another batch."""
        return self.without(row).out(batch, row)

    def _copy(self, records: list[OutputRecord]) -> Run:
        twin = copy.copy(self)
        twin.records, twin.plans, twin.journal = list(records), list(self.plans), list(self.journal)
        assert len(twin.records) < len(self.records), "there was no such row"
        return twin

    @staticmethod
    def _is(record: OutputRecord, row: str) -> bool:
        value = json.loads(record.value or "{}")
        return [value["iid"] or "-", value.get("cid") or "-"][: len(row.split())] == row.split()

    # Evidence

    @property
    def manifest(self) -> Manifest:
        inputs = {
            topic: InputTopic(topic=topic, start_offsets={"0": 0}, end_offsets={"0": len(rows)})
            for topic, rows in self.rows.items()
        }
        return Manifest(
            tidemark_evidence=2,
            contract=self.contract.to_json(),
            delivery=self.delivery,
            inputs=inputs,
            pace=self.pace,
            goals=self.goals,
            waived=self._waived(),
            versions=self.versions,
            query_id=QUERY,
            state=self.info,
            demands=self.demands,
            hang=self.hang,
        )

    def _waived(self) -> list[str]:
        return (
            self.waived if self.waived is not None else [goal for goal in WAIVABLE if goal not in self.goals]
        )

    def inputs(self) -> Iterator[InputRecord]:
        rows = [(topic, number, row) for topic, of in self.rows.items() for number, row in enumerate(of)]
        for topic, number, row in sorted(rows, key=lambda one: one[:2] in self.sentinels):
            yield InputRecord(topic, 0, number, self.value(topic, row), (topic, number) in self.sentinels)

    def value(self, topic: str, row: str) -> bytes:
        """The value of an input record."""
        if row == "garbage":
            return b"{not json"
        name, key, seconds = row.split()
        side = self.contract.side(topic)
        moment = {
            side.id: None if name == "-" else name,
            "user": None if key == "-" else int(key) if key.isdigit() else key,
            side.time: None if seconds == "-" else iso(float(seconds)),
        }
        return json.dumps(moment).encode()

    def batches(self) -> list[Batch]:
        known = self.naive().watermarks_ms
        return [
            msgspec.structs.replace(
                plan, watermark_ms=known[number] if given is None else round(given * 1000)
            )
            for number, (plan, given) in enumerate(zip(self.plans, self.watermarks_s, strict=True))
        ]

    def naive(self) -> Naive:
        """The naive model of this run."""
        bounds = {topic: [0] for topic in self.rows}
        batches = []
        for plan in self.plans:
            sides = []
            for side, topic in (("L", LEFT_TOPIC), ("R", RIGHT_TOPIC)):
                start = bounds[topic][-1]
                end = min(plan.end_offsets.get(topic, {}).get("0", start), len(self.rows[topic]))
                bounds[topic].append(end)
                sides.append([row for n in range(start, end) if (row := self.row(side, topic, n))])
            batches.append((sides[0], sides[1]))
        rerun = frozenset(plan.batch for plan in self.plans if plan.runs > 1 or plan.restarted)
        delays = self.contract.left.watermark_delay_ms, self.contract.right.watermark_delay_ms
        form = 2 if self.info is None or self.info.format is None else self.info.format
        right_first = self.versions.get("spark", "4.2") >= "4.2"
        naive = Naive(
            self.contract.kind, self.contract.bound, delays, self.contract.policy, form, right_first
        )
        return naive.run(batches, rerun)

    def row(self, side: str, topic: str, number: int) -> Row | None:
        """An input row for the naive model; ``None`` if it is unreadable."""
        text = self.rows[topic][number]
        if text == "garbage":
            return None
        _, key, seconds = text.split()
        us = None if seconds == "-" else round(float(seconds) * 1_000_000)
        return Row(side, number, None if key == "-" else key, us)

    def output(self) -> Iterator[OutputRecord]:
        return iter(self.records)

    def faults(self) -> list[Fault]:
        return self.journal

    def progress(self) -> list[dict[str, Any]]:
        return self.reports

    def state(self) -> list[StateRow] | None:
        return self.kept

    def state_keys(self) -> list[StateKey] | None:
        return self.state_counts

    def executor_assignments(self) -> list[ExecutorAssignment]:
        return self.placed

    # Judging

    def verdict(self) -> Verdict:
        return judge(self)

    def findings(self) -> dict[str, int]:
        """Name -> how many."""
        return judge(self).findings_total


def iso(seconds: float) -> str:
    return write_time(round(seconds * 1_000_000))
