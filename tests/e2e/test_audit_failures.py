"""An audit that fails: Ctrl-C, SIGKILL, a full disk, a broker that goes away. It says so, and leaves nothing.

The query is typed (``typed_query``), so that no Spark is started. A proxy between the audit and the broker holds an
answer with records back: the audit is in the middle of reading for certain.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemark
from tests.e2e.foreign_query import cluster_state
from tests.e2e.own_broker import OwnBroker, commit_an_offset, own_broker
from tests.e2e.proxy import ANSWER, Held, Proxy, proxy
from tests.e2e.typed_query import COMMAND, END_S, Place, TypedQuery
from tidemark.errors import (
    EXIT_INTERRUPTED,
    EXIT_TESTBED,
    EXIT_USAGE,
    EXIT_VALID,
    BrokenEvidence,
)
from tidemark.waiting import wait_until

FETCH = 1
SMALL_BYTES = 1 << 20
"""Less than the evidence takes, and more than a file that says nothing."""
LIMITED = f"""
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({SMALL_BYTES}, {SMALL_BYTES}))
sys.argv[:] = sys.argv[1:]
runpy.run_module("tidemark", run_name="__main__")
"""
"""``tidemark`` in a process that may not write larger files."""


@pytest.fixture(scope="module")
def between() -> Iterator[Proxy]:
    """A proxy before the broker's second listener."""
    with proxy() as running:
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, between: Proxy) -> Iterator[OwnBroker]:
    """A cluster that nobody else changes meanwhile."""
    with own_broker(tmp_path_factory.mktemp("broker"), advertised=between.port) as running:
        between.target = running.second
        commit_an_offset(running.bootstrap)
        yield running


