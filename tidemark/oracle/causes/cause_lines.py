"""The sentence of each property: how many rows of how many are wrong, and what they have in common.

Free of I/O; decides nothing. The sentence that explains most is read first (``Weight``):

* the query is another: its plan, or the times in its state, differ from the contract's, or batches are missing;
* a value of the records, or a limit of one, that at least ``_MANY`` wrong rows have, all of them, and no right row: a
  filter or a key. The records that it is about move watermarks, too, so it is read before wrong watermarks;
* wrong watermarks, because rows are late, and leave, at other times. If nothing says which query has them, they are
  read after a value, not a limit, that at least ``_SOME`` wrong rows have, all of them, and no right row: so many have
  none by chance, but numbers that grow with the time do have a limit where a wrong watermark parts rows;
* anything else that wrong rows have in common; then, how many there are.
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
    "misordered_rows": "rows came after rows of a later batch",
    "corrupt_rows": "output records cannot be read, or contradict the input",
}
_MANY = 20
"""So many rows have no value in common by chance; a deviation is none for any number of them."""
_SOME = 10
"""As ``_MANY``, beside watermarks that no query explains."""
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
    """The query is another, or reads other times, or its batches are not all there."""


_WEIGHTS = {
    "plan_differs": Weight.QUERY,
    "missing_batches": Weight.QUERY,
    "decoded_differently": Weight.QUERY,
    "wrong_watermarks": Weight.WATERMARKS,
}
_WEIGHTS_IF_EXPLAINED = {"lost_state": Weight.QUERY, "leaked_state": Weight.QUERY}


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
    """What else was found out about a property, which is read before its first finding; it may be empty."""

    def weight(self, name: str) -> Weight:
        """How much is explained of a property that is not about output rows."""
        known = _WEIGHTS.get(name, Weight.COUNTED)
        return _WEIGHTS_IF_EXPLAINED.get(name, known) if self.explained.get(name) else known


def first_read(causes: Sequence[Cause]) -> list[Cause]:
    """The sentences in the order in which to read them: the one that explains most is first."""
    return sorted(causes, key=lambda one: -one.weight)


def cause_lines(log: FindingLog, compared: Compared | None = None) -> list[Cause]:
    """The sentences, in the order of the properties, of findings that no known defect explains.

    Without ``compared`` the rows are only counted.
    """
    owed: Mapping[str, int] = {} if compared is None else compared.owed
    explained: Mapping[str, str] = {} if compared is None else compared.explained
    samples = {name: _spread(log.rows_of(name)) for name in log.unexplained()} if compared else {}
    right: dict[bool, list[OutputRow]] = {}
    if compared is not None and any(samples.values()):
        right = _right(log, compared)
        compared.facts.read([row for rows in [*samples.values(), *right.values()] for row in rows])
    no_query = "wrong_watermarks" in log.unexplained() and not explained.get("wrong_watermarks")
    found = []
    for name, many in log.unexplained().items():
        if name not in _SUBJECTS or many == 1:
            weight = _WEIGHTS.get(name, Weight.COUNTED) if compared is None else compared.weight(name)
            found.append(Cause(name, _first(log, name, many, compared), weight))
            continue
        said, weight = _subject(name, many, owed.get(name, 0)), Weight.COUNTED
        if compared is not None and samples[name] and owed.get(name) != many:
            shapes = {compared.facts.shape(row) for row in samples[name]}
            others = [row for shape in shapes for row in right[shape]]
            common = _common(compared.facts, samples[name], others, is_copy=name in _REPEATS)
            if common is not None:
                said += _in_common(common, compared.facts, (len(samples[name]), len(others)), many)
                is_apart = _is_apart(common, (len(samples[name]), len(others)), has_other_watermarks=no_query)
                is_value = is_apart and compared.facts.is_of_input(common.fact)
                weight = Weight.VALUE if is_value else Weight.COMMON
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


def _common(
    facts: KnownRows, wrong: Sequence[OutputRow], right: Sequence[OutputRow], *, is_copy: bool
) -> Common | None:
    """What sets the wrong rows apart, if anything does."""
    mine, others = [facts.of(row) for row in wrong], [facts.of(row) for row in right]
    if is_copy:
        mine = [{**known, **facts.of_copy(row)} for known, row in zip(mine, wrong, strict=True)]
    return most_telling(mine, others)


def _in_common(common: Common, facts: KnownRows, compared: tuple[int, int], many: int) -> str:
    """``: in all 399, …``; ``compared`` are how many wrong and right rows were, of ``many`` wrong ones."""
    text = f": {sentence(common, *compared)}{facts.about(common)}"
    return text + (f"; {compared[0]:,} wrong rows were looked at" if compared[0] < many else "")


def _is_apart(common: Common, compared: tuple[int, int], *, has_other_watermarks: bool) -> bool:
    """Whether all wrong rows have it, no right row has, and that is none by chance."""
    wrong, right = compared
    if common.wrong < wrong or common.right:
        return False
    enough = _SOME if has_other_watermarks and not common.is_limit else _MANY
    return common.fact.kind is Kind.DEVIATION or (wrong >= enough and right > 0)


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
