"""The delivery guarantee by which a run is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.oracle.histories import contract
from tidemark.errors import BrokenContract
from tidemark.formats.contract import Contract, Delivery
from tidemark.runner.evidence_collector import promised
from tidemark.runner.run_options import SINKS


def test_the_delivery_is_the_sinks_unless_the_contract_sets_one():
    assert [str(promised(contract(), sink)) for sink in SINKS] == ["exactly-once", "at-least-once"]
    for delivery in Delivery:
        assert {promised(contract(delivery=delivery), sink) for sink in SINKS} == {delivery}


@pytest.mark.parametrize("delivery", [None, *Delivery])
def test_a_contract_with_any_delivery_is_read_back_unchanged(delivery):
    one = contract("left_outer", delivery=delivery)

    assert Contract.from_json(one.to_json()) == one
    assert Contract.from_json(
        {name: value for name, value in one.to_json().items() if name != "delivery"}
    ) == replace(one, delivery=None)


def test_an_unknown_delivery_is_refused():
    with pytest.raises(BrokenContract, match="cannot be read") as refused:
        Contract.from_json({**contract().to_json(), "delivery": "at-most-once"})

    assert "at-most-once" in refused.value.detail
