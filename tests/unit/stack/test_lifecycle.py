"""Which stack a caller gets, and when it ends. The processes are real but only sleep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tidemark.errors import DaemonDied, TestbedError, UnknownStack
from tidemark.processes import ProcessId, end, marked, tail
from tidemark.stack import (
    StackSpec,
    cold_start,
    current,
    down,
    lease,
    lifecycle,
    running_stack,
    spec_to_lease,
    up,
)
from tidemark.stack.api import ComponentKind
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.registry import LAYOUT, TOKEN_VARIABLE, ComponentRecord, Lease, StateFolder
from tidemark.waiting import wait_until

LAYOUT_IN_RECORD = f'"layout":{LAYOUT}'.encode()

SPEC = StackSpec()
HOLDER = """
import signal, sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.unit.stack.test_lifecycle import Boot
from tidemark.stack import StackSpec, cold_start, lease
cold_start.cold_start = Boot()
with lease(StackSpec(), home=Path(sys.argv[1])):
    print("leased", flush=True)
    signal.pause()
"""

KILLER = """
import signal, sys
from pathlib import Path
sys.path[:0] = {path!r}
from tidemark.processes import ProcessId
from tidemark.stack import current, running_stack
from tidemark.stack.registry import Lease, StateFolder
running_stack.RunningStack._await_ready = lambda *_: None
home = Path(sys.argv[1])
stack = current(home=home)
if sys.argv[2] == "uses":
    StateFolder(home).add("leases", Lease(ProcessId.own()), "killer")
for line in sys.stdin:
    getattr(stack, line.strip())("broker")
    print(line.strip(), flush=True)
