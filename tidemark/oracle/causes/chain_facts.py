"""The facts of the output rows of a chain: the values of its columns, and its batch.

Free of everything but the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemark.formats import chain
from tidemark.oracle.causes.cause_lines import OutputRow
from tidemark.oracle.causes.common_facts import Common, Fact, Facts, Kind, Value
from tidemark.oracle.input.chain_rows import Values
from tidemark.oracle.spark.time_ranges import US_PER_MS


class ChainFacts:
    """The facts of the rows of one run; the identity of a row is its place in ``rows``."""

    def __init__(self, described: chain.Chain, rows: Sequence[Values]) -> None:
        types = chain.types_of(described.last)
        self._columns = [
            Fact(name, Kind.TIME if types[name] == chain.TIME else Kind.VALUE) for name in described.output
        ]
        self._rows = rows

    def read(self, rows: Iterable[OutputRow]) -> None:
        """Nothing: the values are here."""

    def of(self, row: OutputRow) -> Facts:
        """The values of the columns, then the batch."""
        number, batch = row
        facts: dict[Fact, Value] = {}
        for fact, value in zip(self._columns, self._rows[number], strict=True):
            is_time = fact.kind is Kind.TIME and isinstance(value, int)
            facts[fact] = value * US_PER_MS if is_time else value
        return {**facts, Fact("its batch", Kind.NUMBER): batch}

    def shape(self, row: OutputRow) -> bool:
        """Whether there is a NULL in it, as in a row of an outer join that has no partner."""
        return None in self._rows[row[0]]

    def about(self, common: Common) -> str:
        """Nothing."""
        del common
        return ""

    def is_of_input(self, fact: Fact) -> bool:
        """Whether it is a value of a column."""
        return fact.kind is Kind.VALUE
