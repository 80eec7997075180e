"""Verdicts by one oracle of a join alone: by the model, or by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

from tidemark.oracle import Evidence, judge
from tidemark.oracle.expectation import prediction_of
from tidemark.oracle.input.history import History
from tidemark.oracle.model.join_replay import Replay, replay
from tidemark.oracle.model.sample import Sample
from tidemark.oracle.prediction import Prediction
from tidemark.oracle.sql.join_answer import SqlAnswer, ask

JUDGEMENT = "tidemark.oracle.judgement"


@contextmanager
def sql_alone() -> Iterator[None]:
    """SQL says what had to come; the model is not asked."""
    with mock.patch(f"{JUDGEMENT}.replay", lambda history, _sample: nothing(history)):
        yield


@contextmanager
def model_alone() -> Iterator[None]:
    """What the model gives is in the place of what SQL says; so no known defect has a name."""
    with mock.patch(f"{JUDGEMENT}.ask", lambda history: answer_of(everything(history))):
        yield


def either_finds(run: Evidence, expected: str) -> None:
    """Assert that each oracle finds alone what is wrong with a run."""
    for alone in (sql_alone, model_alone):
        with alone():
            totals = judge(run).findings_total
        assert expected in totals, f"{alone.__name__}: {totals}"


def everything(history: History) -> Replay:
    """A replay of all rows, however many there are."""
    return replay(history, Sample(np.ones(len(history.rows), dtype=bool)))


def nothing(history: History) -> Replay:
    """A replay of no row, with the watermarks that SQL gives."""
    empty = replay(history, Sample(np.zeros(len(history.rows), dtype=bool)))
    empty.watermarks_ms = ask(history).watermarks_ms
    return empty


def modelled(history: History) -> Prediction:
    """What has to come by the model."""
    return prediction_of(history, answer_of(everything(history)))


def answer_of(found: Replay) -> SqlAnswer:
    """What the model gives, as SQL would put it: all that comes is right."""
    rows = len(found.batch_of)
    return SqlAnswer(
        watermarks_ms=found.watermarks_ms,
        disposition=found.disposition,
        identity=np.fromiter(found.batch_of.keys(), dtype=np.int64, count=rows),
        batch=np.fromiter(found.batch_of.values(), dtype=np.int64, count=rows),
        is_right=np.ones(rows, dtype=bool),
        comes=np.ones(rows, dtype=bool),
        defect=np.full(rows, None, dtype=object),
        stored=found.stored,
        removed=found.removed,
    )
