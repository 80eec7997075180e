"""The delivery guarantee by which a run is judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.oracle.histories import contract
from tidemark.errors import BrokenContract
from tidemark.formats.contract import Contract, Delivery
from tidemark.runner.evidence_collector import promised
from tidemark.runner.run_options import OWN_SINK, SINKS
from tidemark.sparkfiles.output_tables import KINDS, OutputTable
from tidemark.sparkfiles.table_files import TableFile


def test_the_delivery_is_the_sinks_unless_the_contract_sets_one():
    assert [str(promised(contract(), sink)) for sink in SINKS] == ["exactly-once", "at-least-once"]
    for delivery in Delivery:
        assert {promised(contract(delivery=delivery), sink) for sink in SINKS} == {delivery}


def test_the_delivery_of_a_table_is_what_its_log_promises_unless_the_contract_sets_one():
    known, unknown = (TableFile(path=Path("f"), name="f", batch=batch) for batch in (0, None))
    tables = [OutputTable(kind, Path("t"), (known, file)) for kind in KINDS for file in (known, unknown)]

    assert [str(promised(contract(), OWN_SINK, table)) for table in tables] == [
        "exactly-once", "exactly-once", "exactly-once", "at-least-once",
    ]  # fmt: skip
    for delivery in Delivery:
        assert {promised(contract(delivery=delivery), OWN_SINK, table) for table in tables} == {delivery}


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
