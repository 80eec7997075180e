"""What an executor exchanges with its driver and other executors is disturbed at a commit point, healed, proved."""

from __future__ import annotations

import pytest

from tests.chaos.test_points import EXACTLY_ONCE, SPARK, must_be_proved, must_be_right
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import FaultAction
from tidemark.stack.local import packet_links

pytestmark = [pytest.mark.chaos, pytest.mark.long]

SCHEDULES = {
    (
        "left_outer",
        EXACTLY_ONCE,
    ): "executor:cut@planned~2,executor:cut-received@half-written~2,executor:cut-sent@written~2",
    ("inner", SPARK): "executor:cut-sent@planned~2,executor:loss=30%@planned~3,executor:cut@no-data~2",
    (
        "full_outer",
        EXACTLY_ONCE,
    ): "executor:reset@planned,executor:reset@written,executor:loss@half-written~2",
    ("right_outer", EXACTLY_ONCE): "executor:throttle=64kB@planned~3,executor:cut@written~2+driver@written",
}


@pytest.fixture
def stack_with_links(own_stack):
    """A stack whose executors' packets are told from others."""
    if own_stack.spec.backend == "local" and not packet_links.is_possible():
        pytest.skip("the packet filter takes root, iptables and iproute2")
    return own_stack


@pytest.mark.parametrize(("join", "sink"), SCHEDULES)
def test_a_disturbed_link_of_an_executor_is_healed_and_every_row_is_right(
    join, sink, stack_with_links, run_on_own
):
    text = SCHEDULES[join, sink]
    asked = [part for spec in read_schedule(text) for part in spec.parts]
    more = {"generator": ("--null-keys", "0")} if join == "full_outer" else {}

    result = run_on_own(join, sink=sink, seed=3, impressions=1500, faults=text, **more)

    must_be_right(join, result.verdict)
    for fault in must_be_proved(RunDirectory(result.run_dir), asked).values():
        if fault.component != "executor":
            continue
        seen = fault.proof["traffic"]
        assert all(one["passed"] == one["received"] for one in seen["before"].values())
        assert (
            "reset" in text or seen["before"]["from_executor"]["passed"] > 0
        )  # of a new executor nothing is known
        assert fault.proof["component_name"].startswith("worker-")
        if fault.action is not FaultAction.RESET and fault.together is None:
            # After a reset, or a kill of the driver, the executor has ended, and its link is used by none.
            assert all(seen["after"][way]["passed"] > 0 for way in ("from_executor", "to_executor"))
