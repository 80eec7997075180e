"""The network between Spark and a broker is disturbed at a commit point: proved by bytes, healed, every row right."""

from __future__ import annotations

import pytest

from tests.chaos.test_points import EXACTLY_ONCE, SPARK, must_be_proved, must_be_right
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.runner.possible_faults import possible_link_faults
from tidemark.stack import DRIVER, ComponentKind, Stack
from tidemark.stack.install.network_proxy_program import can_be_built
from tidemark.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.long]

HEAL_S = 10.0
"""The aim is 2 s, on a machine that does nothing else; a test on a busy one asserts that clients come back at all."""
GONE_S = 60.0
SCHEDULES = {
    (
        "left_outer",
        EXACTLY_ONCE,
    ): "broker:cut@planned~2,broker:cut-responses@half-written,broker:cut-requests@written",
    ("inner", SPARK): "broker:cut@half-written~2,broker:cut-responses@planned,broker:reset@no-data",
    ("full_outer", EXACTLY_ONCE): "broker:reset@half-written,broker:cut@written,broker:cut-responses@no-data",
    ("left_outer", SPARK): "broker:delay@planned~2,broker:jitter=300ms@written~2,broker:throttle@planned~2",
    (
        "right_outer",
        EXACTLY_ONCE,
    ): "broker:loss=40%@planned~2,broker:loss@half-written~2,broker:loss=50%@no-data~2",
    (
        "left_semi",
        EXACTLY_ONCE,
    ): "broker:delay@planned~2,broker:cut@half-written~2,broker:reset@planned,broker:loss=30%@planned~2",
}


@pytest.fixture
def proxied_stack(own_stack: Stack) -> Stack:
    """A stack that can have a network proxy."""
    if not can_be_built():
        pytest.skip("the network proxy takes Go")
    return own_stack


@pytest.mark.parametrize(("join", "sink"), SCHEDULES)
def test_a_disturbed_network_is_healed_and_every_row_is_right(join, sink, own_stack, run_on_own):
    asked = read_schedule(SCHEDULES[join, sink])
    possible = possible_link_faults(own_stack.spec.backend)
    if missing := [str(one) for one in asked if (one.component, one.action) not in possible]:
        pytest.skip(f"not possible here: {', '.join(missing)}")
    more = {"generator": ("--null-keys", "0")} if join == "full_outer" else {}

    result = run_on_own(join, sink=sink, seed=3, impressions=1500, faults=SCHEDULES[join, sink], **more)

    must_be_right(join, result.verdict)
    assert result.verdict.counts["duplicates_permitted"] == 0 or sink == SPARK
    for fault in must_be_proved(RunDirectory(result.run_dir), asked).values():
        seen = fault.proof["traffic"]
        assert all(one["passed"] <= one["received"] for one in seen["before"].values())
        assert (
            sum(one["received"] for one in seen["before"].values()) > 0
        )  # a broker may have had nothing to answer yet
        assert all(seen["after"][way]["passed"] > 0 for way in ("requests", "responses"))
        assert fault.proof["first_bytes_after_s"] < HEAL_S


@pytest.mark.parametrize("fault", ["broker:pause@planned~0.5", ""])
def test_without_such_a_fault_no_connection_goes_through_the_proxy(fault, proxied_stack, run_on_own):
    proxied_stack.start_proxy()
    _start_driver_anew(proxied_stack)
    before = {
        name: proxied_stack.link_traffic(name).streams
        for name in proxied_stack.components(ComponentKind.BROKER)
    }

    must_be_right("inner", run_on_own("inner", seed=3, impressions=300, faults=fault).verdict)

    after = {
        name: proxied_stack.link_traffic(name).streams
        for name in proxied_stack.components(ComponentKind.BROKER)
    }
    assert after == before


def _start_driver_anew(stack: Stack) -> None:
    """End driver and executors: they keep the Kafka clients of earlier runs, whose metadata go through the proxy."""
    executors = stack.executors(DRIVER)
    stack.kill(DRIVER)
    wait_until(
        lambda: not any(one.process.alive for one in executors),
        GONE_S,
        lambda: f"an end of the executors {[one.pid for one in executors if one.process.alive]}",
    )
    stack.start(DRIVER)
