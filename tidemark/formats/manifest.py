"""``manifest.json``: what a run is, and what its files are (``tidemark.formats.evidence``)."""

from __future__ import annotations

from typing import Any

import msgspec

from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.contract import Delivery
from tidemark.formats.liveness import Demands, Hang
from tidemark.formats.redacted_evidence import Redaction


class InputTopic(msgspec.Struct, forbid_unknown_fields=True):
    """The Kafka topic of a logical input topic, and the offsets that this run wrote to it."""

    topic: str
    start_offsets: dict[str, int]
    end_offsets: dict[str, int]


class StateInfo(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``state`` of the manifest."""

    format: int | None = None
    provider: str | None = None
    changelog: bool | None = None
    asked_format: int | None = None
    batches: list[int] = []
    problem: str | None = None
    note: str | None = None


class Manifest(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """``manifest.json``."""

    tidemark_evidence: int
    contract: dict[str, Any]
    delivery: Delivery
    inputs: dict[str, InputTopic]
    pace: str = "timed"
    goals: list[str] = []
    waived: list[str] = []
    seed: int | None = None
    trace_sha256: str | None = None
    flush_sha256: str | None = None
    versions: dict[str, str] = {}
    code_sha256: str | None = None
    pipeline_sha256: str | None = None
    project_sha256: str | None = None
    backend: str | None = None
    sink: str | None = None
    query_id: str | None = None
    started_utc: str | None = None
    command: str | None = None
    notes: list[str] = []
    state: StateInfo | None = None
    plan_differs: list[str] = []
    records: dict[str, int] = {}
    parquet_sha256: dict[str, str] = {}
    audit: AuditedQuery | None = None
    redacted: Redaction | None = None
    demands: Demands | None = None
    hang: Hang | None = None
