"""Verdicts by one oracle of a join alone: by the model, or by SQL."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

from tidemark.oracle import Evidence, judge
from tidemark.oracle.expectation import matched_rows
from tidemark.oracle.input.history import History
from tidemark.oracle.model.join_replay import Prediction, predict
from tidemark.oracle.sql.join_answer import SqlAnswer, ask

JUDGEMENT = "tidemark.oracle.judgement"


@contextmanager
def sql_alone() -> Iterator[None]:
    """What SQL says is in the place of what the model predicts."""
    with mock.patch(f"{JUDGEMENT}.predict", lambda history: prediction_of(history, ask(history))):
        yield


@contextmanager
def model_alone() -> Iterator[None]:
    """What the model predicts is in the place of what SQL says; so no known defect has a name."""
    with mock.patch(f"{JUDGEMENT}.ask", lambda history: answer_of(predict(history))):
        yield


def either_finds(run: Evidence, expected: str) -> None:
    """Assert that each oracle finds alone what is wrong with a run."""
    for alone in (sql_alone, model_alone):
        with alone():
            totals = judge(run).findings_total
        assert expected in totals, f"{alone.__name__}: {totals}"


def prediction_of(history: History, answer: SqlAnswer) -> Prediction:
    """What SQL says, as the model would put it."""
    batch_of = dict(
        zip(answer.identity[answer.comes].tolist(), answer.batch[answer.comes].tolist(), strict=True)
    )
    return Prediction(
        batch_of=batch_of,
        watermarks_ms=answer.watermarks_ms,
        disposition=bytearray(answer.disposition.tobytes()),
        matched=matched_rows(history, batch_of),
        stored=array("i", answer.stored.tolist()),
        removed=array("i", answer.removed.tolist()),
    )


def answer_of(prediction: Prediction) -> SqlAnswer:
    """What the model predicts, as SQL would put it: all that comes is right."""
    rows = len(prediction.batch_of)
    return SqlAnswer(
        watermarks_ms=prediction.watermarks_ms,
        disposition=np.frombuffer(bytes(prediction.disposition), dtype=np.uint8),
        identity=np.fromiter(prediction.batch_of.keys(), dtype=np.int64, count=rows),
        batch=np.fromiter(prediction.batch_of.values(), dtype=np.int64, count=rows),
        is_right=np.ones(rows, dtype=bool),
        comes=np.ones(rows, dtype=bool),
        defect=np.full(rows, None, dtype=object),
        stored=np.array(prediction.stored, dtype=np.int32),
        removed=np.array(prediction.removed, dtype=np.int32),
    )
