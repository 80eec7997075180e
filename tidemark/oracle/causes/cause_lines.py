"""The sentence of each property: how many rows of how many are wrong, and what they have in common.

Free of I/O; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import msgspec

from tidemark.oracle.causes.common_facts import (
    FEWEST,
    Common,
    Fact,
    Facts,
    Kind,
    most_telling,
    of_all,
    sentence,
)
from tidemark.oracle.findings import FindingLog

OutputRow = tuple[int, int]
"""The identity of an output row, and the batch it came in, or is due in; below 0: not known."""
SAMPLE = 3_000
"""So many wrong rows of a property are looked at, and so many right ones; of more, evenly spread ones."""

NEVER_CAME = " never came"
_SUBJECTS = {
    "lost_rows": f"rows that are due{NEVER_CAME}",
    "missing_nulls": f"NULL rows that are due{NEVER_CAME}",
    "duplicate_rows": "rows came once more than the delivery promise permits",
    "repeated_semi_rows": "semi rows came once more than the delivery promise permits",
    "phantom_rows": "rows came that no rule gives",
    "premature_nulls": "NULL rows came too early",
    "nulls_for_matched_rows": "NULL rows came for rows that have a partner",
    "late_rows_joined": "rows came of which a late row is a part",
    "misplaced_rows": "rows came in another batch than Spark's rules give",
    "corrupt_rows": "output records cannot be read, or contradict the input",
}
_MANY = 20
"""So many rows have no value in common by chance; a deviation is none for any number of them."""
_REPEATS = ("duplicate_rows", "repeated_semi_rows")


class Weight(IntEnum):
    """How much a sentence explains."""

    COUNTED = 0
    """It counts the rows."""
    COMMON = 1
    """It says what the wrong rows have in common."""
    WATERMARKS = 2
    """Watermarks are wrong: rows are late, and leave, at other times."""
    VALUE = 3
    """Many rows of one value, or up to a limit, and no right row: a filter or a key. It moves watermarks, too."""
    QUERY = 4
    """The query is another, or its batches are not all there."""


_WEIGHTS = {
    "plan_differs": Weight.QUERY,
    "missing_batches": Weight.QUERY,
    "decoded_differently": Weight.QUERY,
    "wrong_watermarks": Weight.WATERMARKS,
}


class Cause(msgspec.Struct, frozen=True):
    """The sentence of one property; of several that of the greatest ``weight`` is read first."""

    property: str
    message: str
    weight: Weight = Weight.COUNTED


class KnownRows(Protocol):
    """What is known of output rows: ``RowFacts`` of a join, ``ChainFacts`` of a chain."""

    def read(self, rows: Iterable[OutputRow]) -> None:
        """Look up what the facts of these rows take."""

    def of(self, row: OutputRow) -> Facts:
        """The facts of a row."""

    def of_copy(self, row: OutputRow) -> Facts:
        """What else is known of a row that came once more."""

    def shape(self, row: OutputRow) -> bool:
        """Rows of one shape are compared with each other."""

    def about(self, common: Common) -> str:
        """What else there is to say of a fact."""

    def is_of_input(self, fact: Fact) -> bool:
        """Whether it is one of the input, as a filter and a key are, not of batches and places."""


@dataclass(frozen=True)
class Compared:
    """What wrong rows are compared with: the rows that came; ``owed`` says of a property how many had to come.

    Of the rows that came those of which something is wrong are left out.
    """

    facts: KnownRows
    came: Iterable[OutputRow]
    owed: Mapping[str, int]
    explained: Mapping[str, str] = field(default_factory=dict)
    """What else was found out about a property, which is read before its first finding."""


def first_read(causes: Sequence[Cause]) -> list[Cause]:
    """The sentences in the order in which to read them: the one that explains most is first."""
    return sorted(causes, key=lambda one: -one.weight)


def cause_lines(log: FindingLog, compared: Compared | None = None) -> list[Cause]:
    """The sentences, in the order of the properties, of findings that no known defect explains.

    Without ``compared`` the rows are only counted.
    """
    owed: Mapping[str, int] = {} if compared is None else compared.owed
    samples = {name: _spread(log.rows_of(name)) for name in log.unexplained()} if compared else {}
    right: dict[bool, list[OutputRow]] = {}
    if compared is not None and any(samples.values()):
        right = _right(log, compared)
        compared.facts.read([row for rows in [*samples.values(), *right.values()] for row in rows])
    found = []
    for name, many in log.unexplained().items():
        if name not in _SUBJECTS or many == 1:
            found.append(Cause(name, _first(log, name, many, compared), _WEIGHTS.get(name, Weight.COUNTED)))
            continue
        said, weight = _subject(name, many, owed.get(name, 0)), Weight.COUNTED
        if compared is not None and samples[name] and owed.get(name) != many:
            shapes = {compared.facts.shape(row) for row in samples[name]}
            others = [row for shape in shapes for row in right[shape]]
            is_copy = name in _REPEATS
            common, weight = _in_common(compared.facts, samples[name], others, many, is_copy=is_copy)
            said += common
        if problem := _problem(log, name, many):
            said, weight = said + problem, Weight.COMMON
        found.append(Cause(name, said, weight))
    return found


def _first(log: FindingLog, name: str, many: int, compared: Compared | None) -> str:
    """What the first finding of a property says, after what explains it; of the plan all that differs."""
    if name == "plan_differs":
        return "; ".join(one.message for one in log.findings() if one.property == name)
    first = next(one.message for one in log.findings() if one.property == name and one.defect is None)
    said = first if many == 1 else f"{many:,} findings; the first: {first}"
    explained = compared.explained.get(name, "") if compared is not None else ""
    return f"{explained}; {said}" if explained else said


def _subject(name: str, many: int, owed: int) -> str:
    what = _SUBJECTS[name]
    if owed == many:
        return f"none of {many:,} {what.removesuffix(NEVER_CAME)} came"
    return f"{many:,} {f'of {owed:,} ' if owed > many else ''}{what}"


def _in_common(
    facts: KnownRows, wrong: Sequence[OutputRow], right: Sequence[OutputRow], many: int, *, is_copy: bool
) -> tuple[str, Weight]:
    """``: in all 399, …``, and how much that explains; an empty text if nothing sets the wrong rows apart."""
    mine, others = [facts.of(row) for row in wrong], [facts.of(row) for row in right]
    if is_copy:
        mine = [{**known, **facts.of_copy(row)} for known, row in zip(mine, wrong, strict=True)]
    common = most_telling(mine, others)
    if common is None:
        return "", Weight.COUNTED
    text = f": {sentence(common, len(mine), len(others))}{facts.about(common)}"
    if len(wrong) < many:
        text += f"; {len(wrong):,} wrong rows were looked at"
    is_deviation = common.fact.kind is Kind.DEVIATION
    is_perfect = common.wrong == len(mine) and not common.right
    is_perfect &= is_deviation or (len(mine) >= _MANY and bool(others))
    return text, Weight.VALUE if is_perfect and facts.is_of_input(common.fact) else Weight.COMMON


def _problem(log: FindingLog, name: str, many: int) -> str:
    """What most of the records that are no rows suffer from."""
    problems = log.problems_of(name)
    if problems.total() < FEWEST:
        return ""
    [(problem, of)] = problems.most_common(1)
    return f": in {of_all(of, many)}, {problem}"


def _spread(rows: Sequence[OutputRow]) -> list[OutputRow]:
    """Some of the rows, evenly spread."""
    step = -(-len(rows) // SAMPLE) or 1
    return list(rows[::step])


def _right(log: FindingLog, compared: Compared) -> dict[bool, list[OutputRow]]:
    """Some rows of each shape that came and of which nothing is wrong."""
    wrong = {identity for name in log.unexplained() for identity, _ in log.rows_of(name)}
    known = [row for row in compared.came if row[0] not in wrong]
    shape = compared.facts.shape
    return {which: _spread([row for row in known if shape(row) is which]) for which in (False, True)}
