"""One of three brokers out that leads a partition of the output, or coordinates the ledger: others take over."""

from __future__ import annotations

import pytest

from tests.chaos.copies import copies
from tests.chaos.test_points import must_be_proved, must_be_right
from tests.e2e.backends import BACKENDS
from tests.e2e.conftest import stack_to_harm
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.stack import StackSpec

pytestmark = [pytest.mark.chaos, pytest.mark.long]

CASES = {
    ("left_outer", "exactly-once"): "leader@half-written,coordinator@written",
    ("inner", "exactly-once"): "coordinator:pause@half-written,leader:pause@planned",
    ("left_semi", "spark"): "leader@half-written,leader:pause@no-data",
}


@pytest.fixture(scope="module", params=BACKENDS)
def own_stack(request):
    """The stack of ``run_on_own``, with three brokers."""
    with stack_to_harm("replicated", StackSpec(backend=request.param, brokers=3)) as stack:
        yield stack


@pytest.mark.parametrize(("join", "sink"), CASES)
def test_another_broker_takes_over_and_every_row_is_right(join, sink, run_on_own):
    faults = CASES[join, sink]

    result = run_on_own(join, sink=sink, seed=3, impressions=1000, faults=faults)

    must_be_right(join, result.verdict)
    evidence = RunDirectory(result.run_dir)
    for fault in must_be_proved(evidence, read_schedule(faults)).values():
        role = fault.proof["role"]
        assert fault.proof["component_name"] == ("broker" if role["node"] == 1 else f"broker-{role['node']}")
        assert fault.proof["moved_to"] in {1, 2, 3} - {role["node"]}
    assert sink == "spark" or not copies(evidence)
