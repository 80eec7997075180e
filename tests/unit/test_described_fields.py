"""What a contract may say of the fields of its records: paths, types, casts, and the forms of times."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from pipelines.left_outer import CONTRACT
from tidemark.errors import BrokenContract
from tidemark.formats import contract as contract_module
from tidemark.formats.contract import COMPARISONS, Contract, Filter, Side, Term, printed_contract
from tidemark.formats.events import decode_object, read_event
from tidemark.formats.field_values import as_text, double_text, in_order, literal_of, value_reader
from tidemark.formats.record_fields import Field, path_of, text_of_path, type_of
from tidemark.formats.time_forms import epoch_us, form_problem, pattern_reader, write_form

DOCS = Path(__file__).parents[2] / "docs"
PATHS = {
    "a": ("a",),
    "meta.id": ("meta", "id"),
    "items[0].sku": ("items", 0, "sku"),
    "a[0][12]": ("a", 0, 12),
    "`order.id`.text": ("order.id", "text"),
    "`a``b`": ("a`b",),
    "two words.$x": ("two words", "$x"),
}


@pytest.mark.parametrize("text", PATHS)
def test_a_path_leads_through_objects_and_arrays(text):
    assert path_of(text) == PATHS[text]
    assert text_of_path(PATHS[text]) == text


@pytest.mark.parametrize(
    "text", ["", "a.", ".a", "a..b", "[0]", "a[", "a[x]", "a[-1]", "`a", "a`b`", "a.[0]", "a[0]b"]
)
def test_what_is_no_path_is_refused(text):
    with pytest.raises(ValueError, match="is no path"):
        path_of(text)


NESTED = Side(
    "orders", "meta.id", ("buyer", "items[0].sku"), "meta.at", 0, fields=(Field("buyer", "`who.is`.id"),),
    time_format="epoch-ms",
)  # fmt: skip


def test_an_event_is_read_from_wherever_the_contract_says():
    value = (
        """{"meta": {"id": "o1", "at": 1767225600123}, "who.is": {"id": 7}, "items": [{"sku": "x"}, {}]}"""
    )

    assert read_event(value, NESTED) == ("o1", ("7", "x"), 1_767_225_600_123_000)


def test_what_is_not_there_is_null_and_a_time_that_is_not_there_is_no_event():
    assert read_event("""{"meta": {"at": 5}, "items": [7], "who.is": "me"}""", NESTED) == (
        None,
        (None, None),
        5_000,
    )
    assert read_event("""{"meta": {"at": "5"}}""", NESTED) is None


def left(**changes) -> Contract:
    return replace(CONTRACT, left=replace(CONTRACT.left, **changes))


AMOUNT = (Field("amount", type="decimal(12,2)"),)
REFUSED = {
    "a path": (lambda: left(id="a..b"), "'a..b' is no path"),
    "a type": (lambda: left(fields=(Field("x", type="float"),)), "'float' is no type"),
    "digits": (lambda: left(fields=(Field("x", type="decimal(40,2)"),)), "has up to 38 digits"),
    "a key that is a double": (lambda: left(fields=(Field("ad_id", type="double"),)), "join key 'ad_id' is a double"),
    "a cast": (lambda: left(fields=(Field("x", type="boolean", cast="date"),)), "not to date"),
    "rounded text": (lambda: left(fields=(Field("x", round=1),)), "round is 1"),
    "a time that is no number": (
        lambda: left(time_format="epoch-ms", fields=(Field("impression_time", type="double"),)),
        "is a double: epoch-ms is a bigint or a decimal",
    ),
    "a time that is a number": (
        lambda: left(fields=(Field("impression_time", type="bigint"),)), "no text that is read as 'iso'"
    ),
    "a form": (lambda: left(time_format="epoch-m"), "is not known here"),
    "a zone": (lambda: left(time_zone="Mars/Olympus"), "no time zone 'Mars/Olympus'"),
    "an offset in brackets and a zone": (
        lambda: left(time_format="yyyy-MM-dd HH:mm[X]", time_zone="Europe/Berlin"), "has an offset in brackets"
    ),
    "an operator of a filter": (
        lambda: left(filters=(Filter("ad_id", "<>", "x"),)), "there is no operator '<>'"
    ),
    "an operator of a condition": (
        lambda: replace(left(), condition=(Term("==", "price", "price"),)), "there is no operator '=='"
    ),
    "one value in a condition": (
        lambda: replace(left(), condition=(Term("<", "price"),)), "does not compare two values"
    ),
    "text as a number": (lambda: left(filters=(Filter("price", ">", "5"),)), "'5' is no bigint"),
    "a fraction as a number": (lambda: left(filters=(Filter("price", ">", 0.5),)), "0.5 is no bigint"),
    "a number as text": (
        lambda: left(fields=(Field("state", type="string"),), filters=(Filter("state", "=", 5),)), "5 is no string"
    ),
    "keys of two types": (
        lambda: left(fields=(Field("ad_id", type="bigint"),)), "'ad_id' is a bigint, and 'ad_id' a string"
    ),
    "a decimal and a number": (
        lambda: replace(left(fields=AMOUNT), condition=(Term("<", "amount", "price"),)),
        "'amount' is a decimal\\(12,2\\), and 'price' a bigint",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_reason(name):
    make, reason = REFUSED[name]

    with pytest.raises(BrokenContract, match=reason) as caught:
        make()

    assert caught.value.hint


@pytest.mark.parametrize("op", ["<>", "==", "like", ""])
def test_an_operator_that_is_none_is_named_and_the_operators_are_listed(op):
    with pytest.raises(BrokenContract) as caught:
        left(filters=(Filter("ad_id", op, "x"),))

    assert repr(op) in caught.value.message
    assert caught.value.hint == "the operators are =, !=, <, <=, >, >="


def test_the_operators_are_those_that_the_documents_list():
    listed = "``=``, ``!=``, ``<``, ``<=``, ``>`` and ``>=``"

    assert re.findall("``(.+?)``", listed) == [*COMPARISONS]
    assert listed in (contract_module.__doc__ or "")
    assert listed.replace("``", "`") in (DOCS / "howto" / "read-my-records.md").read_text()


def test_a_contract_is_read_from_what_the_command_line_prints_of_it_too():
    described = left().to_json()

    assert (
        printed_contract({"contract": described, "mismatches": [], "plan": "== Physical Plan =="})
        == described
    )
    assert printed_contract(described) == described
    assert printed_contract([described]) == [described]


def test_a_described_contract_is_the_same_after_json():
    described = replace(left(fields=AMOUNT, filters=(Filter("amount", ">=", "0.50"),)), name="described")

    assert Contract.from_json(described.to_json()) == described


FORMS = (
    "dd/MM/yyyy HH:mm:ss",
    "yyyyMMddHHmmss",
    "d-MMM-yyyy h:mm:ss a",
    "M/d/yy H:m:s",
    "yyyy-MM-dd'T'HH:mm:ss[.SSS]",
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "-03:30"])
def test_a_time_that_is_written_by_a_pattern_is_read_again(form, zone):
    time_us = 1_767_225_605_000_000

    assert form_problem(form, zone) == ""
    assert pattern_reader(form, zone)(write_form(time_us, form, zone)) == time_us


def test_a_time_in_the_hour_that_is_there_twice_is_the_earlier_one_and_one_that_is_not_there_is_moved_on():
    read = pattern_reader("dd/MM/yyyy HH:mm", "Europe/Berlin")

    assert read("25/10/2026 02:30") == read("25/10/2026 01:30") + 3_600_000_000
    assert read("29/03/2026 02:30") == read("29/03/2026 03:30")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.1, "1.1"),
        (1e7, "1.0E7"),
        (1e-5, "1.0E-5"),
        (-0.0, "-0.0"),
        (123456.789, "123456.789"),
        (1e22, "1.0E22"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value, text):
    assert double_text(value) == text


def test_json_in_text_is_written_as_spark_writes_it():
    assert as_text({"a": Decimal("1.10"), "b": [True, None, "x\n\u00e9\U0001f600"]}) == (
        '{"a":1.1,"b":[true,null,"x\\n\u00e9\\uD83D\\uDE00"]}'
    )


def test_doubles_have_the_order_of_spark():
    ordered = [float("-inf"), -1.5, -5e-324, 0.0, 5e-324, 1.0, float("inf"), float("nan")]
    numbers = [in_order(one, type_of("double"), 0) for one in ordered]

    assert numbers == sorted(set(numbers))
    assert in_order(-0.0, type_of("double"), 0) == in_order(0.0, type_of("double"), 0)


def test_a_decimal_of_a_contract_is_what_was_written():
    assert (
        literal_of(0.1, type_of("decimal(12,2)"))
        == literal_of("0.1", type_of("decimal(12,2)"))
        == Decimal("0.1")
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"x": 1e9999999999999999999}', "decimal(9,2)"),
        ('{"x": "1e9999999999999999999"}', "decimal(9,2)"),
        (f'{{"x": {"9" * 310}}}', "double"),
        (f'{{"x": "{"9" * 5_000}"}}', "date"),
    ],
    ids=["number", "text", "integer", "days"],
)
def test_a_number_that_python_does_not_hold_is_null_and_no_error(text: str, kind: str) -> None:
    found = decode_object(text)

    assert found is not None
    assert value_reader(Field("x", "x", kind))(found) is None


def test_a_value_of_a_contract_that_no_decimal_holds_is_named() -> None:
    with pytest.raises(ValueError, match="is no decimal"):
        literal_of("1e9999999999999999999", type_of("decimal(9,2)"))


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("[yyyy-]MM-dd", "says no time"),
        ("yyyy-MM-dd hh:mm[ a]", "says no time"),
        ("yyyy-MM-dd HH:mm xxx Z", "is there twice"),
        ("yyyy-MM-dd[ hh:mm a]", ""),
        ("yyyy[-MM[-dd]]", ""),
    ],
)
def test_what_a_time_needs_is_in_no_bracket_that_may_be_missing(form: str, problem: str) -> None:
    found = form_problem(form, "UTC")
    assert problem in found
    assert bool(problem) == bool(found)


def test_a_decimal_of_thirty_digits_is_a_time_without_a_loss() -> None:
    assert epoch_us(Decimal("1767225600123.99999999999999999"), "epoch-ms") == 1_767_225_600_123_999
