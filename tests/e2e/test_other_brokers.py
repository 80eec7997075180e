"""A stack with another version of Kafka: the same verdicts under faults, the same replay, the same ledger."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import shown
from tests.support.untimed import untimed_batches
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import FaultComponent
from tidemark.runner import RunOptions, run_pipeline
from tidemark.stack import Stack, StackSpec, lease
from tidemark.stack.spec import OTHER_KAFKAS

pytestmark = [pytest.mark.e2e, pytest.mark.long]


@pytest.fixture(scope="module", params=OTHER_KAFKAS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def other(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of this version."""
    with lease(StackSpec(kafka=version), home=tmp_path_factory.mktemp("other")) as stack:
        yield stack


@pytest.mark.parametrize(
    ("join", "sink", "faults"),
    [
        ("left_outer", "exactly-once", "driver@written,executor@half-written,broker@planned"),
        ("left_semi", "exactly-once", "driver@half-written,broker@written"),
        ("inner", "spark", "broker@written,executor@planned"),
    ],
)
def test_a_run_under_faults_has_the_verdict_that_it_has_elsewhere(
    join, sink, faults, version, other, tmp_path
):
    options = RunOptions(
        join, seed=3, impressions=1200, sink=sink, faults=faults, driver="driver", run_dir=tmp_path / "run"
    )
    verdict = run_pipeline(options, stack=other).verdict

    evidence = RunDirectory(tmp_path / "run")
    assert {finding.defect for finding in verdict.findings} <= {"left-semi-loses-same-batch-rows"}
    assert verdict.verdict == ("INVALID" if verdict.findings else "VALID"), shown(verdict)
    assert evidence.manifest.versions["kafka"] == version
    injected = [fault for fault in evidence.faults() if fault.injected]
    assert len(injected) == faults.count(",") + 1
    assert any(fault.component is FaultComponent.BROKER for fault in injected)


def test_a_trace_is_replayed_and_judged(other, tmp_path):
    first = run_pipeline(RunOptions("left_outer", impressions=300, run_dir=tmp_path / "first"), stack=other)
    trace = tmp_path / "first" / "trace.jsonl"
    again = run_pipeline(RunOptions("left_outer", trace=trace, run_dir=tmp_path / "again"), stack=other)

    assert first.verdict.verdict == again.verdict.verdict == "VALID"
    assert untimed_batches(RunDirectory(tmp_path / "first")) == untimed_batches(
        RunDirectory(tmp_path / "again")
    )
