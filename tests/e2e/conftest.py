"""A stack that tests may harm, for each backend and each worker, besides the one that all tests share."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.e2e.backends import BACKENDS, must_be_available
from tests.e2e.own_broker import own_broker
from tests.e2e.proxy import proxy
from tests.e2e.sites import Site
from tidemark import paths
from tidemark.formats.contract import Contract
from tidemark.oracle import Verdict
from tidemark.runner import RunOptions, describe, new_run_directory, run
from tidemark.stack import Stack, StackSpec, lease

STACK_GIB = 4
"""Calibration: a stack takes 2.5 GiB with a driver, and as much as that again by what tests do to it."""


@contextmanager
def turn(home: Path) -> Iterator[None]:
    """One worker of ``pytest -n`` at a time."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def stack_to_harm(name: str, spec: StackSpec) -> Iterator[Stack]:
    """A leased stack with a state folder of its own."""
    must_be_available(spec.backend)
    home = paths.state_dir() / name / spec.backend
    with ExitStack() as cleanup:
        with turn(
            home
        ):  # a lease mends what it finds broken: never what another worker's test has just broken
            leased = cleanup.enter_context(lease(spec, home=home))
        yield leased


def seat(backend: str) -> str:
    """A name for the stack of this worker of ``pytest -n``: one of its own, or that of all of them.

    Tests that harm a stack take turns at it, and whoever waits leaves a core idle. In containers, or where memory is
    short, there is one.
    """
    stacks = 1 + int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    has_room = psutil.virtual_memory().total >= stacks * STACK_GIB << 30
    return os.environ.get("PYTEST_XDIST_WORKER", "") if backend == "local" and has_room else ""


@pytest.fixture(scope="session", params=BACKENDS)
def leased(request: pytest.FixtureRequest) -> Iterator[Stack]:
    with stack_to_harm(f"harmed{seat(request.param)}", StackSpec(backend=request.param)) as stack:
        yield stack


@pytest.fixture
def own_stack(leased: Stack) -> Iterator[Stack]:
    """A stack of one backend, for this test alone."""
    with turn(leased.state_dir.parent):
        yield leased


@pytest.fixture(scope="module")
def modules_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Of the version that ``tests.e2e.own_broker.on_brokers`` says."""
    home = tmp_path_factory.mktemp("broker")
    with proxy() as between, own_broker(home, request.param, advertised=between.port) as broker:
        yield Site(broker, between)


@pytest.fixture
def site(modules_site: Site) -> Iterator[Site]:
    """A broker of the module's, reached directly or through a proxy."""
    yield modules_site
    modules_site.proxy.open_up()


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., Verdict]:
    """A function that runs a small left outer join on a stack and returns the verdict."""
    known: list[Contract] = []

    def judge(stack: Stack, name: str = "run", **options: object) -> Verdict:
        asked = RunOptions("left_outer", run_dir=tmp_path / name, **{"impressions": 150, **options})
        contract = known[0] if known else describe(asked.pipeline)
        known[:] = [contract]
        return run(asked, contract, new_run_directory(asked, contract), stack=stack).verdict

    return judge


def shown(verdict: Verdict) -> str:
    """What an assertion says when a verdict is not the right one."""
    findings = [str(finding) for finding in verdict.findings]
    return json.dumps({"findings": findings, "inconclusive": verdict.inconclusive, "goals": verdict.goals})
