"""A task of the sink waits at a step if it is asked to, and goes on when it is not any more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tidemark.sink.ledger_checks import Task
from tidemark.sink.task import held_steps
from tidemark.sink.task.held_steps import FOLDER_VARIABLE, StepRequest, holding
from tidemark.waiting import wait_until

QUERY = "a-query"
SOON_S = 30.0
"""Calibration: a task looks every 5 ms."""


def task(partition=0, batch=4):
    return Task(query=QUERY, run="run", batch=batch, partition=partition, attempt=1, partitions=2)


@pytest.fixture
def request_at_begun(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "steps"))
    return StepRequest(tmp_path / "steps", QUERY, 4, "begun")


def test_the_first_task_that_comes_to_the_step_waits_until_the_request_is_withdrawn(request_at_begun):
    request_at_begun.make()
    with ThreadPoolExecutor(1) as other:
        first = other.submit(holding(task(partition=1)), "begun")
        held = wait_until(request_at_begun.held_task, SOON_S, lambda: "a task at the step")
        holding(task(partition=0))("begun")  # the second passes
        was_held = not first.done()
        request_at_begun.withdraw()
        first.result(SOON_S)

    assert was_held
    assert held == {"partition": 1, "attempt": 1, "executor_id": ""}
    assert [*request_at_begun.folder.iterdir()] == []


@pytest.mark.parametrize(("batch", "step"), [(5, "begun"), (4, "committed")])
def test_a_task_of_another_batch_or_at_another_step_passes(batch, step, request_at_begun):
    request_at_begun.make()

    holding(task(batch=batch))(step)

    assert request_at_begun.asked.exists()
    assert request_at_begun.held_task() is None


def test_a_task_whose_request_is_forgotten_goes_on(request_at_begun, monkeypatch):
    monkeypatch.setattr(held_steps, "HELD_S", 0.05)
    request_at_begun.make()

    holding(task())("begun")

    assert request_at_begun.held_task() is not None


def test_where_no_folder_is_named_nothing_is_asked(request_at_begun, monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE)
    request_at_begun.make()

    holding(task())("begun")

    assert request_at_begun.asked.exists()


def test_what_is_not_written_to_its_end_is_no_task(request_at_begun):
    request_at_begun.make()
    request_at_begun.held.write_text('{"partition": 1')

    assert request_at_begun.held_task() is None


def test_a_task_whose_request_was_withdrawn_in_between_goes_on_at_once(request_at_begun, monkeypatch):
    request_at_begun.make()
    rename = held_steps.Path.rename

    def and_withdraw(path, target):
        rename(path, target)
        request_at_begun.withdraw()

    monkeypatch.setattr(held_steps.Path, "rename", and_withdraw)
    holding(task())("begun")

    assert [*request_at_begun.folder.iterdir()] == []
