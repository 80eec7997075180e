"""What is kept of a user's project: its code and what lies beside it, and nothing large or hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.errors import BrokenEvidence
from tidemark.formats.project_files import (
    MOST_BYTES,
    files_of_source,
    keep_project,
    path_in_package,
    project_sha256,
)
from tidemark.formats.seal import is_intact, seal


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "src" / "adteam"
    for name in ("__init__.py", "join.py", "sql/join.sql", "__pycache__/join.pyc", ".cache/x.py", ".env"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "large.csv").write_text("x" * (MOST_BYTES + 1))
    (folder / "large.py").write_text("x" * (MOST_BYTES + 1))
    return folder


def names(name, source):
    return [inside for inside, _ in files_of_source(name, source)]


def test_a_package_is_kept_with_what_its_code_reads(package):
    assert names("adteam", package) == [
        "adteam/__init__.py", "adteam/join.py", "adteam/large.py", "adteam/sql/join.sql",
    ]  # fmt: skip


def test_of_a_folder_that_is_no_package_the_code_is_kept(package):
    (package / "__init__.py").unlink()
    assert names("adteam", package) == ["adteam/join.py", "adteam/large.py"]


def test_a_module_is_its_file(package):
    assert names("join", package / "join.py") == ["join.py"]


def test_the_copy_has_a_digest_that_tells_any_change(package, tmp_path):
    keep_project({"adteam": str(package)}, tmp_path / "one")
    keep_project({"adteam": str(package)}, tmp_path / "two")
    assert project_sha256(tmp_path / "one") == project_sha256(tmp_path / "two")

    (tmp_path / "two" / "adteam" / "join.py").rename(tmp_path / "two" / "adteam" / "joins.py")
    assert project_sha256(tmp_path / "one") != project_sha256(tmp_path / "two")


def test_what_was_kept_first_stays(package, tmp_path):
    keep_project({"adteam": str(package)}, tmp_path / "kept")
    (package / "join.py").write_text("edited meanwhile")
    keep_project({"adteam": str(package)}, tmp_path / "kept")
    assert (tmp_path / "kept" / "adteam" / "join.py").read_text() == "join.py"


def test_a_module_that_is_added_to_sealed_evidence_is_seen(package, tmp_path):
    run = tmp_path / "run"
    keep_project({"adteam": str(package)}, run / "project")
    seal(run)
    assert is_intact(run)

    (run / "project" / "adteam" / "other.py").touch()
    with pytest.raises(BrokenEvidence, match=r"project/adteam/other\.py was added"):
        is_intact(run)


def test_the_place_of_a_file_in_its_package_is_known(package):
    assert path_in_package(package / "join.py") == Path("adteam/join.py")
    assert path_in_package(package / "sql" / "join.sql") == Path("join.sql")
