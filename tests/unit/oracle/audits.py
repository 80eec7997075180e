"""Evidence of a run, as an audit of its query would have it: trimmed, deleted in part, with less in the output.

    AuditOf(run, level="ids", first=3, deleted={"clicks": 2})

Takes the runs of ``histories`` and the directories of ``tests/golden``. ``first`` is the first batch that can be
judged: of the log only the batch before it is left, and those after. ``deleted`` is how many records of a topic's
partition 0 are gone, from its beginning on. ``state`` is the state after the batch before the first.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.contract import Contract, Delivery
from tidemark.formats.evidence import Batch, InputRecord, OutputRecord, StateRow
from tidemark.formats.manifest import Manifest, StateInfo
from tidemark.oracle.audit_account import Level
from tidemark.oracle.audit_judgement import Audit, audit_with_tables
from tidemark.oracle.input.history import Evidence
from tidemark.oracle.verdict import Verdict

BARE = {"ids": ("left_ref", "right_ref"), "rows": (), "batches": ()}
"""What the contract's output lacks at a level."""


class AuditOf:
    """An ``Evidence``; with a ``sink`` that of a run whose query has a sink of its own."""

    sink: str | None = None

    def __init__(
        self,
        run: Evidence,
        level: Level = "ids",
        *,
        first: int = 0,
        deleted: dict[str, int] | None = None,
        state: list[StateRow] | None = None,
        **about: Any,
    ) -> None:
        self._run = run
        self._level = level
        self._deleted = deleted or {}
        self._state = state
        self._plans = sorted(run.batches(), key=lambda batch: batch.batch)
        committed = [batch.batch for batch in self._plans if batch.committed]
        spans = {topic: {"0": (0, count)} for topic, count in self._deleted.items()}
        whole = {
            "first_batch": first,
            "from_batch": first,
            "to_batch": self._plans[-1].batch,
            "owed_to": max(committed, default=-1),
            "deleted": spans,
        }
        self.about = AuditedQuery(**{**whole, **about})

    @property
    def manifest(self) -> Manifest:
        manifest = self._run.manifest
        contract = copy.deepcopy(manifest.contract)
        for name in BARE[self._level]:
            contract["output"][name] = None
        inputs = copy.deepcopy(manifest.inputs)
        for topic, count in self._deleted.items():
            inputs[topic].start_offsets["0"] = count
        info = manifest.state or StateInfo()
        batches = [] if self._state is None else [self.about.first_batch - 1]
        return msgspec.structs.replace(
            manifest, contract=contract, inputs=inputs, goals=[], waived=[], plan_differs=[], audit=self.about,
            state=msgspec.structs.replace(info, batches=batches), sink=self.sink,
        )  # fmt: skip

    @property
    def contract(self) -> Contract:
        return Contract.from_json(self.manifest.contract)

    def inputs(self) -> Iterator[InputRecord]:
        for record in self._run.inputs():
            if record.partition != 0 or record.offset >= self._deleted.get(record.topic, 0):
                yield record

    def batches(self) -> list[Batch]:
        return [batch for batch in self._plans if batch.batch >= self.about.first_batch - 1]

    def output(self) -> Iterator[OutputRecord]:
        for record in self._run.output():
            yield record if self._level == "batches" else msgspec.structs.replace(record, headers=[])

    def faults(self) -> list[Any]:
        return []

    def progress(self) -> list[Any]:
        return []

    def state(self) -> list[StateRow] | None:
        return self._state

    def state_keys(self) -> None:
        return None

    def executor_assignments(self) -> list[Any]:
        return []

    def audit(self) -> Audit:
        """Verdict and tables."""
        return audit_with_tables(self)

    def verdict(self) -> Verdict:
        """The verdict."""
        return audit_with_tables(self).verdict

    def findings(self) -> dict[str, int]:
        """Name -> how many."""
        return self.verdict().findings_total


def as_exactly_once(run: Any) -> Any:
    """The same run, whose sink promises exactly-once."""
    twin = copy.copy(run)
    twin.delivery = Delivery.EXACTLY_ONCE
    return twin
