"""A test's folder is its tier: every test carries the marker that is named like its folder.

``smoke`` is the tier for every save: ``unit`` and ``repository`` but for what is marked ``not_smoke``, and whatever is
marked so by hand.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
from hypothesis import settings

from tests.mutants.score import print_score

if TYPE_CHECKING:
    from tidemark.campaigns.warm_driver import WarmDriver
    from tidemark.stack import Stack

settings.register_profile("tidemark", deadline=None)  # a deadline in seconds is a test of the machine
settings.load_profile("tidemark")

# The suite starts hundreds of Python processes: what they import is compiled once, whatever the environment says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The command line is built once in a process, not for each command that a test calls.
typer.main.get_command = functools.cache(typer.main.get_command)

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as a shell without job control starts what is in its background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # some tests interrupt themselves

HERE = Path(__file__).parent
TIERS = ("unit", "spark", "e2e", "chaos", "mutants", "regressions", "repository")
ORDER = ("e2e", "matrix", "regressions", "mutants", "spark", "chaos", "repository", "unit")
"""Folders as they are run: by the time of those that start most JVMs their class archives are written, and the shortest
tests come last, because they are easily shared out."""
ALWAYS_SMOKE = ("unit", "repository")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its tier, and put the folders in order."""
    items.sort(key=lambda item: ORDER.index(_folder(item)) if _folder(item) in ORDER else len(ORDER))
    for item in items:
        if elsewhere := item.get_closest_marker("long_on"):
            params = item.callspec.params.values() if isinstance(item, pytest.Function) else ()
            if set(elsewhere.args) & set(map(str, params)):
                item.add_marker("long")
        if item.get_closest_marker("left_to_containers") and isinstance(item, pytest.Function):
            from tests.e2e.backends import are_used

            if "local" in map(str, item.callspec.params.values()) and are_used():
                item.add_marker("long")
        folder = _folder(item)
        if folder not in TIERS:
            continue
        item.add_marker(folder)
        if folder in ALWAYS_SMOKE and not any(map(item.get_closest_marker, ("long", "not_smoke"))):
            item.add_marker("smoke")


def _folder(item: pytest.Item) -> str:
    """The folder below this one that a test is in; nothing if it is elsewhere."""
    return item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""


@pytest.fixture(scope="session")
def warm(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmDriver]:
    """Runs cases on the stack's driver: for a run that differs from others in what is run, not in how."""
    from tidemark.campaigns.warm_driver import WarmDriver

    with WarmDriver(stack, stack.driver(), tmp_path_factory.mktemp("warm")) as driver:
        yield driver


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print who caught which mutant; here, because with ``-n`` the folders' own are read by the workers only."""
    print_score(terminalreporter)
