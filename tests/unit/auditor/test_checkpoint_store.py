"""A checkpoint in a store is read as one in a folder: what is copied, and what is said where it cannot be read."""

from __future__ import annotations

import builtins
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.support.s3_server import S3Server, s3_server
from tidemark.auditor.checkpoint_store import is_in_a_store, opened_checkpoint
from tidemark.errors import TestbedError, UsageError

FILES = {
    "metadata": '{"id":"the-query"}',
    "offsets/0": "planned 0",
    "offsets/1": "planned 1",
    "commits/0": "committed 0",
    "sources/0/0": "began",
    "state/0/1/1.delta": "version 1",
    "state/0/1/2.delta": "version 2",
}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def url(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A checkpoint in the store, which this process may read."""
    for name, text in FILES.items():
        (tmp_path / "query" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "query" / name).write_text(text)
    client = {"endpoint_url": server.environment["FSSPEC_S3_ENDPOINT_URL"], "key": "tests", "secret": "tests"}
    monkeypatch.setitem(fsspec.config.conf, "s3", client)
    return server.upload(tmp_path / "query", tmp_path.name)


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def of(*folders: str) -> dict[str, str]:
    return {name: text for name, text in FILES.items() if name.partition("/")[0] in folders}


LOG = ("metadata", "offsets", "commits", "sources")


def test_the_log_is_copied_and_the_copy_is_gone_at_the_end(url: str) -> None:
    with opened_checkpoint(url) as checkpoint:
        assert texts(checkpoint.folder) == of(*LOG)
    assert not checkpoint.folder.exists()


def test_what_is_written_meanwhile_is_seen(url: str, server: S3Server) -> None:
    root = url.removeprefix("s3://")
    with opened_checkpoint(url) as checkpoint:
        server.store.pipe_file(f"{root}/offsets/2", b"planned 2")
        server.store.rm_file(f"{root}/offsets/0")

        checkpoint.refresh()

        assert texts(checkpoint.folder) == {**of(*LOG), "offsets/2": "planned 2"}


def test_objects_that_stand_for_folders_are_passed_over(url: str, server: S3Server) -> None:
    bucket, _, root = url.removeprefix("s3://").partition("/")
    for folder in ("", "offsets/", "commits/", "sources/", "state/", "state/0/", "state/0/1/"):
        server.store.call_s3("put_object", Bucket=bucket, Key=f"{root}/{folder}", Body=b"")

    with opened_checkpoint(url) as checkpoint:
        checkpoint.refresh()
        checkpoint.fetch_state(lambda _name: True)

        assert texts(checkpoint.folder) == FILES


def test_of_the_state_what_is_wanted_is_copied(url: str) -> None:
    with opened_checkpoint(url) as checkpoint:
        checkpoint.fetch_state(lambda name: name == "1.delta")

        assert texts(checkpoint.folder) == {**of(*LOG), "state/0/1/1.delta": "version 1"}


def test_nothing_is_written_to_the_store(url: str, server: S3Server) -> None:
    before = server.objects()

    with opened_checkpoint(url) as checkpoint:
        checkpoint.fetch_state(lambda _name: True)

    assert server.objects() == before
    assert before


def test_a_folder_is_read_where_it_is(tmp_path: Path) -> None:
    with opened_checkpoint(str(tmp_path)) as checkpoint:
        assert checkpoint.folder == tmp_path


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("s3://bucket/path", True), ("hdfs://host/path", True), ("/a/b", False), ("a:b//c", False)],
)
def test_a_store_is_named_by_a_url(name: str, is_one: bool) -> None:
    assert is_in_a_store(name) is is_one


@pytest.mark.parametrize("place", ["s3://checkpoints/no-such-query", "s3://no-such-bucket/query"])
def test_a_checkpoint_that_is_not_there_is_said_to_be_so(url: str, place: str) -> None:
    with pytest.raises(UsageError, match=f"there is no checkpoint '{place}'"), opened_checkpoint(place):
        pass


def test_a_store_that_does_not_answer_is_an_error_that_says_what_it_said(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = {"endpoint_url": "http://127.0.0.1:1", "config_kwargs": {"retries": {"max_attempts": 0}}}
    monkeypatch.setitem(fsspec.config.conf, "s3", {**fsspec.config.conf["s3"], **nowhere})

    with pytest.raises(UsageError, match="cannot be read") as caught, opened_checkpoint(url):
        pass

    assert "127.0.0.1:1" in caught.value.detail
    assert "FSSPEC_S3_ENDPOINT_URL" in caught.value.hint


@pytest.mark.parametrize(
    ("place", "said"),
    [("warp://bucket/query", "warp"), ("gs://bucket/query", "gcsfs")],
    ids=["unknown", "missing"],
)
def test_a_store_without_its_package_is_an_error_that_names_it(
    place: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "gcsfs":
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(UsageError, match=place) as caught, opened_checkpoint(place):
        pass

    assert said in caught.value.detail


def test_a_full_disk_of_this_machine_is_no_fault_of_the_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: Any, **_more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fsspec.core.url_to_fs(url)[0], "get_file", full)

    with pytest.raises(TestbedError, match="does not fit") as caught, opened_checkpoint(url):
        pass

    assert "TMPDIR" in caught.value.hint
