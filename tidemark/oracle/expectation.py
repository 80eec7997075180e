"""What had to come out of a run of one join, by SQL: the rows of each batch, and what known defects change in them.

Free of I/O.
"""

from __future__ import annotations

from array import array

import numpy as np

from tidemark.oracle.compare.join_comparison import Defects
from tidemark.oracle.input.history import ROW_BITS, ROW_MASK, History
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.sql.join_answer import SqlAnswer


def prediction_of(history: History, answer: SqlAnswer) -> Prediction:
    """What this Spark must do, by SQL: its output rows by batch, those of one batch by what they are made of."""
    identities, batches = answer.identity[answer.comes], answer.batch[answer.comes]
    order = np.lexsort((identities, batches))
    identities = identities[order]
    return Prediction(
        batch_of=dict(zip(identities.tolist(), batches[order].tolist(), strict=True)),
        watermarks_ms=answer.watermarks_ms,
        disposition=bytearray(answer.disposition.tobytes()),
        matched=matched_rows(history, identities),
        stored=array("i", answer.stored.astype(np.int32).tobytes()),
        removed=array("i", answer.removed.astype(np.int32).tobytes()),
    )


def defects_of(answer: SqlAnswer) -> Defects:
    """What known defects of Spark change, by SQL."""
    defects = Defects()
    differ = np.flatnonzero(answer.is_right != answer.comes)
    for at in differ.tolist():
        if answer.defect[at] is not None:
            rows = defects.added if answer.comes[at] else defects.lost
            rows[int(answer.identity[at])] = answer.defect[at]
    return defects


def matched_rows(history: History, identities: np.ndarray) -> bytearray:
    """Per input row, whether one of these output rows stands for a match of it: a pair, or a semi row."""
    matched = np.zeros(len(history.rows), dtype=np.uint8)
    right = (identities & ROW_MASK) - 1
    is_pair = right >= 0
    is_match = is_pair | (history.contract.output.right_id is None)
    matched[right[is_pair]] = 1
    matched[identities[is_match] >> ROW_BITS] = 1
    return bytearray(matched.tobytes())
