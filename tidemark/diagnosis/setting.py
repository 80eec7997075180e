"""A query to ask the judge about: a contract, the rules of a Spark, and what else may be done to the rows.

Free of I/O. A *change* makes another setting of one. Nothing here decides whether it explains anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from tidemark.formats.contract import Contract, JoinKind

BEHIND = "of the left side"
"""The name that a right id has where a semi join is asked about as another join: no record has it."""


class NullKeys(StrEnum):
    """What is done with rows of which a part of the key is NULL."""

    JOINED = "joined"
    """A NULL key is equal to a NULL key."""
    APART = "apart"
    """A NULL key matches nothing, as in SQL."""


@dataclass(frozen=True)
class TimeReading:
    """Of one side (left 0, right 1): its times are cut to ``unit_us``, then ``later_us`` later; 0: neither is done."""

    side: int
    unit_us: int = 0
    later_us: int = 0

    def of(self, time_us: int) -> int:
        """What the query takes for this time, in microseconds."""
        cut_us = time_us - time_us % self.unit_us if self.unit_us else time_us
        return cut_us + self.later_us


@dataclass(frozen=True)
class Setting:
    """What is asked. ``contract`` is the join, ``spark`` the version whose rules and defects it has.

    ``state_format``: another format of the state than the run's. ``null_keys``: what the query does with them, if not
    what Spark does. ``readings``: how times are read. ``first_of_id``: the sides of which the query keeps the first row
    of each id before the join; ``first_of_output``: of each left id it keeps the first output row.
    ``reading``: output columns are read otherwise.
    """

    contract: Contract
    spark: str | None = None
    state_format: int | None = None
    null_keys: NullKeys | None = None
    readings: tuple[TimeReading, ...] = ()
    first_of_id: tuple[int, ...] = ()
    first_of_output: bool = False
    reading: OutputReading | None = None


class OutputReading(StrEnum):
    """How the records of the output are read, where it is not as the contract says."""

    EXCHANGED = "ids exchanged"
    """The ids of left and right are exchanged."""
    WITHOUT_PLACES = "without places"
    """The columns with partition and offset are not looked at."""
    NEXT_LEFT = "one further left"
    """The offset of the left record is one too high."""
    NEXT_RIGHT = "one further right"
    """The offset of the right record is one too high."""
    EMPTY_TEXT = "empty text"
    """An empty text stands for NULL."""
    ANY_QUERY = "any query"
    """The header that names the query is not looked at."""


@dataclass(frozen=True)
class Change:
    """One thing that is changed: ``name`` is the contract's word, or a short one; ``gives`` completes "the output is
    exactly what … gives", ``meaning`` says what the query does, in plain words; ``also`` what would give the same.

    ``is_fitted``: it has a number that was taken from the evidence.
    """

    name: str
    gives: str
    meaning: str
    apply: Callable[[Setting], Setting]
    is_fitted: bool = False
    also: str = ""
    family: str = ""

    @property
    def of_family(self) -> str:
        """Changes of one family are one thing said in several ways."""
        return self.family or self.name


def with_kind(contract: Contract, kind: JoinKind) -> Contract:
    """The contract of another kind of join; a semi join has no right columns, and others have."""
    output = contract.output
    if kind is JoinKind.LEFT_SEMI:
        output = replace(output, right_id=None, right_ref=None)
    elif output.right_id is None:
        output = replace(output, right_id=BEHIND)
    return replace(contract, kind=kind, output=output)
