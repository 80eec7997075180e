"""The sample of keys that the model judges of a large run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.unit.oracle.histories import Run
from tidemark.oracle import judgement as judging
from tidemark.oracle.findings import FindingLog
from tidemark.oracle.input.history import History, read_history
from tidemark.oracle.model.join_replay import replay
from tidemark.oracle.model.sample import choose
from tidemark.oracle.oracle_comparison import OracleComparison
from tidemark.oracle.sql.join_answer import SqlAnswer, ask

KEYS = 40
BUSY = 12


def run() -> Run:
    """Forty keys with two rows each, and one with twelve on each side."""
    made = Run("left_outer")
    for batch in range(4):
        now = 10 + 20 * batch
        of_batch = range(batch, KEYS, 4)
        lefts = [f"i{key} k{key} {now}" for key in of_batch] + [
            f"b{batch}{n} busy {now}" for n in range(BUSY // 4)
        ]
        rights = [f"c{key} k{key} {now + 1}" for key in of_batch if key % 2]
        rights += [f"d{batch}{n} busy {now}" for n in range(BUSY // 4)]
        made.batch(", ".join(lefts), ", ".join(rights))
    return made.flush()


def history_of(seed: int = 0) -> History:
    history = read_history(run())
    history.manifest.seed = seed
    return history


def test_a_small_run_is_judged_whole() -> None:
    sample = choose(history_of())
    assert sample.rows.all()
    assert sample.about is None


def test_a_sample_has_whole_keys_and_no_more_rows_than_it_may() -> None:
    history = history_of()
    sample = choose(history, rows=30)
    key = np.array(history.rows.key)
    assert 0 < sample.rows.sum() <= 30
    assert not set(key[sample.rows].tolist()) & set(key[~sample.rows].tolist())
    about = sample.about
    assert about is not None
    assert (about.rows, about.of_rows) == (sample.rows.sum(), len(history.rows))
    assert (about.keys, about.of_keys) == (len(set(key[sample.rows].tolist())), len(set(key.tolist())))


def test_a_key_with_very_many_rows_makes_room_for_the_others() -> None:
    history = history_of()
    sample = choose(history, pairs=100)
    busy = [row for row in range(len(history.rows)) if history.key_of(row) == ("busy",)]
    assert len(busy) == 2 * BUSY
    assert not sample.rows[busy].any()
    assert sample.rows.sum() == len(history.rows) - len(busy)


def test_a_sample_is_the_same_for_one_seed_and_another_for_another() -> None:
    drawn = [choose(history_of(seed), rows=30).rows.tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("rows", [0, 30])
def test_the_watermarks_are_those_of_all_rows(rows: int) -> None:
    history = history_of()
    assert replay(history, choose(history, rows=rows)).watermarks_ms == ask(history).watermarks_ms


def differences(history: History, answer: SqlAnswer) -> int:
    finding_log = FindingLog()
    OracleComparison(history, answer, replay(history, choose(history, rows=30)), finding_log).run()
    return sum(finding_log.totals().values())


@pytest.mark.parametrize("is_sampled", [True, False])
def test_a_difference_is_found_in_the_sample_and_nowhere_else(is_sampled: bool) -> None:
    history = history_of()
    answer, sample = ask(history), choose(history, rows=30).rows
    assert differences(history, answer) == 0
    at = next(at for at in range(len(sample)) if sample[at] == is_sampled and history.rows.side[at] == 0)
    disposition = answer.disposition.copy()
    disposition[at] = 3
    assert differences(history, replace(answer, disposition=disposition)) == is_sampled
    stored = answer.stored.copy()
    stored[at] += 1
    assert differences(history, replace(answer, stored=stored)) == is_sampled
    row = int(np.flatnonzero(answer.identity >> 32 == at)[0])
    batch = answer.batch.copy()
    batch[row] += 1
    assert differences(history, replace(answer, batch=batch)) == is_sampled


def test_the_verdict_says_how_much_the_model_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    made = run()
    assert made.verdict().modelled is None
    monkeypatch.setattr(judging, "choose", partial(choose, rows=30))
    modelled = made.verdict().modelled
    assert modelled is not None
    assert 0 < modelled.rows <= 30
    assert modelled.of_rows == len(read_history(made).rows)
