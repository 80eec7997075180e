"""Chains: what is equal stays equal, what is compared keeps its order, and what cannot be told is refused."""

from __future__ import annotations

import json

import pytest

from tests.unit.oracle.chain_runs import source
from tests.unit.oracle.test_chains import COMPARED, COUNT, COUNTS
from tidemark.errors import UsageError
from tidemark.formats.chain import Aggregate, Chain, Join, Value, Where, Window, read_contract
from tidemark.formats.contract import Bound, Filter, JoinKind, Term
from tidemark.redaction.chain_redaction import ChainRedaction
from tidemark.redaction.pseudonyms import Pseudonyms

SALT = b"0123456789abcdef"
TIME = "1970-01-01T00:00:03.000Z"


def redaction(described):
    return ChainRedaction(described, Pseudonyms(SALT))


def record(key, number):
    return json.dumps({"id": "i1", "k": key, "v": number, "t": TIME, "page": "secret"})


def aggregated(*values):
    return Aggregate(Window(source("a"), "end", 10_000), ("k_a",), values)


def test_keys_are_pseudonyms_counts_and_times_stay():
    one, hashed = redaction(COUNTS), Pseudonyms(SALT).of

    assert json.loads(one.input("a", record("u", None))) == {
        "id_a": hashed("i1"), "k_a": hashed("u"), "v_a": None, "t_a": TIME,
    }  # fmt: skip
    row = {"k_a": "u", "end": "1970-01-01T00:00:10.000Z", "n": 2, "more": "secret"}
    assert json.loads(one.output(json.dumps(row), "whole")) == {
        "k_a": hashed("u"), "end": "1970-01-01T00:00:10.000Z", "n": 2, "record": "whole",
    }  # fmt: skip
    assert not one.needs_all_values
    assert one.state_key("left", ("u", None)) == (hashed("u"), None)


def test_the_least_and_the_greatest_are_ranks_and_filters_have_them_too():
    described = Chain(
        "spans",
        Where(
            aggregated(Value("least", "min", "v_a"), Value("most", "max", "v_a")),
            (Filter("most", ">=", 500),),
        ),
        ("k_a", "least", "most"),
    )
    one = redaction(described)
    values = [record("u", number) for number in (700, 30)]
    for value in values:
        one.collect("a", value)

    assert [json.loads(one.input("a", value))["v_a"] for value in values] == [5, 1]
    shown = json.loads(one.output(json.dumps({"k_a": "u", "least": 30, "most": 700}), "whole"))
    assert (shown["least"], shown["most"]) == (1, 5)
    made = read_contract(one.contract())
    assert made.last.filters == (Filter("most", ">=", 3),)
    assert one.needs_all_values


def test_counts_that_are_compared_with_each_other_stay():
    made = read_contract(redaction(COMPARED).contract())

    assert made.last.conditions == COMPARED.last.conditions
    assert made.output == COMPARED.output


def test_a_number_that_is_only_equal_or_not_becomes_text():
    described = Chain("both", Join(JoinKind.INNER, source("a", required=("k_a", "v_a")),
                                   source("b", required=("k_b", "v_b")), (("v_a", "v_b"),), Bound(equal=True)),
                      ("id_a", "v_a"))  # fmt: skip
    one, hashed = redaction(described), Pseudonyms(SALT).of

    assert json.loads(one.input("a", record("u", 7)))["v_a"] == hashed("7")
    assert json.loads(one.input("b", record("u", 7)))["v_b"] == hashed("7")
    assert json.loads(one.output('{"id_a": "i1", "v_a": 7}', "whole"))["v_a"] == hashed("7")
    assert one.output('{"id_a": "i1", "v_a": "secret"}', "whole") == "redacted whole"  # no bigint: corrupt
    assert one.output('{"id_a": "i1", "v_a": 7', "whole") == "redacted whole"
    fields = {field.name: field.type for field in read_contract(one.contract()).sources[0].fields}
    assert fields["v_a"] == "string"


@pytest.mark.parametrize("value", ["no JSON, secret", "[1]", None, ""])
def test_what_is_no_object_has_no_value(value):
    assert redaction(COUNTS).input("a", value) == (value and "redacted")


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (aggregated(Value("total", "sum", "v_a")), "'v_a' is added up"),
        (
            Join(JoinKind.INNER, COUNT, source("b", required=("k_b", "v_b")), (("k_a", "k_b"),), Bound(-1000, 0),
                 conditions=(Term("<", "n", "v_b"),)),
            "'n' is a count",
        ),
    ],
)  # fmt: skip
def test_what_hangs_on_values_is_refused(last, says):
    with pytest.raises(UsageError, match="cannot be redacted") as refused:
        redaction(Chain("totals", last, ("k_a",)))
    assert says in refused.value.detail
    assert "leave it out" in refused.value.hint
