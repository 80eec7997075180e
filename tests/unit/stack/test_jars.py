from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidemark.errors import FetchError, TestbedError
from tidemark.stack.install import jars
from tidemark.stack.install.toolchain import Spark
from tidemark.stack.spec import OTHER_KAFKAS

CONTENT = b"not really a jar"


@pytest.fixture
def spark(tmp_path) -> Spark:
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    (tmp_path / "pyspark" / "jars" / "ivy-2.5.3.jar").touch()
    return Spark(Path("python"), "3.11.0", "4.2.0", tmp_path / "pyspark")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TIDEMARK_IVY_SETTINGS", raising=False)


def in_cache(jar: jars.Jar, content: bytes = CONTENT) -> jars.Jar:
    jar.path.parent.mkdir(parents=True, exist_ok=True)
    jar.path.write_bytes(content)
    return jar


def quiet(_text: str) -> None:
    pass


def test_every_line_of_the_lock_is_complete():
    connectors = {f"spark-{version}" for version in jars.CONNECTORS.values()}
    for group in ("broker", "tools", "files", "connector", *connectors):
        found = jars.locked(group)
        assert found
        assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in found)


@pytest.mark.parametrize("version", OTHER_KAFKAS)
def test_each_kafka_that_a_stack_may_be_asked_for_is_locked(version):
    found = jars.locked(f"kafka-{version}", lock=jars.BROKERS_LOCK)
    assert {jar.version for jar in found if jar.organisation == "org.apache.kafka"} == {version}
    assert {"kafka_2.13", "kafka-clients", "kafka-server"} <= {jar.name for jar in found}
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in found)


def test_broker_and_connector_each_have_their_own_client():
    clients = {jar.version for jar in jars.locked("broker", "connector") if jar.name == "kafka-clients"}
    assert len(clients) == 2


@pytest.mark.parametrize(
    ("spark_version", "connector"),
    [("3.5.7", "3.5.7"), ("4.0.5", "4.0.4"), ("4.1.4", "4.1.3"), ("4.2.0", "4.2.0"), ("4.3.0", "4.2.0")],
)
def test_each_spark_has_its_connector(spark_version, connector):
    assert jars.connector_version(spark_version) == connector


@pytest.mark.parametrize(
    ("spark_version", "scala"), [("3.5.7", "2.12"), ("4.0.5", "2.13"), ("4.2.0", "2.13")]
)
def test_a_stack_has_jars_of_one_scala_and_one_kafka_client_for_spark(spark_version, scala):
    _, *groups = jars.groups_of(spark_version)
    found = jars.locked(*groups)
    assert {jar.name.rpartition("_")[2] for jar in found if "_2." in jar.name} == {scala}
    assert [jar.name for jar in found].count("kafka-clients") == 1
    assert any(jar.name.startswith("spark-connect") for jar in found) is spark_version.startswith("3.")


def test_an_unknown_spark_is_an_error_that_names_the_known_ones():
    with pytest.raises(TestbedError, match=r"3\.4\.1") as error:
        jars.connector_version("3.4.1")
    assert "4.2" in error.value.hint


def test_a_jar_with_a_wrong_checksum_is_deleted_and_named():
    right = in_cache(
        jars.Jar("g", "o", "right", "1", "c73ec8d0d91c11b36c0a1b1c1e8a6e0d3d0f1f3a1b5b5b5b5b5b5b5b5b5b5b5b")
    )
    with pytest.raises(FetchError, match=r"wrong checksum: right-1\.jar") as error:
        jars.verify([right])
    assert not right.path.exists()
    assert "deleted" in error.value.detail
    assert "try again" in error.value.hint


def test_a_jar_with_the_right_checksum_is_kept():
    import hashlib

    jar = in_cache(jars.Jar("g", "o", "good", "1", hashlib.sha256(CONTENT).hexdigest()))
    jars.verify([jar])
    assert jar.path.exists()


def test_without_network_the_end_of_ivys_output_is_shown(executable, spark):
    java = executable("java", "echo ':: problems summary ::'; echo 'UnknownHostException: somewhere'; exit 1")
    with pytest.raises(FetchError, match="50 of 50 jars could not be fetched") as error:
        jars.provide(java, spark, ("broker", "connector", "spark-4.2.0"), quiet)
    assert "UnknownHostException: somewhere" in error.value.detail
    assert "TIDEMARK_IVY_SETTINGS" in error.value.hint


def test_a_fetched_jar_with_a_wrong_checksum_is_refused(executable, spark):
    """A mirror that gives another file under the name."""
    java = executable(
        "java",
        'while [ "$1" != -retrieve ]; do shift; done\n'
        'folder="${2%%/lib/*}/lib/org.apache.kafka"; mkdir -p "$folder"\n'
        'echo other > "$folder/kafka-tools-4.3.1.jar"',
    )
    with pytest.raises(FetchError, match=r"wrong checksum: kafka-tools-4\.3\.1\.jar"):
        jars.provide(java, spark, ("tools",), quiet)
    assert jars.missing(jars.locked("tools"))


def test_missing_ivy_settings_are_an_error(executable, spark, monkeypatch):
    monkeypatch.setenv("TIDEMARK_IVY_SETTINGS", "nowhere.xml")
    with pytest.raises(FetchError, match=r"nowhere\.xml"):
        jars.provide(executable("java", "exit 0"), spark, ("tools",), quiet)


def test_the_users_settings_are_passed_to_ivy(executable, spark, monkeypatch, tmp_path):
    settings = tmp_path / "company.xml"
    settings.write_text("<ivysettings/>")
    monkeypatch.setenv("TIDEMARK_IVY_SETTINGS", str(settings))
    with pytest.raises(FetchError) as error:
        jars.provide(executable("java", 'echo "$@"; exit 1'), spark, ("tools",), quiet)
    assert f"-settings {settings}" in error.value.detail
