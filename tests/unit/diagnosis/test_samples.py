"""Of a large run some keys are asked about: one of wrong rows is always among them, however many rows it has."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.diagnosis.other_deliveries import HOUR_MS, diagnosed, events, promise
from tests.unit.oracle.other_query import run_of
from tidemark.diagnosis import asking
from tidemark.diagnosis.asking import Answer, Asker
from tidemark.formats.contract import Bound

HALF = Bound(-HOUR_MS // 2, 0)
USERS = 14
"""The keys of ``events``: the twelve users, and those of the end."""


@pytest.fixture(params=[2, 40, 100], ids=["each key too large", "some keys fit", "more keys fit"])
def rows(request, monkeypatch):
    """So many rows are sampled, of runs that are too large to ask about all."""
    monkeypatch.setattr(asking, "WHOLE", 50)
    monkeypatch.setattr(asking, "SAMPLED", request.param)
    return request.param


def asker_of_half_a_bound():
    run = run_of(promise(bound=HALF), *events())
    run.contract = promise()
    return Asker(run)


def test_the_change_is_named_and_nothing_else_is_said_to_be_wrong(rows):
    found = diagnosed(promise(bound=HALF), promise())

    assert ["lower_ms=-1800000"] in [one.changes for one in found.explanations], found
    assert found.notes == []


def test_wrong_rows_and_right_ones_are_in_the_sample(rows):
    asker = asker_of_half_a_bound()

    sampled, of_keys = asker.sampled
    assert (sampled >= 1, of_keys) == (True, USERS)
    assert asker.promised.wrong
    assert not asker.promised.explains
    assert asker.promised.replayed.sample.rows.sum() < len(asker.base.rows)


def test_of_a_large_run_the_rows_that_differ_are_those_of_the_model():
    asker = asker_of_half_a_bound()
    differ = {
        row for one, _ in (*asker.promised.missing, *asker.promised.extra) for row in asking.made_of(one)
    }

    assert asker.sampled is None
    assert asker._rows_that_differ(asker.promised.setting).tolist() == sorted(differ)


def test_an_answer_about_no_wrong_row_explains_nothing(monkeypatch, rows):
    asker = asker_of_half_a_bound()
    count = len(asker.base.rows)
    wrong = np.zeros(count, dtype=bool)
    wrong[asker._wrong_rows] = True
    of_wrong_keys = np.isin(asker.base.rows.key, np.array(asker.base.rows.key)[wrong])
    monkeypatch.setattr(asker, "_sample", lambda _: asking.Sample(~of_wrong_keys))

    answer = asker._answer(asker.promised.setting)

    assert isinstance(answer, Answer)
    assert (answer.watermarks_fit, answer.wrong) == (True, 0)
    assert not answer.explains


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ([3_000] * 8, [0]),
        ([3_000, 2_600, 2_900], [1]),
        ([3_000, 2_000, 400, 400], [1, 2]),
        ([2_500], [0]),
        ([], []),
    ],
)
def test_keys_that_fit_are_chosen_and_else_the_smallest(sizes, chosen):
    drawn = np.arange(len(sizes))

    assert asking._few(drawn, np.array(sizes, dtype=np.int64)).tolist() == chosen
