"""Which login the programs of a run are handed, and how."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidemark.errors import UsageError
from tidemark.formats.client_settings import CONF_VARIABLE
from tidemark.runner.kafka_access import conf_of, kafka_access
from tidemark.runner.programs import program_environment

LOGIN = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=secret\n"


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "kafka.conf"
    path.write_text(LOGIN)
    return path


def stack(backend="local", kafka_conf=None, inside=None):
    return SimpleNamespace(
        spec=SimpleNamespace(backend=backend), kafka_conf=kafka_conf, kafka_conf_inside=inside,
        bootstrap_servers="here:1", bootstrap_inside="there:2",
    )  # fmt: skip


def test_what_is_asked_for_outranks_the_stacks_login_and_that_the_environments(monkeypatch):
    asked, own, named = Path("asked"), Path("own"), Path("named")
    monkeypatch.setenv(CONF_VARIABLE, str(named))
    assert conf_of(stack("external", own), asked) == asked
    assert conf_of(stack("external", own)) == own
    assert conf_of(stack("external")) == named
    assert conf_of(stack("local")) is None
    assert conf_of(stack("local", own)) == own
    monkeypatch.delenv(CONF_VARIABLE)
    assert conf_of(stack("external")) is None


def test_programs_are_handed_paths_and_never_a_password(conf, tmp_path):
    (tmp_path / "work").mkdir()
    access = kafka_access(stack(), tmp_path / "work", conf)

    assert access.broker["sasl.password"] == "secret"
    assert access.for_producers == ["--bootstrap", "here:1", f"--kafka-conf={conf}"]
    written = tmp_path / "work" / "kafka.properties"
    names = ["sasl.jaas.config", "security.protocol", "sasl.mechanism"]
    login = [f"--kafka-conf={written}", *(f"--kafka-setting={name}" for name in names)]
    assert access.for_pipelines == ["--bootstrap=there:2", *login]
    assert access.spark_options["kafka.sasl.jaas.config"] == f"${{file:{written}:sasl.jaas.config}}"
    assert "secret" in written.read_text()


def test_without_a_login_nothing_is_written_and_only_addresses_are_handed_on(tmp_path):
    access = kafka_access(stack(), tmp_path)
    assert access.for_producers == ["--bootstrap", "here:1"]
    assert access.for_pipelines == ["--bootstrap=there:2"]
    assert access.spark_options == {}
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_the_cluster_has_is_referred_to_unless_another_login_is_asked_for(conf, tmp_path):
    external = stack("external", conf, ("/run/secrets/k", ["sasl.jaas.config"]))
    access = kafka_access(external, tmp_path / "nowhere")
    assert (access.spark_file, access.names) == ("/run/secrets/k", ["sasl.jaas.config"])
    assert kafka_access(external, tmp_path, conf).spark_file == str(tmp_path / "kafka.properties")


def test_a_folder_that_a_reference_cannot_name_is_refused(conf, tmp_path):
    folder = tmp_path / "a:b"
    folder.mkdir()
    with pytest.raises(UsageError, match="Spark cannot be told of the login"):
        kafka_access(stack(), folder, conf)
    assert list(folder.iterdir()) == []


def test_a_program_does_not_inherit_the_login_of_another_cluster(monkeypatch):
    monkeypatch.setenv(CONF_VARIABLE, "somebodys")
    assert CONF_VARIABLE in os.environ
    assert CONF_VARIABLE not in program_environment(None)
