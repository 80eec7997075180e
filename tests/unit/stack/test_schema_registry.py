"""The schema registry is asked for by a field of the spec, fetched by checksum, and only of local processes."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from tidemark.errors import FetchError, UsageError
from tidemark.stack import StackSpec, spec_to_lease
from tidemark.stack.components import launch_specs
from tidemark.stack.install import jars, schema_registry
from tidemark.stack.install.toolchain import Spark
from tidemark.stack.local.process_runtime import ProcessRuntime
from tidemark.stack.running_stack import RunningStack

SPARK = Spark(Path("python"), "3.11.0", "4.2.0", Path("pyspark"))


@pytest.fixture
def archive(monkeypatch, tmp_path):
    """A function that puts an archive with this content into the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(content: bytes) -> jars.Jar:
        locked = schema_registry.archive()
        digest = hashlib.sha256(content).hexdigest()
        lock = tmp_path / "lock"
        lock.write_text(
            f"registry {locked.organisation} {locked.name} {locked.version} {digest} {locked.ending}"
        )
        monkeypatch.setattr(jars.locked, "__kwdefaults__", {"lock": lock})
        monkeypatch.setattr(jars.provide, "__defaults__", (lock,))
        jar = schema_registry.archive()
        jar.path.parent.mkdir(parents=True)
        jar.path.write_bytes(content)
        return jar

    return put


def test_its_archive_is_unpacked_once(archive, tmp_path):
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as made:
        made.writestr("apicurio-registry-app-3.0.9-runner.jar", "jar")
    archive((tmp_path / "made.zip").read_bytes())

    found = schema_registry.provide_registry(Path("java"), SPARK, str)

    assert found.read_text() == "jar"
    found.write_text("there")
    assert schema_registry.provide_registry(Path("java"), SPARK, str).read_text() == "there"


def test_what_cannot_be_unpacked_is_an_error_and_leaves_nothing(archive):
    jar = archive(b"no archive")
    with pytest.raises(FetchError, match="could not be unpacked"):
        schema_registry.provide_registry(Path("java"), SPARK, str)
    assert [path.name for path in jar.path.parent.iterdir()] == [jar.path.name]


def test_containers_have_none(state, stack_record):
    with pytest.raises(UsageError, match="no schema registry on the backend compose"):
        StackSpec("compose", registry=True)
    state.make()
    stack_record.backend = "compose"
    with pytest.raises(UsageError, match="no schema registry") as error:
        RunningStack(state, stack_record, ProcessRuntime(state)).start_registry()
    assert "--backend local" in error.value.hint


def test_a_running_stack_with_a_registry_is_leased_with_it(state, stack_record, component):
    state.make()
    stack_record.ready = True
    state.write(stack_record)
    assert not spec_to_lease(home=state.home).registry

    state.write_component(component("registry", "registry", address="http://127.0.0.1:8081/apis/ccompat/v7"))

    assert spec_to_lease(home=state.home).registry
    stack = RunningStack(state, stack_record, ProcessRuntime(state))
    assert stack.spec.registry
    assert stack.registry == "http://127.0.0.1:8081/apis/ccompat/v7"


def test_it_listens_on_loopback_and_its_port_is_that_of_its_url(state, stack_record):
    state.make()
    stack_record.registry_ports = [20122, 20123]
    found = launch_specs.registry(state, stack_record, Path("registry.jar"))
    assert found.port == 20123
    assert launch_specs.proxied_registry(stack_record) == found.address.replace("20123", "20122")
    assert "-Dquarkus.http.host=127.0.0.1" in found.argv
    assert found.owner is None
