"""The driver reads a checkpoint from a folder and from a store alike, and says why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3_server import BUCKET, S3Server, s3_server
from tidemark.errors import SinkFailed, SinkRefused
from tidemark.sink.client.hadoop_settings import store_settings
from tidemark.sink.driver.checkpoint_files import CheckpointFiles, LocalFiles, checkpoint_files
from tidemark.sink.driver.in_flight import newest, query_id
from tidemark.sink.sink_options import read_options

OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1767225600000,"conf":{}}\n{"in":{"0":5}}\n-\n'
PYARROW = "aws-sdk-cpp"
"""What pyarrow's ``User-Agent`` has."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(autouse=True)
def fair_weather(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.weather.agent, server.weather.delay_s, server.weather.status = PYARROW, 0.0, ""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["folder", "file URL", "s3", "s3a", "fsspec"])
def files(request: pytest.FixtureRequest, server: S3Server, tmp_path: Path) -> CheckpointFiles | None:
    """A checkpoint with a batch 10, seen in one of five ways."""
    for name, text in (("9", "v1\n{}\n"), ("10", OFFSETS), (".10.crc", "x"), (".11.tmp", "x")):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / name).write_text(text)
    (tmp_path / "metadata").write_text('{"id":"the-query"}')
    if request.param in ("folder", "file URL"):
        return checkpoint_files(str(tmp_path) if request.param == "folder" else f"file://{tmp_path}", "")
    if request.param == "fsspec":
        import fsspec

        fsspec.filesystem("memory").put(str(tmp_path), f"/{tmp_path.name}", recursive=True)
        return checkpoint_files(f"memory://{tmp_path.name}", "")
    server.upload(tmp_path, tmp_path.name)
    return checkpoint_files(f"{request.param}://{BUCKET}/{tmp_path.name}/", settings(server))


def settings(server: S3Server) -> str:
    return f"endpoint_override={server.address}&scheme=http&region=us-east-1"


def test_the_newest_batch_and_the_query_are_found(files: CheckpointFiles) -> None:
    found = newest(files)
    assert found is not None
    assert (found.batch, found.time_ms) == (10, 1767225600000)
    assert query_id(files) == "the-query"


def test_what_is_not_there_is_none(files: CheckpointFiles) -> None:
    assert files.names("commits") == []
    assert files.text("commits/0") is None


def test_a_folder_that_cannot_be_seen_from_here_is_left_out(tmp_path: Path) -> None:
    assert checkpoint_files(None, "") is None
    nowhere = checkpoint_files(str(tmp_path / "nowhere"), "")
    assert isinstance(nowhere, LocalFiles)
    assert newest(nowhere) is None
    assert query_id(nowhere) is None


@pytest.mark.parametrize("status", ["403 Forbidden", "503 Slow Down"])
def test_a_store_that_refuses_fails_the_batch_and_says_so(server: S3Server, status: str) -> None:
    files = checkpoint_files(f"s3a://{BUCKET}/q", settings(server))
    server.weather.status = status
    for read in (lambda: files.names("offsets"), lambda: files.text("metadata")):
        with pytest.raises(SinkFailed, match=f"the checkpoint s3a://{BUCKET}/q cannot be read") as failed:
            read()
        assert "nothing was written" in str(failed.value)


def test_a_slow_store_is_waited_for(server: S3Server) -> None:
    files = checkpoint_files(f"s3a://{BUCKET}/slow", settings(server))
    server.weather.delay_s = 4.0  # longer than the SDK waits by default
    assert files.names("offsets") == []


@pytest.mark.parametrize(
    ("checkpoint", "store", "said"),
    [
        ("s3a://bucket/q", "no_such_setting=1", "no_such_setting"),
        ("s3a://bucket/q", "endpoint", "bad query field"),
        ("nosuchscheme://bucket/q", "", "nosuchscheme"),
    ],
)
def test_a_store_that_cannot_be_opened_is_refused(checkpoint: str, store: str, said: str) -> None:
    with pytest.raises(SinkRefused, match=said) as refused:
        checkpoint_files(checkpoint, store)
    assert "checkpointChecks" in str(refused.value)


def test_the_address_of_the_store_is_what_spark_was_told() -> None:
    told = {
        "spark.hadoop.fs.s3a.endpoint": "https://all:9000",
        "spark.hadoop.fs.s3a.bucket.one.endpoint": "one:9000",
        "spark.hadoop.fs.s3a.bucket.one.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.secret.key": "hidden",
    }
    assert (
        store_settings("s3a://one/q", told.get) == "endpoint_override=one%3A9000&scheme=http&region=eu-west-1"
    )
    assert (
        store_settings("s3://b/q", told.get) == "endpoint_override=all%3A9000&scheme=https&region=eu-west-1"
    )
    assert store_settings("s3a://b/q", {}.get) == ""
    assert store_settings("gs://b/q", told.get) == ""
    assert store_settings("/folder", told.get) == ""


@pytest.mark.parametrize("name", ["access_key", "secret_key", "session_token"])
def test_a_login_is_refused_as_an_option_because_options_are_in_the_plan(name: str) -> None:
    with pytest.raises(SinkRefused, match=f"checkpointStore has the setting {name}") as refused:
        read_options({"kafka.bootstrap.servers": "b:1", "checkpointStore": f"{name}=hidden"})
    assert "hidden" not in str(refused.value)
