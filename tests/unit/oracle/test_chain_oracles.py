"""The oracles of a chain against each other on random histories; and a model that breaks a rule, which SQL notices."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.spark.chain_fuzz import read_rows
from tests.spark.chain_traces import SHAPES, History, make_history
from tests.support.tiers import every_day
from tests.unit.oracle.chain_runs import ChainRun
from tidemark.formats.evidence import Batch
from tidemark.oracle.chain_judgement import (
    CHAIN_DEFECTS,
    defects_of_chain,
    differences_of,
    predict,
    rules_of,
    rules_of_run,
)
from tidemark.oracle.input.chain_history import ChainBatchRows, ChainHistory
from tidemark.oracle.input.rows import Row
from tidemark.oracle.model.chain_replay import Model
from tidemark.oracle.model.operators import (
    AggregateOperator,
    DeduplicateOperator,
    JoinOperator,
    LimitOperator,
)
from tidemark.oracle.spark.spark_versions import rules_of_spark
from tidemark.oracle.sql import chain_answer
from tidemark.oracle.sql.chain_answer import ask_chain

pytestmark = [pytest.mark.not_smoke]


@pytest.mark.parametrize("spark", every_day(["3.5.7", "4.1.4"], ["3.5.7"]))
@pytest.mark.parametrize("shape", SHAPES)
def test_sql_gives_what_the_rules_of_an_older_spark_give(shape, spark):
    for seed in range(4):
        told = told_history(make_history(Random(f"older-{seed}"), shape))
        told.manifest.versions = {"spark": spark}
        predicted = predict(told, rules_of_run(told.manifest.versions))
        answer = ask_chain(told, predicted.model.choices(), defects_of_chain(told.manifest.versions))
        assert list(differences_of(told.chain, predicted, answer)) == []


@pytest.mark.parametrize("defects", [(), CHAIN_DEFECTS], ids=["sound", "4.2"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sql_gives_what_the_rules_give(shape, defects):
    for seed in range(4):
        sql_says_the_same(make_history(Random(f"oracles-{seed}"), shape), defects)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "join" in shape])
def test_sql_says_the_same_where_keys_are_popular(shape, monkeypatch):
    monkeypatch.setattr(chain_answer, "FEW_ROWS", 0)
    monkeypatch.setattr(chain_answer, "POPULAR", 1)
    for seed in range(4):
        sql_says_the_same(make_history(Random(f"popular-{seed}"), shape), CHAIN_DEFECTS)


def sql_says_the_same(history: History, defects: Sequence[str]) -> None:
    """Assert that the oracles say the same of a history."""
    assert disagreements(history, defects) == []


def late_too_soon(patch):
    """Rows are late by the watermark of their own batch."""
    process = AggregateOperator.process
    patch.setattr(
        AggregateOperator,
        "process",
        lambda self, inputs, _late_ms, own_ms: process(self, inputs, own_ms, own_ms),
    )


def watermark_passes_a_join(patch):
    """A join hands on the watermark that it gets."""
    patch.setattr(JoinOperator, "output_ms", lambda self, input_ms: input_ms if self.step.time else None)


def restart_changes_nothing(patch):
    """A restarted query knows what each source has shown."""
    patch.setattr(Model, "restart", lambda _model: None)


def copies_forgotten_at_once(patch):
    """The entry of a deduplication is due in its own batch."""
    patch.setattr(DeduplicateOperator, "_due_us", lambda _machine, _row: 0)


def evicted_a_batch_later(patch):
    """A join evicts by the watermark of the batch before."""
    process = JoinOperator.process
    patch.setattr(
        JoinOperator,
        "process",
        lambda self, inputs, before_ms, _own_ms: process(self, inputs, before_ms, before_ms),
    )


def limit_forgets(patch):
    """A limit counts anew in each batch."""
    process = LimitOperator.process

    def processed(self, *args):
        self.left = self.step.rows
        return process(self, *args)

    patch.setattr(LimitOperator, "process", processed)


MUTANTS = {
    late_too_soon: "aggregate",
    watermark_passes_a_join: "join_then_aggregate",
    restart_changes_nothing: "join_of_join",
    copies_forgotten_at_once: "deduplicate",
    evicted_a_batch_later: "windows_joined",
    limit_forgets: "limit",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_model_that_breaks_a_rule_disagrees_with_sql(mutant, monkeypatch):
    histories = [make_history(Random(f"oracles-{seed}"), MUTANTS[mutant]) for seed in range(60)]
    mutant(monkeypatch)
    assert any(disagreements(history, CHAIN_DEFECTS) for history in histories)


def disagreements(history: History, defects: Sequence[str]) -> list[str]:
    """What SQL says of a random history that the model does not."""
    told = told_history(history)
    predicted = predict(told, rules_of(defects, rules_of_spark(told.manifest.versions)))
    answer = ask_chain(told, predicted.model.choices(), defects)
    return list(differences_of(told.chain, predicted, answer))


def told_history(history: History) -> ChainHistory:
    """A random history as a run would tell it; behind each phase is a batch without data."""
    told = ChainHistory(history.chain, ChainRun(history.chain).manifest)
    ends = dict.fromkeys(history.chain.topics, 0)
    for phase in history.phases:
        for number, rows in enumerate([*phase.batches, []]):
            read: list[list[Row]] = [[] for _ in history.chain.sources]
            for row in rows:
                told.places.append((row["topic"], 0, ends[row["topic"]]))
                ends[row["topic"]] += 1
                for one, mine in zip(history.chain.sources, read, strict=True):
                    made_of = frozenset([len(told.places) - 1])
                    mine += [Row(kept.values, made_of) for kept in read_rows(one, [row])]
            plan = Batch(
                batch=len(told.batches), watermark_ms=0, restarted=phase.restart and number == 0,
                end_offsets={topic: {"0": end} for topic, end in ends.items()},
            )  # fmt: skip
            told.batches.append(ChainBatchRows(plan, read))
    return told
