"""What is expected of a Spark whose row rules nobody has modelled: the declarative answer, and nothing about batches.

Free of I/O. Which rows were late is taken from the watermarks in the checkpoint, so those are not judged; nor is the
batch in which a row comes. The output as a whole is: every right row once, and no other. That a NULL row came too
early shows only where it is wrong for good, because the row has a partner after all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace

from tidemark.formats.evidence import OutputRecord
from tidemark.oracle.compare.join_comparison import Defects
from tidemark.oracle.compare.partners import Partners
from tidemark.oracle.input.history import NO_BATCH, Disposition, History, first_of, right_of
from tidemark.oracle.input.output_rows import OutputReader
from tidemark.oracle.model.join_replay import Prediction
from tidemark.oracle.spark.known_defects import has_defect
from tidemark.oracle.spark.time_ranges import LEFT, RIGHT, US_PER_MS
from tidemark.oracle.sql.join_answer import defect_that_adds, defect_that_loses, right_answer


def expect(history: History, output: Iterable[OutputRecord]) -> tuple[Prediction, Defects]:
    """The right rows, and what known defects of this Spark make of them.

    A row that came is expected in the first batch in which it did; one that did not, in the last committed batch.
    """
    committed = replace(history, batches=[batch for batch in history.batches if batch.plan.committed])
    owed = set(right_answer(committed, _accepted(committed)))
    prediction, last = _accepted(history), len(history.batches) - 1
    # The last batch may give its rows although it was never committed.
    right = owed if len(committed.batches) == len(history.batches) else set(right_answer(history, prediction))
    came = _first_batches(history, output, right)
    for identity in sorted(right):
        due = len(committed.batches) - 1 if identity in owed else last
        prediction.batch_of[identity] = came.get(identity, due)
        prediction.matched[first_of(identity)] |= _is_match(history, identity)
        partner = right_of(identity)
        if partner is not None:
            prediction.matched[partner] = True
    return prediction, _defects(history, prediction, owed, came)


def _accepted(history: History) -> Prediction:
    """The dispositions of all rows, by the watermarks that the checkpoint names."""
    rows = history.rows
    never = array("i", [NO_BATCH]) * len(rows)
    prediction = Prediction(
        disposition=bytearray(rows.disposition), matched=bytearray(len(rows)), stored=never, removed=never[:]
    )
    watermarks_ms = [batch.plan.watermark_ms for batch in history.batches]
    prediction.watermarks_ms = [*watermarks_ms, *(watermarks_ms[-1:] or [0])]
    for batch in history.batches:
        late_us = prediction.late_ms(batch.plan.batch) * US_PER_MS
        for side in (LEFT, RIGHT):
            can_be_late = history.side(side).watermark_delay_ms is not None
            for row in batch.rows[side]:
                if rows.disposition[row] == Disposition.UNREAD:
                    is_late = can_be_late and rows.time_us[row] <= late_us
                    prediction.disposition[row] = Disposition.LATE if is_late else Disposition.ACCEPTED
    return prediction


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


def _is_match(history: History, identity: int) -> bool:
    """Whether an identity stands for a match: a pair, or a semi row."""
    return right_of(identity) is not None or history.contract.output.right_id is None


def _defects(history: History, prediction: Prediction, owed: set[int], came: dict[int, int]) -> Defects:
    """The rows that are missing or too many, and that a known defect of this Spark explains."""
    defects, partners, versions = Defects(), Partners(history), history.manifest.versions
    for identity in sorted(owed - came.keys()):
        name = defect_that_loses(history, prediction, partners, identity)
        if name is not None and has_defect(versions, name):
            defects.lost[identity] = name
            del prediction.batch_of[identity]
    for identity in sorted(came.keys() - prediction.batch_of.keys()):
        name = defect_that_adds(history, prediction, partners, identity)
        if name is not None and has_defect(versions, name):
            defects.added[identity] = name
            prediction.batch_of[identity] = came[identity]
    return defects
