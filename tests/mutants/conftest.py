"""What the mutants' tests share: the score, and one sound run of each join."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import stack_to_harm
from tests.mutants.mutants import NO_NULL_KEYS, ON_TIME
from tests.mutants.score import EVIDENCE, PROPERTY, Line
from tests.support.bundled import case_of, make_trace
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.formats.evidence import RunDirectory
from tidemark.runner import RunOptions, RunResult, describe, new_run_directory, run
from tidemark.stack import Stack, StackSpec, spec_to_lease


@pytest.fixture
def score(request: pytest.FixtureRequest) -> Callable[[Line, RunDirectory], None]:
    """A function that leaves a line of the score in this test's report, and where the evidence of it is."""

    def leave(line: Line, run: RunDirectory) -> None:
        place = line.place, line.name, line.join, str(run.path)
        request.node.user_properties.extend([(PROPERTY, tuple(line)), (EVIDENCE, place)])

    return leave


@pytest.fixture(scope="module")
def recorded(
    warm: WarmDriver, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, bool, str], RunDirectory]:
    """A function that runs a bundled join as it is, once, and gives its evidence; nothing is wrong with it.

    ``late``: some of its rows are late.
    """
    known: dict[tuple[str, bool, str], RunDirectory] = {}

    def record(join: str, late: bool, pace: str = "stepped") -> RunDirectory:
        if (join, late, pace) not in known:
            on_time = NO_NULL_KEYS if join == "full_outer" else ON_TIME
            generator = (("--null-keys", "0") if join == "full_outer" else ()) if late else on_time
            folder = tmp_path_factory.mktemp("sound")
            case = case_of(join, make_trace(folder / "trace.jsonl", generator, pace=pace))
            directory = RunDirectory(folder / join)
            verdict = warm.run(case, directory.path)
            assert verdict.verdict == "VALID", verdict
            known[join, late, pace] = directory
        return known[join, late, pace]

    return record


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[Stack]:
    """A stack of three brokers, for mutants that are wrong when another broker takes over."""
    with stack_to_harm("replicated", StackSpec(backend=spec_to_lease().backend, brokers=3)) as stack:
        yield stack


@pytest.fixture
def run_on_three_brokers(three_brokers: Stack, tmp_path: Path) -> Callable[..., RunResult]:
    """As ``run_pipeline``, there."""
    three_brokers.repair()

    def run_one(pipeline: Path, **more: Any) -> RunResult:
        options, contract = (
            RunOptions(str(pipeline), run_dir=tmp_path / "run", **more),
            describe(str(pipeline)),
        )
        return run(options, contract, new_run_directory(options, contract), stack=three_brokers)

    return run_one
