"""The repositories of ``docs/examples``, with tidemark from its wheel: their own tests pass, and each mistake is named.

Each of them has one stack for all that is run in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broken_examples import EXAMPLES
from tests.support.example_repository import ExampleRepository
from tests.support.wheels import build_wheel, environment_with


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    return environment_with(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def repository(
    request: pytest.FixtureRequest, environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ExampleRepository]:
    folder = tmp_path_factory.mktemp("examples") / request.param
    made = ExampleRepository(EXAMPLES[request.param], folder, environment)
    with made.stack():
        yield made


@pytest.mark.long
@pytest.mark.parametrize("repository", EXAMPLES, indirect=True)
def test_its_own_tests_pass(repository: ExampleRepository) -> None:
    assert repository.problem_with_tests() == ""


@pytest.mark.long
@pytest.mark.parametrize(
    ("repository", "what"),
    [(name, what) for name, example in EXAMPLES.items() for what in example.breaks],
    indirect=["repository"],
)
def test_the_first_line_about_a_mistake_says_what_to_change(repository: ExampleRepository, what: str) -> None:
    assert repository.problem_with(repository.example.breaks[what]) == ""
