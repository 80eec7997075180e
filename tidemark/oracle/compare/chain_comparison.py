"""What came out of a chain, compared with what was predicted: values by batch, each row as often as it is owed.

Free of I/O. The words are those of ``tidemark.oracle.findings``. Rows of a batch behind a gap are not compared; a batch
owes its rows once it is committed; ``at-least-once`` permits a row that comes again in a batch that ran again, and a
record that was sent twice (``tidemark.oracle.delivery``), and that the last step chooses anew (``chain_choices``).
Right rows behind those of a later batch are ``misordered_rows`` (``batch_order``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tidemark.formats import chain
from tidemark.formats.events import write_time
from tidemark.oracle.compare.batch_order import RightRow, misordered, place_of, written
from tidemark.oracle.compare.chain_choices import OtherChoices
from tidemark.oracle.delivery import most_copies
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.chain_history import ChainHistory
from tidemark.oracle.input.chain_rows import ChainOutput, ChainOutputRow, Offered, Shape, Values
from tidemark.oracle.input.rows import Row
from tidemark.oracle.model.chain_replay import Model
from tidemark.oracle.model.operators import Counts, StoredRow
from tidemark.oracle.spark.time_ranges import US_PER_MS

WRITTEN = 8
"""So many of the input records behind a row are named."""


@dataclass
class Predicted:
    """What a model gives: of each batch its watermark, its rows, as the output has them, and what operators count.

    ``states`` are those of the operators after the batches whose state was read, by the id of the batch. ``offered``
    are the choices of the last step in batches that ran again.
    """

    model: Model
    shape: Shape
    watermarks_ms: list[int] = field(default_factory=list)
    rows: list[list[tuple[Values, Row]]] = field(default_factory=list)
    counts: list[list[tuple[str, Counts]]] = field(default_factory=list)
    states: dict[int, list[tuple[str, list[StoredRow] | None]]] = field(default_factory=dict)
    offered: Mapping[int, Sequence[Offered]] = field(default_factory=dict)

    def all(self) -> Counter[Values]:
        """All rows of all batches."""
        return Counter(values for rows in self.rows for values, _ in rows)


@dataclass
class DefectRows:
    """A known defect of Spark, the right rows that it loses and the wrong ones that it gives."""

    name: str = ""
    lost: Counter[Values] = field(default_factory=Counter)
    added: Counter[Values] = field(default_factory=Counter)

    @staticmethod
    def between(name: str, right: Counter[Values], given: Counter[Values]) -> DefectRows:
        """What makes the rows that a Spark with this defect gives of the right ones."""
        return DefectRows(name, lost=right - given, added=given - right)


class FirstAlike:
    """Finds the first of many rows that agrees with a given one at chosen places, by an index for each choice.

    The index of a choice of places is made when it is first asked for: a lookup costs the same however many rows
    there are.
    """

    def __init__(self, rows: Iterable[Values]) -> None:
        self._rows = list(dict.fromkeys(rows))
        self._indexes: dict[tuple[int, ...], dict[Values, list[Values]]] = {}

    def other(self, values: Values, places: Sequence[int]) -> Values:
        """The first row that agrees with ``values`` at ``places`` and is not ``values``; empty if there is none."""
        chosen = tuple(places)
        if chosen not in self._indexes:
            index = self._indexes[chosen] = {}
            for row in self._rows:
                alike = index.setdefault(tuple([row[place] for place in chosen]), [])
                if len(alike) < 2:  # rows are distinct: one of two is not the row that is asked about
                    alike.append(row)
        alike = self._indexes[chosen].get(tuple([values[place] for place in chosen]), [])
        return next((row for row in alike if row != values), ())


class ChainComparison:
    """One pass over the output, then a look at what never came."""

    def __init__(
        self,
        history: ChainHistory,
        output: ChainOutput,
        predicted: Predicted,
        defects: Sequence[DefectRows],
        finding_log: FindingLog,
    ) -> None:
        self._history = history
        self._output = output
        self._predicted = predicted
        self._defects = defects
        self._finding_log = finding_log
        self._owed = [Counter(values for values, _ in rows) for rows in predicted.rows]
        self._rows: dict[Values, Row] = {values: row for rows in predicted.rows for values, row in rows}
        self._due: defaultdict[Values, list[int]] = defaultdict(list)
        for number, owed in enumerate(self._owed):
            for values in owed:
                self._due[values].append(number)
        self._open: dict[Values, int] = {}
        self._alike = FirstAlike(self._rows)
        self._known = [Counter(owed) for owed in self._owed]
        self._late: set[Values] = set()
        self.counts: Counter[str] = Counter()
        self.permitted: Counter[int] = Counter()
        """Batch -> rows that came again in it, and were permitted."""
        self._copies: list[ChainOutputRow] = []
        self._came_again: Counter[tuple[int, Values]] = Counter()
        self.right: list[ChainOutputRow] = []
        """The rows that came as they had to."""
        self.values: list[Values] = []
        """Of each row that the log remembers, by its number there."""
        self._choices: dict[int, OtherChoices] = {}
        self._others: list[list[Counter[Values]]] = []
        self.undetermined = 0
        """Rows that came, or did not, as they have to if Spark kept another row than the model."""

    def run(self, without_late_filter: Predicted | None, others: Sequence[Predicted] = ()) -> Counter[str]:
        """Compare all of it; returns counts. ``without_late_filter``: what late rows would have given.

        ``others`` are what the rules give if a deduplication kept another row where nothing shows which one it was.
        """
        self._others = [[Counter(values for values, _ in rows) for rows in one.rows] for one in others]
        if without_late_filter is not None:
            self._late = set(without_late_filter.all()) - set(self._rows)
        for place, problem in self._output.corrupt:
            self._finding_log.remember_problem("corrupt_rows", problem)
            self._finding_log.add(
                Finding(
                    property="corrupt_rows", message=f"output {place} cannot be judged: {problem}", read=place
                )
            )
        self.counts.update(output_records=len(self._output.came) + len(self._output.corrupt))
        unexpected = [came for came in self._output.came if not self._expected(came)]
        for came in unexpected:
            self._unexpected(came)
        self._judge_order()
        for number, owed in enumerate(self._owed):
            if self._history.batches[number].plan.committed:
                for values in owed.elements():
                    self._missing(number, values)
        for defect in self._defects:
            for values in defect.lost.elements():
                self._lost_by_defect(values, defect.name)
        self.counts["duplicates_permitted"] = self.permitted.total()
        return self.counts

    def _expected(self, came: ChainOutputRow) -> bool:
        if came.batch >= len(self._owed):
            if self._history.gaps:
                self.counts["not_compared"] += 1
                return True
            return False
        if self._owed[came.batch][came.values] <= 0:
            return False
        self._owed[came.batch][came.values] -= 1
        row = self._rows[came.values]
        self.right.append(came)
        if self._history.is_sentinel(row):
            self.counts["sentinel_rows"] += 1
        else:
            self.counts["null_rows" if row.is_null else "joined_rows"] += 1
        if (defect := next((one for one in self._defects if one.added[came.values] > 0), None)) is not None:
            defect.added[came.values] -= 1
            why = f"came, which is what this Spark makes of it, but wrong ({defect.name})"
            self._add("phantom_rows", came, why, defect.name)
        return True

    def _unexpected(self, came: ChainOutputRow) -> None:
        """A row that its batch does not owe, or not so often."""
        due = self._due.get(came.values, [])
        if came.batch < len(self._known) and came.values in self._known[came.batch]:
            self._again(came)
        elif came.batch < len(self._known) and self._choices_of(came.batch).take(came.values):
            self.permitted[came.batch] += 1
        elif self._is_undetermined(came.batch, came.values, more=True):
            self.undetermined += 1
        elif (elsewhere := self._still_due(came.values)) is not None:
            self._owed[elsewhere][came.values] -= 1
            early = came.batch < elsewhere and self._rows[came.values].is_null
            self._add("premature_nulls" if early else "misplaced_rows", came, f"is due in batch {elsewhere}")
        elif due:
            self._add(
                "duplicate_rows", came, f"came once more, besides that of batch {due[0]}, where it is due"
            )
        elif (defect := next((one for one in self._defects if one.lost[came.values] > 0), None)) is not None:
            defect.lost[came.values] -= 1
            self._add(
                "oracles_disagree", came, "came, which is right, although the rules of this Spark lose it"
            )
        elif came.values in self._late:
            self._add("late_rows_joined", came, "is what the rules give if late rows are not dropped")
        elif matched := self._matched(came.values):
            self._add("nulls_for_matched_rows", came, f"but there is {self._show(matched)}")
        else:
            self._add("phantom_rows", came, f"is given by no rule{self._nearest(came.values)}")

    def _choices_of(self, batch: int) -> OtherChoices:
        """The choices of the last step in a batch, those of all of its attempts."""
        if batch not in self._choices:
            most = most_copies(
                self._history.manifest, self._history.batches[batch].plan, self._history.deaths
            )
            self._choices[batch] = OtherChoices(self._predicted.offered.get(batch, ()), most)
        return self._choices[batch]

    def _is_undetermined(self, batch: int, values: Values, *, more: bool) -> bool:
        """Whether a batch owes a row more often, or less often, if Spark kept another row in a batch before."""
        if not self._others or batch >= len(self._known) or values in self._choices_of(batch):
            return False
        owed = self._known[batch][values]
        return any(one[batch][values] > owed if more else one[batch][values] < owed for one in self._others)

    def _still_due(self, values: Values) -> int | None:
        """The first batch that is owed a row and has not got it. Once none owes more, nothing is looked at again."""
        due, at = self._due.get(values, []), self._open.get(values, 0)
        while at < len(due) and self._owed[due[at]][values] <= 0:
            at += 1
        self._open[values] = at
        return due[at] if at < len(due) else None

    def _right_rows(self) -> Iterator[RightRow]:
        """The records of right rows in their batches, copies last."""
        for came in (*self.right, *self._copies):
            if self._history.is_sentinel(self._rows[came.values]):
                continue
            if not self._choices_of(came.batch).is_open(came.values):
                partition, _, offset = came.place.partition("/")
                yield RightRow((came.batch, came.values), came.batch, place_of(int(partition), int(offset)))

    def _judge_order(self) -> None:
        """Rows that were not in the topic when a later batch was written there."""

        def owed(row: Any) -> int:
            batch, values = cast("tuple[int, Values]", row)
            return self._known[batch][values]

        for one in misordered(self._right_rows, owed):
            row, batch, place = one.record
            _, values = cast("tuple[int, Values]", row)
            self._add("misordered_rows", ChainOutputRow(batch, values, written(place)), one.why)

    def _again(self, came: ChainOutputRow) -> None:
        self._copies.append(came)
        owed, choices = self._known[came.batch][came.values], self._choices_of(came.batch)
        most = most_copies(
            self._history.manifest, self._history.batches[came.batch].plan, self._history.deaths
        )
        is_resent = came.place in self._history.resent
        self._came_again[came.batch, came.values] += not is_resent
        more = (owed - choices.taken[came.values]) * (most - 1)
        if is_resent or self._came_again[came.batch, came.values] <= more or choices.take(came.values):
            self.permitted[came.batch] += 1
            return
        permits = "permits no repeat" if most == 1 else f"permits each row {most} times"
        if came.values in choices and most > 1:
            permits += ", and as many rows in place of each that was chosen"
        why = f"came again; the batch owes it {'once' if owed == 1 else f'{owed} times'}, and {permits}"
        self._add("duplicate_rows", came, why)

    def _matched(self, values: Values) -> Values:
        """A row that was predicted and has something where this one has NULL; empty if there is none."""
        if not self._has_outer() or None not in values:
            return ()
        return self._alike.other(values, [place for place, value in enumerate(values) if value is not None])

    def _nearest(self, values: Values) -> str:
        """For an aggregate: what its group should be."""
        last = self._history.chain.last
        if not isinstance(last, chain.Aggregate):
            return ""
        groups = {*last.keys, str(chain.time_of(last))}
        places = [index for index, name in enumerate(self._history.chain.output) if name in groups]
        group = self._alike.other(values, places)
        return f"; its group is {self._show(group)}" if group else ""

    def _has_outer(self) -> bool:
        outer = ("left_outer", "right_outer", "full_outer")
        return any(isinstance(step, chain.Join) and step.kind in outer for step in self._history.chain.steps)

    def _missing(self, number: int, values: Values) -> None:
        row = self._rows[values]
        if self._is_undetermined(number, values, more=False):
            self.undetermined += 1
            return
        name = "missing_nulls" if row.is_null else "lost_rows"
        self._add(
            name,
            ChainOutputRow(number, values, ""),
            f"is owed by batch {number}, which is committed, and did not come",
        )

    def _lost_by_defect(self, values: Values, name: str) -> None:
        why = f"is right, and this Spark does not give it ({name})"
        self._add("lost_rows", ChainOutputRow(-1, values, ""), why, name)

    def _add(self, name: str, came: ChainOutputRow, why: str, defect: str | None = None) -> None:
        if defect is None:
            self._finding_log.remember(name, len(self.values), came.batch)
            self.values.append(came.values)
        if not self._finding_log.wants(name, defect):
            self._finding_log.count(name, defect)
            return
        row = self._rows.get(came.values)
        written = [self._history.place(one) for one in sorted(row.made_of)[:WRITTEN]] if row else []
        where = f" (output {came.place} of batch {came.batch})" if came.place else ""
        texts = [None if value is None else str(value) for value in came.values]
        finding = Finding(
            property=name,
            message=f"the row {self._show(came.values)}{where} {why}",
            row=dict(zip(self._history.chain.output, texts, strict=True)),
            written=written,
            read=came.place or None,
            batch=came.batch if came.batch >= 0 else None,
            defect=defect,
        )
        self._finding_log.add(finding)

    def _show(self, values: Values) -> str:
        return show(self._history.chain, values)


def show(described: chain.Chain, values: Values) -> str:
    """An output row for people: ``user_id u1, clicks 3``."""
    types = chain.types_of(described.last)
    return ", ".join(
        f"{name} {_text(value, types[name])}" for name, value in zip(described.output, values, strict=True)
    )


def _text(value: object, kind: str) -> str:
    if value is None:
        return "NULL"
    return write_time(value * US_PER_MS) if kind == chain.TIME and isinstance(value, int) else str(value)