@pytest.fixture(scope="module")
def query(broker: OwnBroker, tmp_path_factory: pytest.TempPathFactory) -> TypedQuery:
    """The query, whole."""
    query = TypedQuery(tmp_path_factory.mktemp("typed"), broker.bootstrap)
    query.make()
    return query


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Empty folders for an audit."""
    place = Place(tmp_path)
    place.make()
    return place


@pytest.fixture
def untouched(query: TypedQuery, broker: OwnBroker) -> Iterator[None]:
    """Consumer groups, topics, settings, ends of topics, and files of the checkpoint are as they were."""
    before = cluster_state(broker.bootstrap), query.files()
    yield
    assert (cluster_state(broker.bootstrap), query.files()) == before


@pytest.fixture
def start(place: Place, request: pytest.FixtureRequest):
    """Starts an audit; it is gone at the end, whatever happens."""

    def started(*command: str, **how: bool) -> subprocess.Popen[str]:
        child = place.start(command, dict(os.environ), **how)
        request.addfinalizer(child.kill)
        return child

    return started


def in_the_middle(between: Proxy, child: subprocess.Popen[str]) -> Held:
    """Wait until an audit has got some records and waits for more, which are held back."""
    first = between.hold(ANSWER, FETCH)
    first.await_it()
    second = between.hold(ANSWER, FETCH)
    first.let_go()
    second.await_it()
    assert child.poll() is None
    return second


def ended(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    out, err = child.communicate(timeout=END_S)
    return child.returncode, out, err


def test_an_audit_that_nothing_disturbs_is_valid_and_leaves_its_evidence_only(
    untouched, query, between, place, start
):
    code, out, err = ended(start(*COMMAND, *query.arguments(place.evidence / "audit", between.address)))

    assert (code, err) == (EXIT_VALID, "")
    assert "VALID  orders_paid, judged as exactly-once" in out
    assert {path.split("/")[1] for path in place.left()} == {"audit"}
    assert tidemark.check(place.evidence / "audit").sealed


@pytest.mark.parametrize(
    ("number", "in_background"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)],
    ids=["ctrl-c", "sigterm", "sigterm in the background"],
)
def test_an_audit_that_is_interrupted_while_it_reads_leaves_nothing(
    untouched, query, between, place, start, number, in_background
):
    words = query.arguments(place.evidence / "audit", between.address)
    child = start(*COMMAND, *words, in_background=in_background)
    held = in_the_middle(between, child)
    assert [path for path in place.left() if path.endswith(".part")]

    child.send_signal(number)

    assert ended(child) == (
        EXIT_INTERRUPTED,
        "",
        "interrupted: there is no verdict, and no evidence is kept\n",
    )
    held.cut()
    assert place.left() == []


def test_an_audit_that_is_interrupted_while_it_judges_leaves_nothing(untouched, query, place, start):
    child = start(*COMMAND, *query.arguments(place.evidence / "audit"))
    sealed = lambda: [path for path in place.left() if path.endswith("/seal.json")]  # noqa: E731
    wait_until(
        sealed,
        END_S,
        lambda: f"the seal of the evidence; there is {place.left()}",
        unless=lambda: lives(child),
    )

    child.send_signal(signal.SIGINT)

    code, out, err = ended(child)
    assert (code, out) == (EXIT_INTERRUPTED, "")
    assert err == "interrupted: there is no verdict, and no evidence is kept\n"
    assert place.left() == []


def test_an_audit_that_is_killed_leaves_what_is_no_evidence(untouched, query, between, place, start):
    child = start(*COMMAND, *query.arguments(place.evidence / "audit", between.address))
    held = in_the_middle(between, child)

    child.kill()

    assert ended(child) == (-signal.SIGKILL, "", "")
    held.cut()
    [draft] = place.evidence.iterdir()
    assert draft.name == f".audit.{child.pid}.unfinished"
    with pytest.raises(BrokenEvidence, match="is not a run directory"):
        tidemark.check(draft)
    code, _, _ = ended(start(*COMMAND, *query.arguments(place.evidence / "audit")))
    assert code == EXIT_VALID  # the next one is not disturbed by it


def test_a_file_that_may_not_grow_ends_an_audit_without_a_verdict(untouched, query, place, start):
    command = [sys.executable, "-c", LIMITED, *COMMAND[2:], *query.arguments(place.evidence / "audit")]

    code, out, err = ended(start(*command))

    assert (code, out) == (EXIT_TESTBED, "")
    assert err.startswith(f"error: the evidence does not fit into '{place.evidence}'\n  why:  File too large")
    assert "hint: free some space" in err
    assert place.left() == []


def test_a_full_disk_ends_an_audit_without_a_verdict(untouched, query, place, start, small_disk):
    code, out, err = ended(start(*COMMAND, *query.arguments(small_disk / "audit")))

    assert (code, out) == (EXIT_TESTBED, "")
    assert err.startswith(
        f"error: the evidence does not fit into '{small_disk}'\n  why:  No space left on device"
    )
    assert "hint: free some space" in err
    assert place.left() == []
    assert list(small_disk.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory, of the size of one file that says nothing."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_directory_that_cannot_be_made_is_wrong_usage(untouched, query, place, start):
    (place.work / "file").touch()

    code, out, err = ended(start(*COMMAND, *query.arguments(place.work / "file" / "audit")))

    assert (code, out) == (EXIT_USAGE, "")
    assert err.startswith(
        f"error: the evidence cannot be written to '{place.work / 'file' / 'audit'}'\n  why:  [Errno 20]"
    )
    assert place.left() == ["work/file"]


@pytest.mark.long
def test_a_broker_that_goes_away_while_it_is_read_ends_an_audit_without_a_verdict(
    untouched, query, between, broker, place, start
):
    child = start(*COMMAND, *query.arguments(place.evidence / "audit", between.address))
    held = in_the_middle(between, child)

    broker.kill()
    held.cut()
    code, out, err = ended(child)
    broker.start()

    assert (code, out) == (EXIT_TESTBED, "")
    first, why, hint = err.splitlines()[:3]
    assert first == "error: the topic 'orders' could not be read to its end"
    assert why.startswith("  why:  timed out after 60 s waiting for ")
    assert hint.startswith(f"  hint: audit again once {between.address} answers: nothing was changed there")
    assert place.left() == []


def lives(child: subprocess.Popen[str]) -> None:
    """Raise if an audit has ended already."""
    assert child.poll() is None, child.communicate()
