"""Whether Spark's rules, with its known defects, can show a bug in a case: asked before anything is run.

Free of Kafka and Spark. A known defect is predicted row by row, by the SQL oracle. Of another bug no more is known than
that a row which never came has to be owed, and one that came twice under a fault has to be of a batch that the fault
can hit. It is relied on only while the batches that it predicts are those that trials plan; where a fault ends a batch
these are others, and only whether it is of the trace's, and not the first, is asked of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidemark.campaigns.case import SHUFFLE_PARTITIONS, Case
from tidemark.campaigns.shrink.bug_signature import OF_A_SENTINEL, BugSignature
from tidemark.campaigns.shrink.predicted_batches import is_as_planned, predicted_history
from tidemark.campaigns.shrink.shrinkable import Shrinkable
from tidemark.errors import TidemarkError
from tidemark.faults.schedule import read_schedule
from tidemark.formats.evidence import Batch
from tidemark.formats.faults import CommitPoint
from tidemark.oracle.input.history import NO_BATCH, History, first_of, right_of
from tidemark.oracle.spark.time_ranges import LEFT
from tidemark.oracle.sql.join_answer import SqlAnswer, ask

NEVER_CAME = ("lost_rows", "missing_nulls")
CAME_AGAIN = ("duplicate_rows", "repeated_semi_rows")
CAME_WRONGLY = ("phantom_rows", "nulls_for_matched_rows", "premature_nulls")
NEEDS_ROWS = (CommitPoint.WRITTEN, CommitPoint.HALF_WRITTEN, CommitPoint.DELETED_COMMIT)
"""Commit points of a batch with rows in each sink partition, or in more than one."""
DEFAULT_PARTITIONS = 2
"""Of the state and the sink, where no setting says how many (``stack.components.spark_settings``)."""


@dataclass
class PredictedBug:
    """``spark`` is the version that runs. ``is_trusted`` turns false once a trial planned other batches."""

    signature: BugSignature
    spark: str
    is_trusted: bool = field(default=True, init=False)

    def leads(self, start: Shrinkable) -> bool:
        """Whether a start can be made smaller by the rules alone.

        Of a known defect, and of rows that came again under a fault, hardly a case is red that is not predicted so, nor
        green one that is.
        """
        name = self.signature.property
        if start.faults:
            return name in CAME_AGAIN and self.shows(start) is True
        is_known = self.signature.defect is not None and name in (*NEVER_CAME, *CAME_WRONGLY)
        return is_known and self.is_trusted and self.shows(start) is True

    def may_show(self, candidate: Shrinkable) -> bool:
        """Whether a candidate can show the bug, as far as it is known."""
        if not self.is_trusted and not candidate.faults:
            return True
        return self.shows(candidate) is not False

    def shows(self, candidate: Shrinkable) -> bool | None:
        """Whether the run of a candidate will show the bug; ``None``: nobody knows."""
        asked = CAME_AGAIN if candidate.faults else (*NEVER_CAME, *CAME_WRONGLY)
        if self.signature.property not in asked:
            return None
        try:
            history = predicted_history(candidate.case, self.spark)
            if history is None:
                return None
            answer = ask(history)
        except (TidemarkError, ValueError, TypeError):
            return None
        if candidate.faults:
            return self._comes_under_fault(candidate, history, answer)
        chosen = self._chosen(answer)
        if chosen is None:
            return None
        about = (self._about(history, int(identity)) for identity in answer.identity[chosen])
        return self.signature.about in about

    def learn(self, case: Case, batches: Sequence[Batch]) -> None:
        """Compare what was predicted of a case with the batches that its run planned."""
        history = predicted_history(case, self.spark) if self.is_trusted else None
        if history is not None and not is_as_planned(history, batches):
            self.is_trusted = False

    def _chosen(self, answer: SqlAnswer) -> np.ndarray | None:
        """The rows that could be those of the bug."""
        name, defect = self.signature.property, self.signature.defect
        if defect is None:
            return answer.comes if name in NEVER_CAME else None
        wrong = answer.comes & ~answer.is_right if name in CAME_WRONGLY else answer.is_right & ~answer.comes
        found: np.ndarray = wrong & (answer.defect == defect)
        return found

    def _comes_under_fault(self, candidate: Shrinkable, history: History, answer: SqlAnswer) -> bool:
        """Whether a row like that of the bug comes in a batch that a fault can hit."""
        partitions = int(candidate.case.conf.get(SHUFFLE_PARTITIONS, DEFAULT_PARTITIONS))
        for spec in read_schedule(",".join(candidate.faults)):
            least = max(partitions if part.point in NEEDS_ROWS else 1 for part in spec.parts)
            points = {part.point for part in spec.parts}
            for batch in _batches_to_hit(history, no_data=CommitPoint.NO_DATA in points):
                found = answer.identity[answer.comes & (answer.batch == batch)]
                about = (self._about(history, int(identity)) for identity in found)
                if len(found) >= least and self.signature.about in about:
                    return True
        return False

    def _about(self, history: History, identity: int) -> str:
        """What a finding of this row would be about, in the words of a signature."""
        behind = OF_A_SENTINEL if history.is_of_sentinel(identity) else ""
        if right_of(identity) is not None:
            return f"a pair{behind}"
        if history.contract.output.right_id is None:
            return f"a semi row{behind}"
        side = "left" if history.rows.side[first_of(identity)] == LEFT else "right"
        return f"a NULL row of the {side} side{behind}"


def _batches_to_hit(history: History, *, no_data: bool) -> list[int]:
    """The batches in which a fault can be injected: those of the trace but for the first, with data or without."""
    read = history.rows.batch
    of_trace = set(read[: history.rows.first_sentinel]) - {NO_BATCH}
    of_flush = set(read[history.rows.first_sentinel :]) - {NO_BATCH}
    end = min(of_flush, default=len(history.batches))
    return [batch for batch in range(1, end) if (batch not in of_trace) is no_data]
