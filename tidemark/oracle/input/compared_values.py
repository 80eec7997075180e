"""What a contract compares, as whole numbers of 64 bits that have the order of the values: all that the judge compares.

Free of I/O; decides nothing. Values of fields that are compared with each other, and what the contract compares them
with, are one *class*: decimals of a class have one scale. Where a class has values that are no such numbers (text,
decimals of many digits), each is replaced by its place among all of the class. The contract is rewritten with the same
numbers, so that comparisons mean what they meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tidemark.formats.contract import Contract, Filter, Side, Term
from tidemark.formats.field_types import LONG
from tidemark.formats.field_values import in_order, literal_of
from tidemark.formats.record_fields import BIGINT, DECIMAL, Field
from tidemark.oracle.spark.pushdown import of_both, of_side
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT

Place = tuple[int, str]
"""A side and the name of a field."""
Numbers = tuple[dict[str, list[Any]], dict[str, list[Any]]]
SIDES = (LEFT, RIGHT)


class ComparedValues:
    """The classes of one contract."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._terms = (*contract.condition, *contract.where)
        self._fields = contract.values
        self._class_of: dict[Place, set[Place]] = {}
        for side, names in enumerate(contract.compared):
            for name in names:
                self._class_of[side, name] = {(side, name)}
        pairs = [(str(term.left), str(term.right)) for term in of_both(self._terms)]
        for one, other in [*zip(contract.left.keys, contract.right.keys, strict=True), *pairs]:
            if (LEFT, one) in self._class_of:
                self._join((LEFT, one), (RIGHT, other))

    def _join(self, one: Place, other: Place) -> None:
        whole = self._class_of[one] | self._class_of[other]
        for place in whole:
            self._class_of[place] = whole

    @property
    def classes(self) -> list[frozenset[Place]]:
        """The fields that are compared, in classes."""
        return list({id(whole): frozenset(whole) for whole in self._class_of.values()}.values())

    @property
    def are_numbers(self) -> bool:
        """Whether all are BIGINTs, so that nothing need be rewritten."""
        return all(self._fields[side][name].made.kind == BIGINT for side, name in self._class_of)

    def scales(self, side: int) -> dict[str, int]:
        """The scale of each decimal field of a side."""
        return {name: self.scale(of, name) for of, name in self._class_of if of == side}

    def scale(self, side: int, name: str) -> int:
        """The scale of the decimals of a field's class; 0 where it has others."""
        found = 0
        for of, one in self._class_of[side, name]:
            kind = self._fields[of][one].made
            if kind.kind != DECIMAL:
                return 0
            digits = [-int(literal_of(value, kind).as_tuple().exponent) for value in self.literals((of, one))]
            found = max(found, kind.scale, *digits)
        return found

    def literals(self, place: Place) -> list[Any]:
        """What a field is compared with."""
        side, name = place
        asked = (*self._side(side).filters, *of_side(self._terms, side))
        return [one.value for one in asked if one.field == name]

    def _side(self, side: int) -> Side:
        return self._contract.right if side == RIGHT else self._contract.left

    def number(self, place: Place, value: Any) -> Any:
        """A value of the contract as what has its order."""
        kind = self._fields[place[0]][place[1]].made
        found = literal_of(value, kind)
        if isinstance(found, Decimal) and not found.is_finite():
            raise ValueError(value)
        return in_order(found, kind, self.scale(*place))

    def ranked(self, numbers: Numbers) -> Contract:
        """The contract in numbers. ``numbers`` has what was read of each field, and is replaced by numbers, too."""
        ranks: dict[Place, Mapping[Any, int]] = {}
        for places in self.classes:
            found = {value for side, name in places for value in numbers[side].get(name, ())}
            found |= {self.number(place, value) for place in places for value in self.literals(place)}
            found.discard(None)
            if all(type(value) is int and value in LONG for value in found):
                continue
            ranking = {value: rank for rank, value in enumerate(sorted(found))}
            for side, name in places:
                ranks[side, name] = ranking
                read = numbers[side].get(name)
                if read is not None:
                    read[:] = [None if value is None else ranking[value] for value in read]
        return self._rewritten(ranks)

    def _rewritten(self, ranks: Mapping[Place, Mapping[Any, int]]) -> Contract:
        def number(place: Place, value: Any) -> int:
            found = self.number(place, value)
            return ranks[place][found] if place in ranks else found

        def filters(side: int) -> tuple[Filter, ...]:
            return tuple(
                replace(one, value=number((side, one.field), one.value)) for one in self._side(side).filters
            )

        def terms(of: Iterable[Term]) -> tuple[Term, ...]:
            return tuple(
                term if term.value is None
                else replace(term, value=number((LEFT, term.left), term.value)) if term.left is not None
                else replace(term, value=number((RIGHT, str(term.right)), term.value))
                for term in of
            )  # fmt: skip

        left, right = (
            replace(self._side(side), filters=filters(side), fields=self._as_numbers(side)) for side in SIDES
        )
        return replace(
            self._contract, left=left, right=right,
            condition=terms(self._contract.condition), where=terms(self._contract.where),
        )  # fmt: skip

    def _as_numbers(self, side: int) -> tuple[Field, ...]:
        """The fields of a side, those that are compared as BIGINTs."""
        names = {name for of, name in self._class_of if of == side}
        kept = tuple(one for one in self._side(side).fields if one.name not in names)
        return (*kept, *(Field(name, self._fields[side][name].column, BIGINT) for name in sorted(names)))
