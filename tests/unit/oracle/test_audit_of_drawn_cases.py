"""Joins of any sort, with restarts, trimmed logs and deleted records drawn at random: no right row is ever a finding.

The output is what a literal transcription of Spark's rules gives, known defects of Spark included: a finding that one
of them explains is none of the audit's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from tests.unit.oracle.audits import AuditOf
from tests.unit.oracle.test_any_contract import Drawn, drawn
from tidemark.formats.contract import Contract
from tidemark.formats.events import read_event
from tidemark.formats.evidence import OutputRecord

pytestmark = [pytest.mark.not_smoke]

CASES_PER_SEED = 3
LEVELS = ("batches", "rows", "ids")


class WithOutput:
    """A drawn case with the output that Spark's rules give."""

    def __init__(self, run: Drawn) -> None:
        self.restarts = run.restarts
        self._run = run
        self.without: int | None = None
        self.manifest = run.manifest
        self.manifest.query_id = "the-query"
        self.batches, self.inputs, self.literal = run.batches, run.inputs, run.literal
        self._values = {
            (record.topic, record.offset): record.value for record in run.inputs() if record.partition == 0
        }

    def output(self) -> Iterator[OutputRecord]:
        contract = self.manifest.contract
        names = contract["output"]
        for number, (left, right, batch) in enumerate(self._run.literal.out):
            value: dict[str, object] = {}
            for side, offset in (("left", left), ("right", right)):
                if names[f"{side}_id"] is not None:
                    value[names[f"{side}_id"]] = self._id(contract[side], offset)
                    if names[f"{side}_ref"] is not None:
                        value |= zip(
                            names[f"{side}_ref"], (None if offset is None else 0, offset), strict=True
                        )
            if number == self.without:
                continue
            headers = [("query", "the-query"), ("batch", str(batch)), ("partition", "0"), ("attempt", "0")]
            yield OutputRecord(partition=0, offset=number, value=json.dumps(value), headers=headers)

    def _id(self, side: dict[str, str], offset: int | None) -> object:
        return None if offset is None else json.loads(self._values[side["topic"], offset])[side["id"]]


@pytest.mark.parametrize("first", range(0, 10_000, 2_000))
def test_a_row_that_is_taken_away_is_missed(first: int) -> None:
    for seed in range(first, first + CASES_PER_SEED):
        run, rng = WithOutput(drawn(seed)), random.Random(seed)
        level, records = rng.choice(LEVELS), len(list(run.output()))
        before = AuditOf(run, level).verdict()
        if not records or before.defects_total:
            continue  # which of its rows are right is the defect's business
        run.without = rng.randrange(records)

        found = AuditOf(run, level).findings()

        assert found in ({"lost_rows": 1}, {"missing_nulls": 1}), (seed, level)


@pytest.mark.parametrize("first", range(0, 10_000, 2_000))
def test_no_row_that_sparks_rules_give_is_a_finding(first: int) -> None:
    for seed in range(first, first + CASES_PER_SEED):
        run, rng = WithOutput(drawn(seed)), random.Random(seed)
        level = rng.choice(LEVELS)
        whole = AuditOf(run, level).verdict()
        assert whole.unexplained_total == {}, (seed, level, whole.findings)
        assert len(whole.audit.restarts) <= len(run.restarts), seed
        assert whole.counts["undetermined"] == whole.counts["undetermined_absent"] == 0

        trimmed = AuditOf(run, level, first=rng.randrange(1, len(run.batches()))).verdict()
        assert trimmed.unexplained_total == {}, (seed, level, trimmed.findings)

        counts = {topic: rng.randrange(4) for topic in run.manifest.inputs}
        gone = {topic: count for topic, count in counts.items() if count}
        first_batch = rng.randrange(len(run.batches()))
        for until_ms in (None, latest_ms(run, gone)):
            about = {"first": first_batch, "deleted": gone, "deleted_until_ms": until_ms}
            deleted = AuditOf(run, level, **about).verdict()
            assert deleted.unexplained_total == {}, (seed, level, about, deleted.findings)


@pytest.mark.parametrize(("seed", "first"), [(529, 2), (593, 2), (2029, 4)])
def test_a_row_that_had_expired_when_state_format_4_stored_it_is_not_missing_after_a_trimmed_log(
    seed: int, first: int
) -> None:
    run = WithOutput(drawn(seed))

    assert AuditOf(run, "rows").verdict().defects_total != {}
    assert AuditOf(run, "rows", first=first).findings() == {}


def latest_ms(run: WithOutput, gone: dict[str, int]) -> int:
    """The latest event time of the records that are gone, in milliseconds; the epoch if none has one."""
    times_us = [
        event.time_us
        for record in run.inputs()
        if record.offset < gone.get(record.topic, 0)
        and (event := read_event(record.value, Contract.from_json(run.manifest.contract).side(record.topic)))
    ]
    return max(times_us, default=0) // 1000
