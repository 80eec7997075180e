"""The two oracles of a join compared: what SQL says of all rows, and what the model says of its sample.

Free of I/O. They share no rule, so a difference between them is a finding about the judge itself
(``oracles_disagree``). So is a difference between what is right and what this Spark gives, if no known defect of Spark
explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tidemark.oracle.compare.wording import Wording, moment
from tidemark.oracle.findings import Finding, FindingLog
from tidemark.oracle.input.history import ROW_BITS, ROW_MASK, Disposition, History
from tidemark.oracle.model.join_replay import Replay
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.sql.join_answer import SqlAnswer

_NAME = "oracles_disagree"


class OracleComparison:
    """Compares what the model gives with what SQL gives: watermarks, and rows, lateness and state of the sample."""

    def __init__(self, history: History, answer: SqlAnswer, replay: Replay, finding_log: FindingLog) -> None:
        self._history = history
        self._answer = answer
        self._replay = replay
        self._finding_log = finding_log
        self._words = Wording(history, Prediction(watermarks_ms=answer.watermarks_ms))

    def run(self) -> None:
        """Compare all of it; where watermarks differ, all else may, and is not looked at."""
        if self._watermarks_agree():
            self._compare_rows()
            self._compare_right()
            self._compare_inputs()

    def _watermarks_agree(self) -> bool:
        """Where Spark had a choice, each oracle follows the checkpoint as far as that can be right."""
        ours, theirs = self._replay.watermarks_ms, self._answer.watermarks_ms
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
        answer, ours = self._answer, self._replay.batch_of
        chosen = answer.comes & self._is_of_sample(answer.identity)
        said = dict(zip(answer.identity[chosen].tolist(), answer.batch[chosen].tolist(), strict=True))
        if said == ours:
            return
        for identity in sorted(said.keys() | ours.keys()):
            if said.get(identity) != ours.get(identity):
                self._row(identity, said.get(identity), ours.get(identity))

    def _is_of_sample(self, identities: np.ndarray) -> np.ndarray:
        """Whether one of the rows that an output row is made of is in the sample."""
        rows, right = self._replay.sample.rows, (identities & ROW_MASK) - 1
        found: np.ndarray = rows[identities >> ROW_BITS] | (right >= 0) & rows[np.maximum(right, 0)]
        return found

    def _compare_right(self) -> None:
        """What is right and what this Spark gives differ by known defects only."""
        answer = self._answer
        is_explained = np.array([name is not None for name in answer.defect], dtype=bool)
        for at in np.flatnonzero((answer.is_right != answer.comes) & ~is_explained).tolist():
            says, not_said = ("SQL gives", "Spark's rules do not")
            if answer.comes[at]:
                says, not_said = ("Spark's rules give", "SQL does not")
            self._add(partial(self._of_output, int(answer.identity[at]), f"{says} {{}}, {not_said}"))

    def _compare_inputs(self) -> None:
        """What became of each input row, and when it was in the state."""
        ours, theirs = self._replay, self._answer
        for what, one, other in (
            ("disposition", ours.disposition, theirs.disposition),
            ("batch that stores it", ours.stored, theirs.stored),
            ("batch that removes it", ours.removed, theirs.removed),
        ):
            for row in np.flatnonzero((one != other) & ours.sample.rows).tolist():
                said = [_named(what, int(column[row])) for column in (other, one)]
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
