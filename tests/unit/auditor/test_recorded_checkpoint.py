"""The checkpoint of a query of Spark 3.5.7, as it was recorded, and what an audit found (``audit_spark_3_5``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

import tidemark
from tests.golden.audit_recording import CHECKPOINT, NAME, RELEASE
from tests.golden.judging import EVIDENCE
from tidemark.auditor.audited_batches import as_logged, must_have_read, plan_audit
from tidemark.formats.contract import WatermarkPolicy
from tidemark.formats.evidence import RunDirectory
from tidemark.sparkfiles.query_log import committed_batches, read_query_log

OF_THE_OUTPUT = ("output_topic", "output_end")
"""What no checkpoint says."""


@pytest.fixture
def recorded() -> RunDirectory:
    return RunDirectory(EVIDENCE / NAME)


def test_the_log_of_spark_3_5_gives_the_batches_and_the_offsets_of_the_evidence(recorded):
    log = read_query_log(CHECKPOINT)
    manifest = recorded.manifest
    topics = {name: about.topic for name, about in manifest.inputs.items()}
    held = {topic: dict.fromkeys(range(2), 0) for topic in topics.values()}

    must_have_read(log, topics)
    plan = plan_audit(log, topics, held, "", max(committed_batches(CHECKPOINT)))

    assert plan.batches == list(recorded.batches())
    assert plan.inputs == manifest.inputs
    assert plan.about == msgspec.structs.replace(manifest.audit, output_topic=None, output_end={})
    assert (log.query_id, manifest.versions) == (manifest.query_id, {"spark": RELEASE})


def test_the_policy_and_the_state_format_of_spark_3_5_are_read(recorded):
    log = read_query_log(CHECKPOINT)
    contract = recorded.contract

    assert as_logged(contract, log) == (contract, [])
    assert as_logged(replace(contract, policy=WatermarkPolicy.MAX), log)[1] != []
    assert recorded.manifest.state.format == 2


def test_the_rows_that_came_again_are_found_and_nothing_else(recorded):
    came = Counter(record.value for record in recorded.output())
    again = sum(times - 1 for times in came.values())

    verdict = tidemark.check(EVIDENCE / NAME)

    assert again > 0
    assert (verdict.verdict, verdict.findings_total) == ("INVALID", {"duplicate_rows": again})
    assert verdict.counts["expected_rows"] == len(came)
    assert verdict.counts["undetermined"] == verdict.counts["undetermined_absent"] == 0
    assert verdict.counts["late"] > 0
