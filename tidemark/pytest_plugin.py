"""The pytest plugin: a stack for all tests, and runs judged from within a test.

Free of heavy imports until a fixture is used, because every pytest of the environment loads it. ``stack`` is one for
all workers of ``pytest -n``: found if it is there, else started, and ended with its last lease. ``run_pipeline`` runs
a join and gives back its verdict; the run directory of a test that failed is kept below ``runs/tests``, and one that
the test named (``run_dir``, new or empty) is always kept. For example::

    def test_my_join_is_right(run_pipeline):
        result = run_pipeline("my_join.py", trace=Path("traces/bad_monday.jsonl"))
        result.assert_valid()

The failure of a test has a section that names the page (``report.html``) of each of its runs.
``pytest --tidemark-report DIR`` collects evidence and page of the runs of all tests, those that passed too, below
``DIR``, with ``index.html``: each test, its outcome, and its runs. What the option collected there before is deleted
first, and nothing else. A run in a directory that the test named is copied there.

All runs of a session have the interpreter (``python``) whose PySpark the stack runs, which is pytest's own. Another one
is refused; it takes a session of its own, with the fixture ``stack`` replaced in its ``conftest.py``::

    @pytest.fixture(scope="session")
    def stack():
        with lease(spec_to_lease(Path("/opt/spark-4.1/bin/python"))) as leased:  # both of tidemark.stack
            yield leased
"""

from __future__ import annotations

import os.path
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidemark.runner import RunResult
    from tidemark.runner.run_options import RunOptions
    from tidemark.stack import Stack

