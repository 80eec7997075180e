from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tidemark.processes import ProcessId, base_environment, end, spawn
from tidemark.stack.api import ComponentKind
from tidemark.stack.compose import docker_engine
from tidemark.stack.registry import TOKEN_VARIABLE, ComponentRecord, StackRecord, StateFolder

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "home")


@pytest.fixture
def sleeper(tmp_path: Path):
    """A function that starts a process which sleeps until SIGTERM."""
    started: list[ProcessId] = []

    def start(token: str = "", argv: list[str] | None = None) -> ProcessId:
        env = base_environment(**({TOKEN_VARIABLE: token} if token else {}))
        started.append(spawn(argv or SLEEPER, log=tmp_path / "sleeper.log", cwd=tmp_path, env=env))
        return started[-1]

    yield start
    end(started, ask_s=0)


@pytest.fixture
def executable(tmp_path: Path):
    """A function that writes a shell script and returns its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


def fake_record(folder: Path) -> StackRecord:
    return StackRecord(
        digest="d",
        backend="local",
        python=sys.executable,
        workers=2,
        asked_kafka_port=None,
        kafka_ports=[20001],
        controller_ports=[20002],
        master_port=20003,
        worker_ports=[20004, 20005],
        java="/usr/bin/env",
        java_home="/usr",
        spark_home=str(folder),
        spark_class_path=f"{folder}/jars/*",
        worker_python=sys.executable,
        broker_jars=["a.jar", "b.jar"],
        spark_jars=["c.jar"],
        versions={"spark": "4.2.0"},
    )


@pytest.fixture
def stack_record(tmp_path: Path) -> StackRecord:
    return fake_record(tmp_path)


@pytest.fixture
def component(tmp_path: Path):
    """A function that makes the record of a component that is a sleeping process."""

    def make(
        name: str = "broker", kind: ComponentKind = ComponentKind.BROKER, **more: object
    ) -> ComponentRecord:
        fields = {"argv": SLEEPER, "env": base_environment(), "cwd": str(tmp_path), "address": "127.0.0.1:1"}
        return ComponentRecord(
            name=name, kind=ComponentKind(kind), log=str(tmp_path / f"{name}.log"), **{**fields, **more}
        )

    return make


@pytest.fixture
def engine_that_answers(tmp_path: Path, monkeypatch):
    """A function that starts a container engine of a kind: each request gets what ``answer(method, path)`` gives.

    ``seen`` gets the whole of each request's path, with what follows the question mark.
    """
    servers = []

    def start(answer: Callable[[str, str], tuple[int, object]], seen: list[str] | None = None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if seen is not None:
                    seen.append(self.path)
                status, content = answer(self.command, self.path.partition("?")[0])
                body = b"" if content is None else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def address_string(self) -> str:
                return "unix"

            def log_message(self, *_: object) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        path = str(tmp_path / "engine.sock")
        servers.append(Server(path, Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")

    yield start
    docker_engine._close()
    docker_engine._clients.clear()
    for server in servers:
        server.shutdown()
        server.server_close()
