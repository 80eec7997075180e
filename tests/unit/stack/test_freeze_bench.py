"""The measurement of freezing: what it counts, and that it refuses without an engine."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from docker.errors import APIError

from bench import __main__ as bench
from bench.freeze import measure
from tidemark import paths
from tidemark.errors import ContainerEngineError


class Api:
    """An engine that cannot freeze its container the first ``failures`` times of each round."""

    def __init__(self, failures: int, *, runs: bool = True) -> None:
        self.failures, self.runs = failures, runs
        self.requests = self.resumed = 0

    def pause(self, _container):
        self.requests += 1
        if self.requests % (self.failures + 1):
            raise APIError("unable to freeze", SimpleNamespace(status_code=500, reason="", url=""))

    def unpause(self, _container):
        self.resumed += 1

    def inspect_container(self, _container):
        return {"State": {"Running": self.runs}}


def test_every_attempt_and_the_longest_row_are_counted():
    api = Api(failures=3)
    result = measure(api, "c", rounds=5).as_result("writing")
    assert (result["attempts"], result["failed"], result["failed_share"]) == (20, 15, 0.75)
    assert result["failed_in_a_row"] == 3
    assert len(result["until_frozen"]["runs"]) == api.resumed == 5
    assert len(result["failed_attempt"]["runs"]) == 15


def test_without_a_failure_none_is_summed_up():
    result = measure(Api(failures=0), "c", rounds=2).as_result("idle")
    assert (result["attempts"], result["failed"]) == (2, 0)
    assert "failed_attempt" not in result


def test_a_container_that_has_ended_is_an_error():
    with pytest.raises(ContainerEngineError):
        measure(Api(failures=1, runs=False), "c", rounds=1)


def test_without_an_engine_it_refuses(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bench.freeze"],
        cwd=paths.root(),
        env={**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/engine.sock"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert done.stdout == ""
    assert "no container engine can be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_an_engine_the_other_measurements_are_chosen(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    monkeypatch.setattr(bench, "chromium", lambda: "a browser, wherever it is")
    assert bench.chosen() == [name for name in bench.names() if name != "freeze"]
    assert "freeze is left out" in capsys.readouterr().err