FAILED = pytest.StashKey[bool]()
OUTCOME = pytest.StashKey[str]()
"""What became of the call of a test: passed, failed, skipped, xfailed."""
RUNS = pytest.StashKey[list[Path]]()
"""The run directories of a test, in the order of its runs."""
COLLECT = pytest.StashKey[Path]()
"""Of the configuration: where ``--tidemark-report`` collects."""
INDEX = pytest.StashKey[str]()
"""Of the configuration: what is said of the index."""
OF_WORKER = "tidemark_report"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--tidemark-report``."""
    parser.getgroup("tidemark").addoption(
        "--tidemark-report",
        metavar="DIR",
        help="collect evidence and report of the pipelines that tests run below DIR, with an index of all tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Remember where runs are collected; a worker of xdist hears it from the process that started it."""
    asked = _worker_input(config).get(OF_WORKER) or config.getoption("--tidemark-report")
    if asked:
        config.stash[COLLECT] = config.invocation_params.dir / asked


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist where runs are collected."""
    if COLLECT in node.config.stash:
        node.workerinput[OF_WORKER] = str(node.config.stash[COLLECT])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Empty the folder of what an earlier session has collected."""
    config = session.config
    if COLLECT not in config.stash or _is_worker(config) or config.getoption("collectonly"):
        return
    from tidemark.errors import UsageError
    from tidemark.reports.collected_tests import empty

    try:
        empty(config.stash[COLLECT])
    except OSError as error:
        told = UsageError(
            f"{str(config.stash[COLLECT])!r} cannot be written",
            detail=str(error),
            hint="name a folder that can be made: --tidemark-report DIR",
        )
        pytest.exit(str(told), pytest.ExitCode.USAGE_ERROR)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the index of what was collected; an error in it fails no test."""
    config = session.config
    if COLLECT not in config.stash or _is_worker(config) or config.getoption("collectonly"):
        return
    from tidemark import public_api
    from tidemark.errors import TidemarkError
    from tidemark.reports.run_index import runs_below

    folder = config.stash[COLLECT]
    try:
        config.stash[INDEX] = (
            str(public_api.report(folder)) if runs_below(folder) else "no test ran a pipeline"
        )
    except (TidemarkError, OSError) as error:
        config.stash[INDEX] = f"the index cannot be written: {error}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the index is."""
    if INDEX in terminalreporter.config.stash:
        terminalreporter.write_line(f"tidemark report: {terminalreporter.config.stash[INDEX]}")


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A running stack, shared by all tests and all workers."""
    from tidemark.stack import lease, spec_to_lease

    with lease(spec_to_lease()) as leased:
        yield leased


@pytest.fixture
def run_pipeline(request: pytest.FixtureRequest) -> Iterator[Callable[..., RunResult]]:
    """A function ``run_pipeline(pipeline, **options)``: options are those of ``tidemark.RunOptions``.

    Evidence in a ``run_dir`` that the caller named stays there; elsewhere it is deleted after a test that passed,
    unless ``--tidemark-report`` collects it.
    """
    from tidemark.runner.run_options import options_of

    stack: Stack = request.getfixturevalue("stack")  # held for the session, so that it outlives this one run
    made: list[Path] = []  # by this fixture; never what the caller named

    def run_one(pipeline: str | Path, **options: Any) -> RunResult:
        return _run(request.node, _on_stack(options_of(pipeline, options), stack), made)

    yield run_one
    if not request.node.stash.get(FAILED, False):
        for path in made:
            shutil.rmtree(path, ignore_errors=True)


def _on_stack(asked: RunOptions, stack: Stack) -> RunOptions:
    """The options of a run with the interpreter of the stack; raises ``UsageError`` if another one is asked for."""
    from tidemark.errors import UsageError
    from tidemark.stack import StackSpec

    own = stack.spec.python
    if asked.python is not None and os.path.abspath(asked.python) != os.path.abspath(own):
        raise UsageError(
            f"the stack of this session runs the PySpark of {str(own)!r}, and python={str(asked.python)!r} asks for"
            " another",
            detail="the fixture `stack` holds one stack for all tests, and a stack has one interpreter",
            hint="run such tests in a session of their own, whose conftest.py has a fixture `stack` (scope session)"
            f" with `lease(spec_to_lease(Path({str(asked.python)!r})))` of tidemark.stack; or after pytest:"
            f" `tidemark run --spark {asked.python}`",
        )
    return asked if asked.python is None and own == StackSpec.python else replace(asked, python=own)


def _run(item: Any, asked: RunOptions, made: list[Path]) -> RunResult:
    """One run of a test; ``made`` gets its directory, if it is one to delete after a test that passed."""
    from tidemark import paths, runner
    from tidemark.reports.collected_tests import new_run
    from tidemark.runner.cleanup import first_error_kept

    collect, runs = item.config.stash.get(COLLECT, None), item.stash.setdefault(RUNS, [])
    collected = None if collect is None else new_run(collect, item.nodeid)
    named = asked.run_dir
    if named is None:
        test = re.sub(r"[^A-Za-z0-9]+", "-", item.name).strip("-")
        path = collected or _free(paths.runs_dir() / "tests", test)
        made += [] if collected else [path]
        asked = replace(asked, run_dir=path)
    begun: list[Path] = []
    try:
        with first_error_kept(_collecting(begun, collected if named is not None else None)):
            result = runner.run_pipeline(asked, made=begun.append)
            begun[:] = [result.run_dir]  # a redacted one is made at the end
        return result
    finally:
        if begun:
            runs.append(collected or begun[0])


@contextmanager
def _collecting(begun: list[Path], collected: Path | None) -> Iterator[None]:
    """Copy at the end what a run has made in the directory that its test named; nothing if the run was refused."""
    from tidemark.errors import TestbedError

    try:
        yield
    finally:
        if begun and collected is not None:
            try:
                shutil.copytree(begun[0], collected)
            except OSError as error:
                raise TestbedError(
                    f"the run in {str(begun[0])!r} cannot be collected in {str(collected)!r}",
                    detail=str(error),
                    hint="the run directory is complete; --tidemark-report DIR must be writable, with room for it",
                ) from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember that a test failed, so that its evidence is kept, and say where the pages of its runs are."""
    report: Any = yield
    if report.failed:
        item.stash[FAILED] = True
    if report.when == "call":
        is_expected = hasattr(report, "wasxfail")
        item.stash[OUTCOME] = (
            f"x{'failed' if report.skipped else 'passed'}" if is_expected else report.outcome
        )
    runs = item.stash.get(RUNS, [])
    if report.failed and runs:
        report.sections.append(("tidemark report", "\n".join(map(_page_line, runs))))
    if RUNS in item.stash and COLLECT in item.config.stash and report.when == "teardown":
        from tidemark.reports.collected_tests import CollectedTest, write_outcome

        outcome = "failed" if item.stash.get(FAILED, False) else item.stash.get(OUTCOME, report.outcome)
        write_outcome(item.config.stash[COLLECT], CollectedTest(test=item.nodeid, outcome=outcome))
    return report  # type: ignore[no-any-return]


def _page_line(run: Path) -> str:
    """The verdict and the page of a run, or its directory, where there is none."""
    import json

    page = run / "report.html"
    try:
        verdict = json.loads((run / "verdict.json").read_bytes())["verdict"]
    except (OSError, ValueError, KeyError, TypeError):
        verdict = "no verdict"
    if page.is_file():
        return f"{verdict}  {page}"
    return f"{verdict}  evidence: {run} (no report.html: the run did not end, or its page cannot be made)"


def _worker_input(config: pytest.Config) -> dict[str, Any]:
    """What a worker of xdist was told; empty in any other process."""
    return getattr(config, "workerinput", {})


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _free(folder: Any, name: str) -> Any:
    """A run directory's path below ``folder`` that nothing has yet."""
    import uuid

    return folder / f"{name[:60]}-{uuid.uuid4().hex[:8]}"
