"""The facts of the output rows of a chain: the values of its columns, and its batch.

Free of I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidemark.formats import chain
from tidemark.oracle.causes.cause_lines import OutputRow
from tidemark.oracle.causes.common_facts import Common, Fact, Facts, Kind, Value
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.input.chain_rows import Values
from tidemark.oracle.spark.time_ranges import US_PER_MS


@dataclass(frozen=True)
class Deduplicated:
    """The records of a topic that a step deduplicates by ``keys``: how many there are of each value of them."""

    topic: str
    keys: tuple[str, ...]
    records: Counter[Values]

    @property
    def fact(self) -> Fact:
        """What is said of a row that has one of several such records in it."""
        keys = " and ".join(self.keys)
        return Fact(
            f"there is more than one record of {self.topic} with its {keys}, of which a deduplication keeps one",
            Kind.DEVIATION,
        )


def deduplicated(history: ChainHistory) -> Iterator[Deduplicated]:
    """What the chain deduplicates right above a source."""
    sources = history.chain.sources
    for step in history.chain.steps:
        if isinstance(step, chain.Deduplicate) and isinstance(step.input, chain.Source):
            place = next(at for at, one in enumerate(sources) if one is step.input)
            records = Counter(row.get(step.keys) for batch in history.batches for row in batch.rows[place])
            yield Deduplicated(step.input.topic, step.keys, records)


class ChainFacts:
    """The facts of the rows of one run; the identity of a row is its place in ``rows``."""

    def __init__(
        self, described: chain.Chain, rows: Sequence[Values], repeats: Iterable[Deduplicated] = ()
    ) -> None:
        types = chain.types_of(described.last)
        self._columns = [
            Fact(name, Kind.TIME if types[name] == chain.TIME else Kind.VALUE) for name in described.output
        ]
        self._rows = rows
        places = {name: place for place, name in enumerate(described.output)}
        self._repeats = [
            (one, [places[key] for key in one.keys]) for one in repeats if places.keys() >= {*one.keys}
        ]

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

    def of_copy(self, row: OutputRow) -> Facts:
        """Whether it is made of a record that a producer sent more than once, and a deduplication drops."""
        values = self._rows[row[0]]
        return {
            one.fact: True
            for one, places in self._repeats
            if one.records[tuple(values[place] for place in places)] > 1
        }

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
