from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemark import stack
from tidemark.cli import app
from tidemark.errors import UsageError
from tidemark.stack import ComponentState, ComponentStatus, StackSpec, doctor

COMPONENTS = [
    ComponentStatus("broker", ComponentState.RUNNING, 11, "127.0.0.1:9092", 300 << 20),
    ComponentStatus("driver", ComponentState.RUNNING, 12, "sc://127.0.0.1:15002", 500 << 20),
]


EXTERNAL = ["--backend", "external", "--bootstrap", "k:1", "--remote", "sc://s:1", "--shared-dir", "/tmp"]


class FakeStack:
    spec = StackSpec()
    bootstrap_servers = "127.0.0.1:9092"
    kafka_conf = None
    registry = "http://127.0.0.1:8081/apis/ccompat/v7"
    state_dir = Path("state")
    versions = {"kafka": "4.3.1", "spark": "4.2.0"}  # noqa: RUF012

    def __init__(self, components: list[ComponentStatus]) -> None:
        self.listed = components

    def status(self) -> list[ComponentStatus]:
        return self.listed


def run(*words: str):
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def running(monkeypatch):
    """The running stack; a test may change its components."""
    fake = FakeStack(COMPONENTS[:])
    monkeypatch.setattr(stack, "current", lambda: fake)
    return fake


def test_up_passes_its_options_on_and_prints_the_addresses(monkeypatch):
    specs = []
    monkeypatch.setattr(stack, "up", lambda spec, **_: specs.append(spec) or FakeStack(COMPONENTS))
    done = run(
        "up", "--backend", "local", "--workers", "3", "--kafka-port", "19092", "--spark", "other/python",
        "--registry", "--kafka", "3.9.2",
    )  # fmt: skip
    assert done.exit_code == 0
    assert specs == [
        StackSpec(python=Path("other/python"), workers=3, kafka_port=19092, registry=True, kafka="3.9.2")
    ]
    assert "http://127.0.0.1:8081/apis/ccompat/v7" in done.stdout
    assert "sc://127.0.0.1:15002" in done.stdout
    assert "127.0.0.1:9092" in done.stdout


def test_up_passes_a_login_on_and_says_where_the_clients_settings_are(monkeypatch, tmp_path):
    specs, fake = [], FakeStack(COMPONENTS)
    fake.kafka_conf = tmp_path / "client.properties"
    monkeypatch.setattr(stack, "up", lambda spec, **_: specs.append(spec) or fake)
    done = run("up", "--backend", "local", "--kafka-security", "sasl-scram")
    assert done.exit_code == 0
    assert specs == [StackSpec(kafka_security="sasl-scram")]
    assert f"{tmp_path / 'client.properties'} (--kafka-conf)" in done.stdout

    words = ["--bootstrap", "k:1", "--remote", "sc://s:1", "--shared-dir", str(tmp_path)]
    monkeypatch.setenv("TIDEMARK_KAFKA_CONF", "named.conf")
    assert run("up", "--backend", "external", *words).exit_code == 0
    assert specs[-1].external.kafka_conf == str(Path("named.conf").absolute())
    words += ["--kafka-conf", "mine.conf", "--kafka-conf-inside", "/run/secrets/kafka"]
    assert run("up", "--backend", "external", *words).exit_code == 0
    external = specs[-1].external
    assert (external.kafka_conf, external.kafka_conf_inside) == (
        str(Path("mine.conf").absolute()),
        "/run/secrets/kafka",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--backend", "local", "--kafka-conf", "mine.conf"],
            "--kafka-conf is given, and the backend is local",
        ),
        (
            [
                "--backend",
                "external",
                "--kafka-security",
                "mtls",
                "--bootstrap",
                "k:1",
                "--remote",
                "sc://s:1",
                "--shared-dir",
                "/tmp",
            ],
            "external stack cannot be made to want a login",
        ),
        (
            ["--backend", "local", "--bootstrap-inside", "k:1"],
            "--bootstrap-inside is given, and the backend is local",
        ),
        ([*EXTERNAL, "--brokers", "3"], "--brokers is given, and the backend is external"),
        ([*EXTERNAL, "--kafka-port", "9092"], "--kafka-port is given, and the backend is external"),
        (["--backend", "local", "--kafka-security", "kerberos"], "there is no login 'kerberos'"),
        (["--backend", "local", "--kafka", "3.5.2"], "there is no Kafka '3.5.2' for a stack"),
        (["--backend", "compose", "--kafka", "3.9.2"], "backend compose have a version of their own"),
    ],
)
def test_brokers_that_a_backend_does_not_have_are_refused_with_what_to_do(words, said, monkeypatch):
    monkeypatch.setattr(stack, "up", lambda *_, **__: pytest.fail("nothing is to be started"))
    refused = run("up", *words).exception
    assert isinstance(refused, UsageError)
    assert said in refused.message
    assert refused.hint


def test_up_prints_one_json_object(monkeypatch):
    monkeypatch.setattr(stack, "up", lambda *_, **__: FakeStack(COMPONENTS))
    found = json.loads(run("up", "--json").stdout)
    assert found["bootstrap_servers"] == "127.0.0.1:9092"
    assert found["remote"] == "sc://127.0.0.1:15002"
    assert found["seconds"] >= 0


def test_status_of_a_complete_stack_is_exit_code_0(running):
    done = run("status")
    assert done.exit_code == 0
    assert "broker" in done.stdout
    assert "800" in done.stdout


def test_status_of_a_broken_stack_is_exit_code_4(running):
    running.listed[0] = ComponentStatus("broker", ComponentState.STOPPED, None, "127.0.0.1:9092", 0)
    assert run("status").exit_code == 4
    found = json.loads(run("status", "--json").stdout)
    assert not found["running"]
    assert found["components"][0] == {
        "name": "broker",
        "state": "stopped",
        "pid": None,
        "address": "127.0.0.1:9092",
        "rss_mib": 0,
    }


def test_status_without_a_stack_says_how_to_start_one(monkeypatch):
    monkeypatch.setattr(stack, "current", lambda: None)
    assert run("status").exit_code == 4
    assert "tidemark up" in run("status").stdout
    assert json.loads(run("status", "--json").stdout) == {"running": False, "components": []}


@pytest.mark.parametrize(("ended", "text"), [(True, "down\n"), (False, "no stack was running\n")])
def test_down_says_whether_a_stack_was_running(monkeypatch, ended, text):
    monkeypatch.setattr(stack, "down", lambda: ended)
    assert run("down").stdout == text
    assert json.loads(run("down", "--json").stdout) == {"ended": ended}


def test_doctor_fails_only_for_bad_checks(monkeypatch):
    results = [doctor.CheckResult("disk", doctor.CheckStatus.WARNING, "little\nleft", "free space")]
    monkeypatch.setattr(doctor, "examine", lambda _spec: results)
    done = run("doctor")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "warning  disk      little",
        "                   left",
        "                   -> free space",
    ]
    results.append(doctor.CheckResult("java", doctor.CheckStatus.BAD, "none", "install it"))
    assert run("doctor").exit_code == 4
    assert [result["name"] for result in json.loads(run("doctor", "--json").stdout)] == ["disk", "java"]
