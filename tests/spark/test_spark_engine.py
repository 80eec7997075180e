"""A large run that Spark reduces has the verdict of one that DuckDB reduces, and the same is handed on."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bench._large_evidence import make_large_run
from tests.golden.judging import EVIDENCE
from tests.unit.oracle.test_large import FEW_ROWS, drawn, facts, with_damaged_state, write
from tidemark.cli import app
from tidemark.errors import EXIT_TESTBED, TidemarkError
from tidemark.formats.evidence import OutputRecord, RunDirectory
from tidemark.formats.seal import seal
from tidemark.formats.storage import store_run
from tidemark.oracle import judge
from tidemark.oracle import judgement as judging
from tidemark.oracle.input.rest import Rest
from tidemark.oracle.large import reduction
from tidemark.oracle.large.duckdb_engine import duckdb_engine
from tidemark.oracle.large.engine import OpenEngine
from tidemark.sparksql.spark_reduction import engine_of

pytestmark = [pytest.mark.e2e]

MORE_SEEDS = (1004, *range(10, 20), *range(2000, 2010))
SEEDS = [3, *(pytest.param(seed, marks=pytest.mark.long) for seed in MORE_SEEDS)]
A_PAIR, A_NULL_ROW = 10, 700
"""Places of such records in the output of the large run."""


@pytest.fixture(autouse=True)
def reduced_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run is large, and so few rows are a sample that most are left out."""
    monkeypatch.setattr(reduction, "SAMPLE_ROWS", FEW_ROWS)
    monkeypatch.setattr(judging, "reduced", partial(reduction.reduced, large=-1))


@pytest.fixture(scope="module")
def on_spark(session: Any) -> OpenEngine:
    return engine_of(session)


@pytest.fixture
def folder(seen_by_spark: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=seen_by_spark))


def in_parquet(path: Path) -> RunDirectory:
    store_run(path, "parquet")
    return RunDirectory(path)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_run_has_the_same_verdict_on_both_engines(
    seed: int, on_spark: OpenEngine, folder: Path
) -> None:
    rng = random.Random(f"engine {seed}")
    write(drawn(seed, rng), folder, rng)
    run = in_parquet(folder)
    try:
        wanted = facts(judge(run, engine=duckdb_engine))
    except TidemarkError:
        pytest.skip("this run cannot be judged")

    found = facts(judge(run, engine=on_spark))

    assert found == wanted


@pytest.mark.long
@pytest.mark.parametrize("damage", ["lost", "flag", "side"])
def test_a_run_with_a_wrong_state_has_the_same_verdict_on_both_engines(
    damage: str, on_spark: OpenEngine, folder: Path
) -> None:
    run = RunDirectory(shutil.copytree(EVIDENCE / "full_outer", folder / "run"))
    with_damaged_state(run, damage)
    run = in_parquet(run.path)

    wanted = judge(run, engine=duckdb_engine)
    found = judge(run, engine=on_spark)

    assert facts(found) == facts(wanted)
    assert found.verdict == "INVALID"


@pytest.fixture(scope="module")
def large_run(seen_by_spark: Path) -> RunDirectory:
    run = make_large_run(seen_by_spark / "large", 4_000, 5)
    seal(run.path)
    return run


@pytest.mark.long
def test_the_same_records_are_handed_on_with_the_same_numbers_of_the_rest(
    large_run: RunDirectory, on_spark: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "key_names", lambda _history: [])  # no pair for each key: any will do
    wanted = reduction.reduced(large_run, large=-1, opened=duckdb_engine)
    found = reduction.reduced(large_run, large=-1, opened=on_spark)

    assert wanted is not None
    assert found is not None
    assert found.inputs() == wanted.inputs()
    assert found.output() == wanted.output()
    assert numbers_of(found.rest) == numbers_of(wanted.rest)
    assert found.rest.rows > 3_900
    assert len(found.inputs()) < 100


def numbers_of(rest: Rest) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        return [plain(one) for one in value] if isinstance(value, tuple | list) else value

    return {field.name: plain(getattr(rest, field.name)) for field in fields(rest)}


Damage = Callable[[list[OutputRecord]], Iterator[OutputRecord]]


def without_a_pair(records: list[OutputRecord]) -> Iterator[OutputRecord]:
    """A lost row."""
    yield from records[:A_PAIR]
    yield from records[A_PAIR + 1 :]


def with_a_pair_twice(records: list[OutputRecord]) -> Iterator[OutputRecord]:
    """A row that came again."""
    yield from records
    yield records[A_PAIR]


def without_a_null_row(records: list[OutputRecord]) -> Iterator[OutputRecord]:
    """A lost NULL row."""
    yield from records[:A_NULL_ROW]
    yield from records[A_NULL_ROW + 1 :]


@pytest.mark.long
@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (without_a_pair, "lost_rows"),
        (with_a_pair_twice, "duplicate_rows"),
        (without_a_null_row, "missing_nulls"),
    ],
)
def test_a_damage_is_the_same_finding_on_both_engines(
    damage: Damage, name: str, large_run: RunDirectory, on_spark: OpenEngine, folder: Path
) -> None:
    run = copy_of(large_run, folder, damage)

    wanted = judge(run, engine=duckdb_engine)
    found = judge(run, engine=on_spark)

    assert facts(found) == facts(wanted)
    assert (found.verdict, found.findings_total) == ("INVALID", {name: 1})


def copy_of(run: RunDirectory, path: Path, damage: Damage) -> RunDirectory:
    """The same run with a damaged output, whose offsets have no gaps."""
    import msgspec

    copy = RunDirectory(path)
    for name in ("trace.parquet", "flush.jsonl", "batches.jsonl"):
        (path / name).write_bytes((run.path / name).read_bytes())
    records = [
        msgspec.structs.replace(one, offset=offset) for offset, one in enumerate(damage(list(run.output())))
    ]
    copy.write_lines("output", records)
    manifest = run.manifest
    manifest.records["output"] = len(records)
    copy.write_json("manifest", manifest)
    seal(path)
    return in_parquet(path)


@pytest.mark.long
def test_the_command_takes_the_driver_of_the_stack(
    stack: Any, large_run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stack.spec.backend == "compose":
        pytest.skip("a driver in a container does not see this machine's files, and is not taken")
    opened: list[Any] = []
    from tidemark.sparksql import spark_sessions

    monkeypatch.setattr(spark_sessions, "current", lambda: opened.append(stack) or stack)

    done = CliRunner().invoke(app, ["check", str(large_run.path), "--engine", "spark"])

    assert done.exit_code == 0, str(done.exception)
    assert "VALID" in done.output
    assert opened == [stack]


def test_what_fails_on_spark_is_an_error_that_says_so(
    large_run: RunDirectory, stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tidemark.sparksql.spark_reduction._settings",
        lambda _records: {"spark.sql.shuffle.partitions": "none"},
    )

    remote = stack.driver().remote
    done = CliRunner().invoke(
        app, ["check", str(large_run.path), "--engine", "spark", "--spark-master", remote]
    )

    assert done.exit_code == 1 or isinstance(done.exception, TidemarkError)
    assert isinstance(done.exception, TidemarkError)
    assert done.exception.exit_code == EXIT_TESTBED
    assert "Spark failed" in str(done.exception)
