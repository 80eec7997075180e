"""The repositories of ``docs/examples``, with tidemark from its wheel: their own tests pass, and each mistake is named.

Each of them has one stack for all that is run in it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken_examples import EXAMPLES
from tests.support.example_repository import ExampleRepository
from tests.support.wheels import build_wheel, environment_with


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    return environment_with(wheel, tmp_path_factory.mktemp("environment"))


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
def test_its_tests_pass_and_the_first_line_about_each_mistake_says_what_to_change(
    name, environment, tmp_path
):
    example = EXAMPLES[name]
    repository = ExampleRepository(example, tmp_path / name, environment)
    with repository.stack():
        assert repository.problem_with_tests() == ""
        problems = {what: repository.problem_with(mistake) for what, mistake in example.breaks.items()}

    found = [f"{what}: {problem}" for what, problem in problems.items() if problem]
    assert not found, "\n\n".join(found)