"""


class Boot:
    """Starts two processes that sleep, in place of a broker and a driver; or fails after the first."""

    def __init__(self) -> None:
        self.starts = 0
        self.error: BaseException | None = None

    def __call__(self, state, backend, digest, _say):
        from tests.unit.stack.conftest import SLEEPER, fake_record

        self.starts += 1
        record = fake_record(state.home)
        spec = backend.spec
        record.digest, record.workers, record.python = digest, spec.workers, str(spec.python)
        for name, kind in (("broker", "broker"), ("driver", "driver")):
            env = {**os.environ, TOKEN_VARIABLE: state.token()}
            log = str(state.path / "logs" / f"{name}.log")
            component = ComponentRecord(
                name=name,
                kind=ComponentKind(kind),
                argv=SLEEPER,
                env=env,
                cwd=str(state.path),
                log=log,
                address="127.0.0.1:1",
            )
            ProcessRuntime(state).start([component])
            if self.error is not None:
                raise self.error
        return record


@pytest.fixture
def home(tmp_path):
    yield tmp_path / "home"
    down(home=tmp_path / "home")


@pytest.fixture(autouse=True)
def fake_start(monkeypatch):
    fake = Boot()
    monkeypatch.setattr(cold_start, "cold_start", fake)
    monkeypatch.setattr(running_stack.RunningStack, "_await_ready", lambda *_: None)
    return fake


def processes(home: Path) -> list[ProcessId]:
    return marked(TOKEN_VARIABLE, StateFolder(home).token() or "none")


def test_up_reuses_the_stack_of_an_earlier_up(home, fake_start):
    first = up(SPEC, home=home)
    assert up(SPEC, home=home).state_dir == first.state_dir
    with lease(SPEC, home=home):
        pass
    assert fake_start.starts == 1
    assert len(processes(home)) == 2


def test_down_ends_the_stack_and_returns_whether_there_was_one(home):
    up(SPEC, home=home)
    left = processes(home)
    assert down(home=home)
    assert not any(process.alive for process in left)
    assert not down(home=home)
    assert current(home=home) is None


def test_a_stack_started_by_a_lease_ends_with_the_last_lease(home, fake_start):
    with lease(SPEC, home=home):
        with lease(SPEC, home=home):
            left = processes(home)
        assert all(process.alive for process in left)
    assert not any(process.alive for process in left)
    assert fake_start.starts == 1


def test_up_keeps_a_leased_stack(home):
    with lease(SPEC, home=home):
        up(SPEC, home=home)
    assert len(processes(home)) == 2


def test_a_changed_stack_is_rebuilt_and_stays_kept(home, fake_start):
    up(SPEC, home=home)
    old = processes(home)
    with lease(StackSpec(workers=3), home=home) as stack:
        assert stack.spec.workers == 3
    assert fake_start.starts == 2
    assert not any(process.alive for process in old)
    assert len(processes(home)) == 2


def test_a_stack_in_use_is_not_rebuilt(home):
    with lease(SPEC, home=home), pytest.raises(TestbedError, match="in use") as error:
        up(StackSpec(workers=3), home=home)
    assert str(os.getpid()) in error.value.detail
    assert "tidemark down" in error.value.hint


def test_a_missing_component_is_started_again(home, fake_start):
    stack = up(SPEC, home=home)
    stack.kill("driver")
    messages: list[str] = []
    up(SPEC, home=home, progress=messages.append)
    assert messages == ["started again: driver"]
    assert len(processes(home)) == 2
    assert fake_start.starts == 1


@contextmanager
def a_killer(home: Path, uses: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], None]]]:
    """Another process, which kills and starts the broker when it is let."""
    argv = [sys.executable, "-c", KILLER.format(path=[str(Path(__file__).parents[3])]), str(home), uses]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killer:

        def let(what: str) -> None:
            killer.stdin.write(f"{what}\n")
            killer.stdin.flush()
            assert killer.stdout.readline() == f"{what}\n"

        yield killer, let


def test_what_a_process_that_does_not_use_the_stack_has_killed_is_started_again(home):
    up(SPEC, home=home)
    messages: list[str] = []
    with a_killer(home, "visits") as (_, let):
        let("kill")
        up(SPEC, home=home, progress=messages.append)
    assert messages == ["started again: broker"]


def test_what_another_process_has_killed_is_left_to_it_until_it_dies(home):
    stack = up(SPEC, home=home)
    state, messages = StateFolder(home), []
    with a_killer(home, "uses") as (killer, let):
        let("kill")
        with lease(SPEC, home=home, progress=messages.append) as leased:
            assert leased.repair() == []
            assert len(processes(home)) == 1
        assert messages == [f"left as it is: broker, which process {killer.pid} has killed and starts again"]
        let("start")
        assert len(processes(home)) == 2
        assert state.records("killed", Lease) == []
        let("kill")
        killer.kill()
    stack.kill("driver")

    up(SPEC, home=home, progress=messages.append)

    assert messages[1:] == ["started again: broker, driver"]
    assert state.records("killed", Lease) == []


@pytest.mark.parametrize("error", [DaemonDied("died"), KeyboardInterrupt()])
def test_a_start_that_fails_leaves_nothing(home, fake_start, error):
    fake_start.error = error
    seen = []
    state = StateFolder(home)
    original = cold_start.end_stack

    def spy(*args, **kwargs):
        seen.extend(processes(home))
        return original(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cold_start, "end_stack", spy)
        with pytest.raises(type(error)):
            up(SPEC, home=home)
    assert seen
    assert not any(process.alive for process in seen)
    assert not state.path.exists()
    assert (home / "failed-start").is_dir()


def test_a_stack_ends_after_its_leaseholder_was_killed(home, tmp_path):
    """The holder cannot clean up, so the reaper must."""
    root = str(Path(__file__).parents[3])
    argv = [sys.executable, "-c", HOLDER.format(path=[root]), str(home)]
    with (tmp_path / "holder.log").open("wb") as log:
        holder = subprocess.Popen(argv, stdout=log, stderr=log)
    wait_until(lambda: "leased" in tail(tmp_path / "holder.log"), 20, lambda: tail(tmp_path / "holder.log"))
    left = processes(home)
    assert len(left) == 2
    reapers = [reaper.owner for _, reaper in StateFolder(home).records("reapers", Lease)]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    wait_until(lambda: not any(process.alive for process in left), 20, lambda: f"{left} to end")
    wait_until(lambda: not any(reaper.alive for reaper in reapers), 20, lambda: "the reaper to end")
    assert not (home / "stack").exists()


def test_the_end_of_a_lease_does_not_wait_for_a_process_that_keeps_the_lock(home, monkeypatch):
    monkeypatch.setattr(lifecycle, "RELEASE_S", 0.1)
    with ExitStack() as locked:
        with lease(SPEC, home=home):
            left = processes(home)
            locked.enter_context(StateFolder(home).lock(0))
        assert all(process.alive for process in left)
    wait_until(lambda: not any(process.alive for process in left), 20, lambda: f"the reaper to end {left}")


def test_a_stack_of_another_interpreter_is_shared_by_those_who_ask_for_it(home, executable, fake_start):
    other = executable("python", f'exec {sys.executable} "$@"')
    up(StackSpec(python=other), home=home)
    for _ in range(2):
        with (
            lease(spec_to_lease(other, home=home), home=home),
            lease(spec_to_lease(other, home=home), home=home),
        ):
            pass
    assert fake_start.starts == 1


def test_a_stack_whose_folder_was_deleted_is_ended(home):
    import shutil

    up(SPEC, home=home)
    left = processes(home)
    shutil.rmtree(home / "stack")
    wait_until(lambda: not any(process.alive for process in left), 20, lambda: f"{left} to end")


def test_a_reaper_that_died_is_replaced(home):
    up(SPEC, home=home)
    state = StateFolder(home)
    (_, first), *_ = state.records("reapers", Lease)
    end([first.owner], ask_s=0)
    up(SPEC, home=home)
    (_, second), *_ = state.records("reapers", Lease)
    assert second.owner.alive


def begin(start, home: Path) -> None:
    """Use ``up`` or ``lease``."""
    if start is up:
        up(SPEC, home=home)
        return
    with lease(SPEC, home=home):
        pass


@pytest.mark.parametrize("start", [up, lease], ids=["up", "lease"])
def test_a_stack_of_another_version_is_neither_ended_nor_replaced(home, fake_start, start):
    up(SPEC, home=home)
    left, record = processes(home), home / "stack" / "stack.json"
    record.write_bytes(record.read_bytes().replace(LAYOUT_IN_RECORD, b'"layout":1'))

    for use in (lambda: current(home=home), lambda: begin(start, home)):
        with pytest.raises(UnknownStack, match="another version") as error:
            use()
        assert "tidemark down" in error.value.hint
    assert fake_start.starts == 1
    assert all(process.alive for process in left)

    assert down(home=home)
    assert not any(process.alive for process in left)
    assert current(home=home) is None


def test_the_end_of_a_lease_leaves_a_stack_of_another_version_alone(home):
    with lease(SPEC, home=home):
        left, record = processes(home), home / "stack" / "stack.json"
        record.write_bytes(record.read_bytes().replace(LAYOUT_IN_RECORD, b'"layout":99'))
    assert all(process.alive for process in left)
