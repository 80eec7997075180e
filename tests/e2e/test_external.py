"""An external stack: here the one that all tests share, known by its addresses only."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import shown
from tidemark.errors import TestbedError, UsageError
from tidemark.formats.evidence import RunDirectory
from tidemark.paths import BACKEND_VARIABLE
from tidemark.runner import RunOptions, describe, new_run_directory, run
from tidemark.stack import ComponentState, StackSpec, current, down, spec_to_lease, up
from tidemark.stack.spec import External


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("external") / "home"
    yield home
    down(home=home)


@pytest.fixture(scope="module")
def spec(stack):
    addresses = stack.bootstrap_servers, stack.driver().remote, str(stack.work_dir("external"))
    return StackSpec("external", external=External(*addresses, bootstrap_inside=stack.bootstrap_inside))


@pytest.fixture(scope="module")
def external(home, spec):
    return up(spec, home=home)


def test_an_external_stack_is_recorded_and_found_again(external, home, spec, stack, monkeypatch):
    monkeypatch.delenv(BACKEND_VARIABLE, raising=False)
    assert current(home=home).spec == spec == spec_to_lease(home=home)
    assert [component.state for component in external.status()] == [ComponentState.RUNNING] * 2
    assert external.versions["spark"] == stack.versions["spark"]
    assert external.driver().event_log == stack.driver().event_log


@pytest.mark.long
@pytest.mark.parametrize("pace", ["backlog", "stepped"])
def test_a_run_on_an_external_stack_is_valid(external, judged, pace):
    verdict = judged(external, pace=pace, impressions=400)
    assert verdict.verdict == "VALID", shown(verdict)


@pytest.mark.long
def test_a_run_without_a_visible_event_log_says_so(external, judged, tmp_path):
    external._record.spark_conf["event-logs"] = ""
    assert judged(external, "blind").verdict == "VALID"
    assert "no event log" in " ".join(RunDirectory(tmp_path / "blind").manifest.notes)


@pytest.mark.parametrize(
    "operation", ["start", "stop", "kill", "pause", "resume", "partition_network", "heal_network"]
)
def test_operations_on_external_components_are_refused(external, operation):
    with pytest.raises(UsageError, match="the stack is external") as error:
        getattr(external, operation)("broker")
    assert "tidemark up --backend local" in error.value.hint


def test_operations_on_external_executors_and_drivers_are_refused(external, tmp_path):
    with pytest.raises(UsageError, match="external"):
        external.kill_executor("driver", "0")
    with pytest.raises(UsageError, match="external"):
        external.start_driver("mine")
    with pytest.raises(UsageError, match="'broker' is not a driver"):
        external.driver("broker")
    with pytest.raises(UsageError, match="no component 'mine'"):
        external.driver("mine")
    options = RunOptions("left_outer", impressions=100, faults="executor", run_dir=tmp_path / "kills")
    contract = describe("left_outer")
    with pytest.raises(UsageError, match="executor@planned cannot be done: the stack is external") as error:
        run(options, contract, new_run_directory(options, contract), stack=external)
    assert "--kill-executors" in error.value.hint


def test_an_unreachable_external_stack_is_one_clear_error(stack, tmp_path):
    unreachable = External(stack.bootstrap_servers, "sc://127.0.0.1:9", str(tmp_path))
    with pytest.raises(TestbedError, match=r"sc://127\.0\.0\.1:9") as error:
        up(StackSpec("external", external=unreachable), home=tmp_path / "home")
    assert error.value.hint
    assert not (tmp_path / "home" / "stack").exists()


def test_impossible_addresses_are_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="not the address of a Spark Connect server"):
        External("127.0.0.1:9092", "spark://127.0.0.1:7077", str(tmp_path))
    with pytest.raises(UsageError, match="there is no folder"):
        External("127.0.0.1:9092", "sc://127.0.0.1:15002", str(tmp_path / "nowhere"))


def test_the_command_line_records_an_external_stack(stack, tmp_path):
    import subprocess

    from tests.e2e.test_stack_lifecycle import arguments

    home = tmp_path / "home"
    words = ["up", "--backend", "external", "--bootstrap", stack.bootstrap_servers, "--json"]
    words += ["--bootstrap-inside", stack.bootstrap_inside, "--remote", stack.driver().remote]
    words += ["--shared-dir", str(stack.work_dir("external"))]
    try:
        done = subprocess.run(arguments(home, *words), capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["backend"] == "external"
    finally:
        assert down(home=home)
    assert stack.driver().remote  # its record is removed, but the stack still runs
