"""What a case asks of a Spark that has not all there is: state formats, and the exactly-once sink."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidemark.campaigns.random_cases import generate
from tidemark.campaigns.state_stores import SPARKS_OWN, STATES, as_known_to, named, states_of
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.stack import StackSpec

CASE = replace(generate(1), conf={**STATES["RocksDB, 4, changelog"], "other": "1"}, sink="exactly-once")


@pytest.mark.parametrize(
    ("spark", "unknown"),
    [
        ("3.5.7", {"HDFS, 3", "RocksDB, 3", "RocksDB, 4", "RocksDB, 4, changelog"}),
        ("4.0.5", {"HDFS, 3", "RocksDB, 3", "RocksDB, 4", "RocksDB, 4, changelog"}),
        ("4.1.4", {"RocksDB, 4", "RocksDB, 4, changelog"}),
        ("4.2.0", set()),
        ("4.10.0", set()),
        ("", set()),
    ],
)
def test_a_spark_is_asked_for_the_state_formats_that_it_has(spark: str, unknown: set[str]) -> None:
    assert set(STATES) - set(states_of(spark)) == unknown
    assert SPARKS_OWN in states_of(spark)


@pytest.mark.parametrize("state", STATES)
def test_where_a_format_is_left_out_store_and_changelog_stay(state: str) -> None:
    store, _, *changelog = state.split(", ")
    assert named(as_known_to("4.0.5", STATES[state])) == ", ".join((store, "2", *changelog))


def warm(version: str, python: Path, folder: Path) -> WarmDriver:
    stack = SimpleNamespace(spec=replace(StackSpec(), python=python), versions={"spark": version})
    return WarmDriver(stack, SimpleNamespace(), folder)  # type: ignore[arg-type]


def test_another_interpreter_has_spark_s_own_sink(tmp_path: Path) -> None:
    found = warm("4.1.4", tmp_path / "python", tmp_path).as_possible(CASE)
    assert (found.sink, named(found.conf), found.conf["other"]) == ("spark", "RocksDB, 2, changelog", "1")
    assert replace(found, sink=CASE.sink, conf=CASE.conf) == CASE


@pytest.mark.parametrize(("spark", "states"), [("3.5.7", 0), ("4.0.5", 2), ("4.2.0", 2), ("", 2)])
def test_a_state_is_read_where_spark_can_read_it(spark: str, states: int, tmp_path: Path) -> None:
    assert warm(spark, StackSpec.python, tmp_path).as_possible(replace(CASE, states=2)).states == states


def test_the_harness_s_own_pyspark_runs_a_case_as_it_is(tmp_path: Path) -> None:
    assert warm("4.2.0", StackSpec.python, tmp_path).as_possible(CASE) == CASE
