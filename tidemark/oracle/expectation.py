"""What had to come out of a run of one join, by SQL: with Spark's rules, or without where nobody modelled the Spark.

Free of I/O. A Spark before 4.2, whose own rules are not modelled, is judged by what SQL says is right, and its output.
Which rows were late is then taken from the watermarks in the checkpoint, so those are not judged; nor is the batch in
which a row comes. The output as a whole is: every right row once, and no other. That a NULL row came too early shows
only where it is wrong for good, because the row has a partner after all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.compare.join_comparison import Defects
from tidemark.oracle.input.history import NO_BATCH, ROW_BITS, ROW_MASK, History
from tidemark.oracle.input.output_rows import OutputReader
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.spark.known_defects import has_defect
from tidemark.oracle.sql.join_answer import SqlAnswer, ask


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
        matched=matched_rows(history, np.array([*right, *owed], dtype=np.int64)),
        stored=never,
        removed=never[:],
    )
    came, last = _first_batches(history, output, right), len(history.batches) - 1
    for identity in sorted(right | owed):
        due = len(committed.batches) - 1 if identity in owed else last
        prediction.batch_of[identity] = came.get(identity, due)
    return prediction, _defects(history, prediction, (defects_of(answer), defects_of(owing)), came)


def matched_rows(history: History, identities: np.ndarray) -> bytearray:
    """Per input row, whether one of these output rows stands for a match of it: a pair, or a semi row."""
    matched = np.zeros(len(history.rows), dtype=np.uint8)
    right = (identities & ROW_MASK) - 1
    is_pair = right >= 0
    is_match = is_pair | (history.contract.output.right_id is None)
    matched[right[is_pair]] = 1
    matched[identities[is_match] >> ROW_BITS] = 1
    return bytearray(matched.tobytes())


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
