"""A run of four batches with a fault, typed; every text of the evidence and of its verdict that can be is ``text``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tidemark.formats.contract import Bound, Contract, Delivery, JoinKind, Output, Side
from tidemark.formats.evidence import Batch, ExecutorAssignment, OutputRecord, RunDirectory
from tidemark.formats.faults import CommitPoint, Fault, FaultAction, FaultComponent
from tidemark.formats.manifest import InputTopic, Manifest
from tidemark.formats.trace import Header, Record, TopicSpec, write_trace
from tidemark.oracle import Finding, Verdict
from tidemark.oracle.causes.cause_lines import Cause

SECOND_MS = 1000
START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


def small_run(folder: Path, text: str = "x") -> RunDirectory:
    """Two lefts and a right, one late; the driver is killed in batch 2, which ran twice and wrote a row again."""
    run = RunDirectory(folder)
    left, right = f"lefts{text}", f"rights{text}"
    contract = Contract(
        name=text, kind=JoinKind.LEFT_OUTER,
        left=Side(left, "l", ("k",), "t", 0), right=Side(right, "r", ("k",), "t", 5_000),
        bound=Bound(-10_000, 0), output=Output("l", "r", ("lp", "lo"), ("rp", "ro")),
    )  # fmt: skip
    manifest = Manifest(
        tidemark_evidence=2, contract=contract.to_json(), delivery=Delivery.AT_LEAST_ONCE,
        inputs={name: InputTopic(name, {"0": 0}, {"0": 3}) for name in (left, right)},
        versions={"spark": text, "kafka": text}, sink=text, backend=text, started_utc=text, command=text,
        notes=[f"not compared with the plan: {text}"],
    )  # fmt: skip
    run.write_json("manifest", manifest)
    topics = {left: TopicSpec(), right: TopicSpec()}
    records = [
        (left, "l1", 1),
        (right, "r1", 2),
        (left, "l2", 20),
        (right, "r2", 30),
        (left, "l3", 3),
        (right, "r3", 31),
    ]
    write_trace(folder / "trace.jsonl", Header(tidemark_trace=2, pace="stepped", topics=topics), [
        Record(topic=topic, arrival_ms=0, value=_value(topic[0], name, second, text)) for topic, name, second in records
    ])  # fmt: skip
    run.write_lines("batches", [
        Batch(batch=at, watermark_ms=START_MS + watermark * SECOND_MS if watermark else 0,
              end_offsets={left: {"0": lefts}, right: {"0": rights}}, runs=runs, restarted=runs > 1)
        for at, watermark, lefts, rights, runs in [(0, 0, 1, 1, 1), (1, 0, 2, 2, 1), (2, 20, 2, 3, 2), (3, 20, 3, 3, 1)]
    ])  # fmt: skip
    rows = [("0", "l1", "r1"), ("2", "l2", None), ("2", "l2", None), (text, "l9", None)]
    run.write_lines("output", [
        OutputRecord(partition=0, offset=at, value=_row(left, right), headers=[("batch", batch), ("query", text)])
        for at, (batch, left, right) in enumerate(rows)
    ])  # fmt: skip
    run.write_lines("progress", [_report(at, text) for at in (0, 1, 2)])
    run.write_lines("executors", [ExecutorAssignment(batch=at, executors={"0": text}) for at in (0, 1)])
    run.write_lines("faults", [fault(text)])
    return run


def _value(side: str, name: str, second: int, text: str) -> str:
    return msgspec.json.encode({side: name, "k": text, "t": f"2026-01-01T00:00:{second:02}Z"}).decode()


def _row(left: str, right: str | None) -> str:
    places = {"lp": 0, "lo": int(left[1:]) - 1, "rp": right and 0, "ro": right and int(right[1:]) - 1}
    return msgspec.json.encode({"l": left, "r": right, **places}).decode()


def _report(at: int, text: str) -> dict[str, object]:
    moment = f"2026-11-24T10:00:{20 * at:02}.000Z"
    return {
        "batchId": at, "timestamp": moment, "batchDuration": 5_000, "sink": {"numOutputRows": 1},
        "durationMs": {"triggerExecution": 5_000, "addBatch": 4_000, text: 500},
        "stateOperators": [{"operatorName": text, "numRowsTotal": 3, "numRowsUpdated": 2, "memoryUsedBytes": 900}],
    }  # fmt: skip


def fault(text: str = "x") -> Fault:
    """A driver killed in batch 2, 35 s after the first batch began."""
    return Fault(
        component=FaultComponent.DRIVER, action=FaultAction.KILL, point=CommitPoint.WRITTEN, injected=True, batch=2,
        at_utc="2026-11-24T10:00:35.000+00:00", proof={text: text}, recovery_s=9.5,
    )  # fmt: skip


def small_verdict(text: str = "x") -> Verdict:
    """An ``INVALID`` verdict of it: two new findings, one of a known defect that is accepted, one reason more."""
    new = [finding("lost_rows", f"{text} never came", text), finding("lost_rows", text, text)]
    known = msgspec.structs.replace(finding("missing_nulls", text, text), defect=text)
    return Verdict(
        verdict="INVALID", delivery="at-least-once", pipeline=text, kind="left_outer", findings=[*new, known],
        findings_total={"lost_rows": 30, "missing_nulls": 1}, unexplained_total={"lost_rows": 30},
        defects_total={text: 1}, known_defects={text: text}, accepted_total={text: 1}, accept=[text],
        counts={"rows_in": 6, f"lefts{text}_in": 3, f"rights{text}_in": 3, "late": 1},
        goals={"flushed": False, text: True}, asked=["flushed"], inconclusive=[text], sealed=False,
        causes=[Cause("lost_rows", f"30 of 60 rows: {text}")],
    )  # fmt: skip


def finding(name: str, message: str, text: str = "x") -> Finding:
    """A finding in batch 2."""
    return Finding(
        property=name,
        message=message,
        row={text: text, "r": None},
        written=[f"lefts{text}/0/1"],
        read=text,
        batch=2,
    )
