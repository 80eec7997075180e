"""The command of a run reproduces it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.oracle.histories import contract
from tidemark.errors import UsageError
from tidemark.runner import RunOptions, new_run_directory
from tidemark.runner.one_run import _must_be_possible, accepting, slices_for_faults
from tidemark.runner.run_options import PARQUET_RECORDS, options_of
from tidemark.stack import StackSpec


def test_the_command_of_a_run_has_every_option_that_affects_it(tmp_path):
    generated = RunOptions("inner", seed=4, impressions=99, pace="backlog", generator=("--slices", "4"))
    replayed = RunOptions(
        "inner", seed=4, trace=tmp_path / "t.jsonl", faults="executor*2,driver@written", sink="spark"
    )

    assert generated.command() == (
        "tidemark run inner --seed 4 --impressions 99 --generate '--slices 4' --pace backlog"
    )
    assert replayed.command() == (
        f"tidemark run inner --seed 4 --trace {tmp_path}/t.jsonl --sink spark --faults 'executor*2,driver@written'"
    )


@pytest.mark.parametrize(
    ("faults", "generator", "words"),
    [
        ("", (), []),
        ("driver*2,broker", (), ["--slices", "6"]),
        ("driver*4", (), ["--slices", "8"]),
        ("driver*4", ("--slices", "5"), []),
        ("driver*4", ("--slices=5",), []),
        ("driver*4", ("--events-per-second", "5"), []),
        ("driver*4", ("--events-per-second=5",), []),
    ],
)
def test_a_trace_has_slices_for_each_fault_unless_its_options_say_how_many(faults, generator, words):
    assert slices_for_faults(RunOptions("inner", faults=faults, generator=generator)) == words


@pytest.mark.parametrize(
    ("within_s", "faults", "hung_after_s", "given_up_after_s"),
    [
        (None, "", 300, 300), (20, "", 300, 300), (250, "", 300, 310), (600, "", 300, 660), (600, "", 900, 900),
        (None, "broker:pause", 30, 30), (None, "broker:pause~250", 300, 310), (20, "driver,broker:pause~400", 300, 460),
        (500, "broker:pause@planned~400+executor@planned", 300, 560),
    ],
)  # fmt: skip
def test_a_query_is_not_given_up_while_a_fault_lasts_nor_before_it_broke_a_recovery_that_is_demanded(
    within_s, faults, hung_after_s, given_up_after_s
):
    options = RunOptions("inner", recover_within_s=within_s, faults=faults, hung_after_s=hung_after_s)
    assert options.given_up_after_s == given_up_after_s


def test_the_format_of_the_evidence_is_in_the_command_and_goes_by_the_number_of_records():
    asked = RunOptions("inner", evidence_format="parquet")

    assert asked.command().endswith("--evidence-format parquet")
    assert asked.storage_of(0) == "parquet"
    assert RunOptions("inner").storage_of(PARQUET_RECORDS) == "jsonl"
    assert RunOptions("inner").storage_of(PARQUET_RECORDS + 1) == "parquet"
    assert RunOptions("inner", evidence_format="jsonl").storage_of(10**9) == "jsonl"
    with pytest.raises(UsageError, match="'csv' is no format of evidence"):
        RunOptions("inner", evidence_format="csv").storage_of(0)


def test_what_is_accepted_is_in_the_command():
    options = RunOptions("inner", accept=("one-sided-watermark", "full-outer-joins-null-keys"))
    assert options.command().endswith("--accept one-sided-watermark --accept full-outer-joins-null-keys")


@pytest.mark.parametrize("pipeline", ["inner", "mine.py"])
def test_a_setting_that_deletes_batches_of_the_checkpoint_is_refused(pipeline):
    conf = ["spark.sql.shuffle.partitions=4", "spark.sql.streaming.minBatchesToRetain=2"]
    with pytest.raises(UsageError, match="a run cannot have the setting spark") as refused:
        options_of(pipeline, {"conf": conf})
    assert "leave out --conf spark.sql.streaming.minBatchesToRetain=2" in refused.value.hint
    assert options_of(pipeline, {"conf": conf[:1]}).conf == ("spark.sql.shuffle.partitions=4",)


def test_any_setting_of_a_job_is_refused_as_an_option_that_it_does_not_get():
    conf = ("spark.sql.streaming.minBatchesToRetain=2",)
    options = RunOptions("c.json", app="python job.py {output}", sink="own", conf=conf)
    with pytest.raises(UsageError, match="--app is given, and conf, which a job does not get"):
        _must_be_possible(options, StackSpec("local"))


def test_python_callers_give_paths_as_text_and_any_sequence():
    options = options_of(
        Path("a.py"), {"run_dir": "runs/a", "conf": ["x=1"], "accept": "one-sided-watermark"}
    )
    assert options == RunOptions(
        "a.py", run_dir=Path("runs/a"), conf=("x=1",), accept=("one-sided-watermark",)
    )
    with pytest.raises(TypeError, match="sedd"):
        options_of("a.py", {"sedd": 1})


def test_the_contract_of_a_run_has_what_the_options_accept(tmp_path):
    own = contract("inner", accept=("one-sided-watermark",))
    options = RunOptions("inner", accept=("full-outer-joins-null-keys",), run_dir=tmp_path / "run")
    wanted = ("one-sided-watermark", "full-outer-joins-null-keys")
    assert accepting(own, options.accept).accept == wanted
    assert accepting(accepting(own, options.accept), options.accept).accept == wanted
    new_run_directory(options, own)
    assert '"full-outer-joins-null-keys"' in (tmp_path / "run" / "contract.json").read_text()


def test_an_unknown_defect_is_refused_before_the_directory_is_made(tmp_path):
    options = RunOptions("inner", accept=("nonsense",), run_dir=tmp_path / "run")
    with pytest.raises(UsageError, match="no known defect 'nonsense'"):
        new_run_directory(options, contract("inner"))
    assert not (tmp_path / "run").exists()
