"""The pytest plugin: a stack for all tests, and runs judged from within a test.

Free of heavy imports until a fixture is used, because every pytest of the environment loads it. ``stack`` is one for
all workers of ``pytest -n``: found if it is there, else started, and ended with its last lease. ``run_pipeline`` runs
a join and gives back its verdict; the run directory of a test that failed is kept below ``runs/tests``, and one that
the test named (``run_dir``, new or empty) is always kept. For example::

    def test_my_join_is_right(run_pipeline):
        result = run_pipeline("my_join.py", trace=Path("traces/bad_monday.jsonl"))
        result.assert_valid()
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidemark.runner import RunResult
    from tidemark.stack import Stack

FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A running stack, shared by all tests and all workers."""
    from tidemark.stack import lease, spec_to_lease

    with lease(spec_to_lease()) as leased:
        yield leased


@pytest.fixture
def run_pipeline(request: pytest.FixtureRequest) -> Iterator[Callable[..., RunResult]]:
    """A function ``run_pipeline(pipeline, **options)``: options are those of ``tidemark.RunOptions``.

    Evidence in a ``run_dir`` that the caller named stays there; elsewhere it is deleted after a test that passed.
    """
    from pathlib import Path

    from tidemark import paths, runner
    from tidemark.runner.run_options import options_of

    request.getfixturevalue("stack")  # held for the session, so that it outlives this one run
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")
    made: list[Path] = []  # by this fixture; never what the caller named

    def run_one(pipeline: str | Path, **options: Any) -> RunResult:
        asked = options_of(pipeline, options)
        if asked.run_dir is None:
            made.append(_free(paths.runs_dir() / "tests", test))
            asked = replace(asked, run_dir=made[-1])
        return runner.run_pipeline(asked)

    yield run_one
    if not request.node.stash.get(FAILED, False):
        for path in made:
            shutil.rmtree(path, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember that a test failed, so that its evidence is kept."""
    report = yield
    if report.failed:  # type: ignore[attr-defined]
        item.stash[FAILED] = True
    return report


def _free(folder: Any, name: str) -> Any:
    """A run directory's path below ``folder`` that nothing has yet."""
    import uuid

    return folder / f"{name[:60]}-{uuid.uuid4().hex[:8]}"
