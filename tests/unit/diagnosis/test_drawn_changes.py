"""A run that is made by one contract and judged under another: what is named is that change, or one that is as good."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.unit.diagnosis.other_deliveries import HOUR_MS, events, promise
from tests.unit.oracle.other_query import run_of
from tidemark.diagnosis import diagnose
from tidemark.formats.contract import Bound, WatermarkPolicy
from tidemark.oracle import judge

pytestmark = [pytest.mark.not_smoke]

KINDS = ("inner", "left_outer", "right_outer", "full_outer")
BOUNDS = {
    "lower_strict": Bound(-HOUR_MS, 0, lower_strict=True),
    "upper_strict": Bound(-HOUR_MS, 0, upper_strict=True),
    "lower_ms=None": Bound(None, 0),
    "lower_ms=-1800000": Bound(-HOUR_MS // 2, 0),
}


def changed(kind):
    """The name of each change of the promise of a kind, and the contract with it."""
    made = promise(kind)
    found = {f"kind={other}": promise(other) for other in KINDS if other != kind}
    found |= {name: replace(made, bound=bound) for name, bound in BOUNDS.items()}
    found["policy=max"] = replace(made, policy=WatermarkPolicy.MAX)
    for side in ("left", "right"):
        for ms in (0, 1_500_000, 10_800_000):
            delayed = replace(getattr(made, side), watermark_delay_ms=ms)
            found[f"{side}.watermark_delay_ms={ms}"] = replace(made, **{side: delayed})
        without = replace(getattr(made, side), watermark_delay_ms=None)
        found[f"{side}.watermark_delay_ms=None"] = replace(made, **{side: without})
    return found


def is_as_good(run, name, contracts):
    """Whether the run is right under the contract of a name, judged anew."""
    field, at_most, most = name.partition("<=")
    contract = contracts.get(f"{field}=0" if at_most and int(most) >= 0 else name)
    return contract is not None and not judge(replace(run, contract=contract)).findings_total


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(KINDS), st.data(), st.integers(1, 1_000))
def test_a_drawn_change_is_named_or_one_that_is_as_good(kind, data, seed):
    contracts = changed(kind)
    name = data.draw(st.sampled_from(sorted(contracts)))
    run = replace(run_of(contracts[name], *events(seed)), contract=promise(kind))
    verdict = judge(run)
    assume(verdict.unexplained_total)

    found = diagnose(run, verdict)

    named = [" + ".join(one.changes) for one in found.explanations]
    assert name in named or not named or any(is_as_good(run, one, contracts) for one in named), (name, named)
    if found.outcome == "explained":
        assert named == [name] or is_as_good(run, named[0], contracts) or named == ["single rows"], (
            name,
            named,
        )
