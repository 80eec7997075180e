"""Codes compare as the values do that they stand for."""

from __future__ import annotations

import operator

from hypothesis import given
from hypothesis import strategies as some

from tidemark.formats.field_values import in_order, literal_of, value_reader
from tidemark.formats.record_fields import Field, ValueType, type_of
from tidemark.redaction.value_codes import Interval, KeptLiterals, Ranked

OPERATORS = (operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt)
NUMBERS = some.integers(-(2**63), 2**63 - 1)
BIGINT, TEXT = ValueType("bigint"), ValueType("string")


@given(literals=some.lists(NUMBERS, min_size=1, max_size=4), value=NUMBERS)
def test_an_interval_compares_with_each_literal_as_the_value_does(literals, value):
    code = Interval(literals, BIGINT)

    for one in literals:
        for compare in OPERATORS:
            assert compare(code.code(value), code.literal(one, one)) == compare(value, one)


@given(values=some.lists(some.text().map(str.encode), min_size=2, max_size=8))
def test_ranks_compare_as_the_values_do_also_as_text(values):
    code = Ranked(values[:1], TEXT)
    for one in values:
        code.add(one)

    for one in values:
        for other in values:
            for compare in OPERATORS:
                assert compare(code.code(one), code.code(other)) == compare(one, other)


@given(values=some.lists(NUMBERS, min_size=1), stranger=NUMBERS)
def test_a_value_of_no_input_record_is_between_those_that_are(values, stranger):
    code = Ranked(values, BIGINT)

    for one in values:
        for compare in OPERATORS:
            assert compare(code.code(stranger), code.code(one)) == compare(stranger, one)


@given(
    literals=some.lists(some.integers(-1000, 1000), min_size=1, max_size=3),
    value=some.integers(-(10**6), 10**6),
    kind=some.sampled_from(["bigint", "decimal(12,2)", "double"]),
)
def test_what_is_kept_lies_between_the_same_numbers_of_the_contract(literals, value, kind):
    made = type_of(kind)
    scale = made.scale
    known = [in_order(literal_of(one, made), made, scale) for one in literals]
    number = in_order(literal_of(value, made), made, scale)
    code = KeptLiterals(known, made, scale)
    read = value_reader(Field("price", type=code.type))
    again = in_order(read({"price": code.code(number)}), type_of(code.type), scale)

    for one in known:
        for compare in OPERATORS:
            assert compare(again, one) == compare(number, one)
    assert all(code.literal(one, wrote) == wrote for one, wrote in zip(known, literals, strict=True))
