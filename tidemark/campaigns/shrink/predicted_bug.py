"""Whether Spark's rules, with its known defects, can show a bug in a case: asked before anything is run.

Free of Kafka and Spark. A known defect is predicted row by row, by the SQL oracle. Of another bug no more is known than
that a row which never came has to be owed. It is relied on only while the batches that it predicts are those that
trials plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidemark.campaigns.case import Case
from tidemark.campaigns.shrink.bug_signature import OF_A_SENTINEL, BugSignature
from tidemark.campaigns.shrink.predicted_batches import is_as_planned, predicted_history
from tidemark.campaigns.shrink.shrinkable import Shrinkable
from tidemark.errors import TidemarkError
from tidemark.formats.evidence import Batch
from tidemark.oracle.input.history import History, first_of, right_of
from tidemark.oracle.spark.time_ranges import LEFT
from tidemark.oracle.sql.join_answer import SqlAnswer, ask

NEVER_CAME = ("lost_rows", "missing_nulls")
CAME_WRONGLY = ("phantom_rows", "nulls_for_matched_rows", "premature_nulls")


@dataclass
class PredictedBug:
    """``spark`` is the version that runs. ``is_trusted`` turns false once a trial planned other batches."""

    signature: BugSignature
    spark: str
    is_trusted: bool = field(default=True, init=False)

    @property
    def knows_all(self) -> bool:
        """Whether it says of any case if the bug will be there: of a known defect."""
        return self.signature.defect is not None and self.signature.property in (*NEVER_CAME, *CAME_WRONGLY)

    def may_show(self, candidate: Shrinkable) -> bool:
        """Whether a candidate can show the bug, as far as it is known."""
        if not self.is_trusted or candidate.faults:
            return True
        return self.shows(candidate.case) is not False

    def shows(self, case: Case) -> bool | None:
        """Whether the run of a case will show the bug; ``None``: nobody knows."""
        if self.signature.property not in (*NEVER_CAME, *CAME_WRONGLY):
            return None
        try:
            history = predicted_history(case, self.spark)
            if history is None:
                return None
            answer = ask(history)
        except (TidemarkError, ValueError, TypeError):
            return None
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

    def _about(self, history: History, identity: int) -> str:
        """What a finding of this row would be about, in the words of a signature."""
        behind = OF_A_SENTINEL if history.is_of_sentinel(identity) else ""
        if right_of(identity) is not None:
            return f"a pair{behind}"
        if history.contract.output.right_id is None:
            return f"a semi row{behind}"
        side = "left" if history.rows.side[first_of(identity)] == LEFT else "right"
        return f"a NULL row of the {side} side{behind}"
