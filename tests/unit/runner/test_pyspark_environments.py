"""Environments with another PySpark, tested without a package registry."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from tidemark import paths
from tidemark.errors import FetchError
from tidemark.runner import pyspark_environments
from tidemark.runner.pyspark_environments import folder, provide


@pytest.fixture
def said() -> list[str]:
    return []


def test_an_installed_environment_is_reused(tmp_path: Path, said: list[str]) -> None:
    release = metadata.version("pyspark")
    python = tmp_path / f"pyspark-{release}" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)

    assert provide(release, tmp_path, said.append) == python
    assert said == []


def test_a_failed_installation_quotes_pip_and_leaves_no_directory(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "INDEX_URL": "http://127.0.0.1:1/simple",
        "RETRIES": "0",
        "CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)

    with pytest.raises(FetchError, match=r"PySpark 4\.0\.5 could not be installed") as error:
        provide("4.0.5", tmp_path, said.append)

    assert "pip's output" in error.value.detail
    assert "--spark PYTHON" in error.value.hint
    assert said == ["installing PySpark 4.0.5 (450 MB)"]
    assert not (tmp_path / "pyspark-4.0.5").exists()


def test_an_old_pyspark_is_not_installed_for_a_python_that_it_does_not_run_on(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark_environments.sys, "version_info", (3, 12, 1))
    with pytest.raises(FetchError, match=r"PySpark 3\.5\.7 does not run on Python 3\.12") as error:
        provide("3.5.7", tmp_path, said.append)
    assert "pyarrow<20" in error.value.hint
    assert said == []


def test_a_directory_that_cannot_be_created_is_an_error_with_a_hint(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError) as error:
        provide("4.0.5", tmp_path / "file" / "below", said.append)
    assert "--install" in error.value.hint


def test_environments_are_kept_in_the_users_cache() -> None:
    assert folder().parent == paths.cache_dir()
