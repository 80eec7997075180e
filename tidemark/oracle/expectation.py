"""What had to come out of a run of one join: by the model, by SQL, or by SQL alone where nobody modelled the Spark.

Free of I/O. The model and SQL share no rule, so a difference between them that no known defect of Spark explains is a
finding about the judge itself (``oracles_disagree``). The watermarks are compared first; where they differ, all else
may, and the rest is not looked at.

A Spark before 4.2, whose own rules are not modelled, is judged by what SQL says is right, and its output. Which rows
were late is then taken from the watermarks in the checkpoint, so those are not judged; nor is the batch in which a row
comes. The output as a whole is: every right row once, and no other. That a NULL row came too early shows only where it
is wrong for good, because the row has a partner after all.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.compare.join_comparison import Defects
from tidemark.oracle.compare.wording import Wording, moment
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import NO_BATCH, Disposition, History, first_of, right_of
from tidemark.oracle.input.output_rows import OutputReader
from tidemark.oracle.model.join_replay import Prediction
from tidemark.oracle.spark.known_defects import has_defect
from tidemark.oracle.sql.join_answer import SqlAnswer, ask

_NAME = "oracles_disagree"


class OracleComparison:
    """Compares what the model predicts with what SQL says, about rows, lateness, watermarks and state."""

    def __init__(
        self, history: History, prediction: Prediction, answer: SqlAnswer, finding_log: FindingLog
    ) -> None:
        self._history = history
        self._prediction = prediction
        self._answer = answer
        self._finding_log = finding_log
        self._words = Wording(history, prediction)

    def run(self) -> Defects:
        """Compare; returns what known defects of Spark change."""
        defects = defects_of(self._answer)
        if not self._watermarks_agree():
            return defects
        self._compare_rows()
        self._compare_right(defects)
        self._compare_inputs()
        return defects

    def _watermarks_agree(self) -> bool:
        """Where Spark had a choice, each oracle follows the checkpoint as far as that can be right."""
        ours, theirs = self._prediction.watermarks_ms, self._answer.watermarks_ms
        if self._history.optional:
            planned = [batch.plan.watermark_ms for batch in self._history.batches]
            ours, theirs = ours[: len(planned)], theirs[: len(planned)]
            if ours != planned:  # which is a finding already (``wrong_watermarks``)
                return ours == theirs
        if ours == theirs:
            return True
        batch = next(
            (at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]),
            min(len(ours), len(theirs)),
        )
        said = [moment(one[batch]) if batch < len(one) else "none" for one in (theirs, ours)]
        message = f"SQL gives batch {batch} the watermark {said[0]}, Spark's rules {said[1]}"
        self._finding_log.add(Finding(property=_NAME, message=message, batch=batch))
        return False

    def _compare_rows(self) -> None:
        """The rows that this Spark gives, with their batches."""
        answer, predicted = self._answer, self._prediction.batch_of
        identities, batches = answer.identity[answer.comes], answer.batch[answer.comes]
        ours = np.fromiter(predicted.keys(), dtype=np.int64, count=len(predicted))
        due = np.fromiter(predicted.values(), dtype=np.int64, count=len(predicted))
        order, other = np.argsort(identities), np.argsort(ours)
        if np.array_equal(identities[order], ours[other]) and np.array_equal(batches[order], due[other]):
            return
        said = dict(zip(identities.tolist(), batches.tolist(), strict=True))
        for identity in sorted(said.keys() | predicted.keys()):
            if said.get(identity) != predicted.get(identity):
                self._row(identity, said.get(identity), predicted.get(identity))

    def _compare_right(self, defects: Defects) -> None:
        """What is right and what this Spark gives differ by known defects only."""
        answer = self._answer
        for at in np.flatnonzero(answer.is_right != answer.comes).tolist():
            identity = int(answer.identity[at])
            if identity in defects.lost or identity in defects.added:
                continue
            says, not_said = ("SQL gives", "Spark's rules do not")
            if answer.comes[at]:
                says, not_said = ("Spark's rules give", "SQL does not")
            self._add(partial(self._of_output, identity, f"{says} {{}}, {not_said}"))

    def _compare_inputs(self) -> None:
        """What became of each input row, and when it was in the state."""
        prediction, answer = self._prediction, self._answer
        for what, ours, theirs in (
            ("disposition", np.frombuffer(bytes(prediction.disposition), dtype=np.uint8), answer.disposition),
            ("batch that stores it", np.frombuffer(prediction.stored, dtype=np.int32), answer.stored),
            ("batch that removes it", np.frombuffer(prediction.removed, dtype=np.int32), answer.removed),
        ):
            for row in np.flatnonzero(ours != theirs).tolist():
                said = [_named(what, int(one[row])) for one in (theirs, ours)]
                self._add(partial(self._of_input, row, what, said))

    def _of_input(self, row: int, what: str, said: Sequence[str]) -> Finding:
        message = f"{self._words.row(row)}: SQL says of its {what} {said[0]}, Spark's rules say {said[1]}"
        return Finding(property=_NAME, message=message, written=[self._words.place(row)])

    def _row(self, identity: int, said: int | None, predicted: int | None) -> None:
        if predicted is None:
            text = f"by SQL this Spark gives {{}} in batch {said}, by its rules it does not"
        elif said is None:
            text = f"by its rules this Spark gives {{}} in batch {predicted}, by SQL it does not"
        else:
            text = f"{{}} comes in batch {said} by SQL, in batch {predicted} by Spark's rules"
        self._add(partial(self._of_output, identity, text))

    def _of_output(self, identity: int, text: str) -> Finding:
        return self._words.finding(_NAME, identity, text.format(self._words.output_row(identity)))

    def _add(self, finding: Callable[[], Finding]) -> None:
        """Count a finding, and put it into words only if it is kept."""
        if self._finding_log.wants(_NAME):
            self._finding_log.add(finding())
        else:
            self._finding_log.count(_NAME)


def _named(what: str, value: int) -> str:
    if what == "disposition":
        return Disposition(value).name.lower()
    return "none" if value < 0 else str(value)


def defects_of(answer: SqlAnswer) -> Defects:
    """What known defects of Spark change, by SQL."""
    defects = Defects()
    differ = np.flatnonzero(answer.is_right != answer.comes)
    for at in differ.tolist():
        if answer.defect[at] is not None:
            rows = defects.added if answer.comes[at] else defects.lost
            rows[int(answer.identity[at])] = answer.defect[at]
    return defects


def expect_of_unmodelled(history: History, output: Iterable[OutputRecord]) -> tuple[Prediction, Defects]:
    """The right rows, and what known defects of this Spark make of them.

    A row that came is expected in the first batch in which it did; one that did not, in the last committed batch.
    """
    committed = replace(history, batches=[batch for batch in history.batches if batch.plan.committed])
    answer = owing = ask(history, by_checkpoint=True)
    if len(committed.batches) < len(history.batches):
        # The last batch may give its rows, but does not owe them.
        owing = ask(committed, by_checkpoint=True)
    right, owed = (set(one.identity[one.is_right].tolist()) for one in (answer, owing))
    never = array("i", [NO_BATCH]) * len(history.rows)
    prediction = Prediction(
        watermarks_ms=answer.watermarks_ms,
        disposition=bytearray(answer.disposition.tobytes()),
        matched=matched_rows(history, right | owed),
        stored=never,
        removed=never[:],
    )
    came, last = _first_batches(history, output, right), len(history.batches) - 1
    for identity in sorted(right | owed):
        due = len(committed.batches) - 1 if identity in owed else last
        prediction.batch_of[identity] = came.get(identity, due)
    return prediction, _defects(history, prediction, (defects_of(answer), defects_of(owing)), came)


def matched_rows(history: History, identities: Iterable[int]) -> bytearray:
    """Per input row, whether one of these output rows stands for a match of it: a pair, or a semi row."""
    matched = bytearray(len(history.rows))
    is_semi = history.contract.output.right_id is None
    for identity in identities:
        partner = right_of(identity)
        if partner is not None:
            matched[partner] = True
        if is_semi or partner is not None:
            matched[first_of(identity)] = True
    return matched


def _first_batches(history: History, output: Iterable[OutputRecord], right: set[int]) -> dict[int, int]:
    """Identity of each row that came -> the first planned batch in which it did."""
    came: dict[int, int] = {}

    def choose(identities: list[int], _batch: int) -> int:
        return min(identities, key=lambda one: (one not in right, one in came, one))

    reader = OutputReader(history, choose)
    for record in output:
        identity, batch, _ = reader.read(record)
        if identity is not None and 0 <= batch < len(history.batches):
            came[identity] = min(batch, came.get(identity, batch))
    return came


def _defects(
    history: History, prediction: Prediction, known: Sequence[Defects], came: dict[int, int]
) -> Defects:
    """The rows that are missing or too many, and that a known defect of this Spark explains."""
    defects, versions = Defects(), history.manifest.versions
    every, owed = known
    for identity, name in sorted(owed.lost.items()):
        if identity not in came and has_defect(versions, name):
            defects.lost[identity] = name
            prediction.batch_of.pop(identity, None)
    for identity, name in sorted(every.added.items()):
        if identity in came and has_defect(versions, name):
            defects.added[identity] = name
            prediction.batch_of[identity] = came[identity]
    return defects
