"""Where things are, in a checkout and in an installed wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark import paths

REPORT = "from tidemark import paths as p; print(p.is_checkout(), p.root(), p.payload(), p.code_sha256())"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A clone, as far as this is about it, that may be changed."""
    for name in ("tidemark", *paths.PROGRAMS):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(paths.payload() / name, tmp_path / "clone" / name, ignore=ignore)
    (tmp_path / "clone" / "pyproject.toml").touch()
    return tmp_path / "clone"


def report(code: Path, cwd: Path) -> list[str]:
    """What another process, which imports tidemark from ``code``, knows."""
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(code)!r}); {REPORT}"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout.split()


def as_wheel(clone: Path) -> Path:
    """The same code as an installation has it."""
    site = clone.parent / "site"
    shutil.copytree(clone / "tidemark", site / "tidemark")
    for name in paths.PROGRAMS:
        shutil.copytree(clone / name, site / "tidemark" / "_payload" / name)
    return site


def test_a_checkout_is_the_project_whatever_the_current_folder(copy: Path, tmp_path: Path):
    is_checkout, root, payload, _ = report(copy, tmp_path)
    assert (is_checkout, Path(root), Path(payload)) == ("True", copy, copy)


def test_an_installation_takes_the_current_folder(copy: Path, tmp_path: Path):
    site = as_wheel(copy)
    is_checkout, root, payload, _ = report(site, tmp_path)
    assert (is_checkout, Path(root), Path(payload)) == ("False", tmp_path, site / "tidemark" / "_payload")


@pytest.mark.parametrize("mark", [".tidemark", "pyproject.toml", ".git"])
@pytest.mark.parametrize("below", ["tests", "tests/unit/deep"])
def test_an_installation_finds_the_project_of_a_subfolder(copy: Path, tmp_path: Path, mark: str, below: str):
    theirs = tmp_path / "theirs"
    (theirs / below).mkdir(parents=True)
    (theirs / mark).mkdir()
    site = as_wheel(copy)
    assert Path(report(site, theirs / below)[1]) == Path(report(site, theirs)[1]) == theirs


def test_the_nearest_project_counts(tmp_path: Path):
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    (inner / "tests").mkdir(parents=True)
    (outer / ".git").mkdir()
    assert paths.root_above(inner / "tests") == outer
    (inner / "pyproject.toml").touch()
    assert paths.root_above(inner / "tests") == inner


def test_what_lies_at_home_makes_no_project_of_the_folders_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home, work = tmp_path / "home", tmp_path / "home" / "work"
    work.mkdir(parents=True)
    for folder in (home, tmp_path):
        (folder / ".git").mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert paths.root_above(work) == work
    assert paths.root_above(home) == home


def test_what_docker_is_given_lies_in_the_payload():
    assert paths.compose_dir() == paths.payload() / "compose"
    assert (paths.compose_dir() / "Dockerfile").is_file()


def test_the_digest_is_the_same_for_a_checkout_and_its_wheel(copy: Path, tmp_path: Path):
    assert report(copy, tmp_path)[3] == report(as_wheel(copy), tmp_path)[3] == paths.code_sha256()


@pytest.mark.parametrize("name", ["tidemark/waiting.py", "pipelines/inner.py", "producers/__main__.py"])
def test_the_digest_changes_with_the_code(copy: Path, tmp_path: Path, name: str):
    with (copy / name).open("a") as file:
        file.write("\n")
    assert report(copy, tmp_path)[3] != paths.code_sha256()


def test_the_digest_changes_with_a_name(copy: Path, tmp_path: Path):
    (copy / "pipelines" / "inner.py").rename(copy / "pipelines" / "outer.py")
    assert report(copy, tmp_path)[3] != paths.code_sha256()


def test_what_is_not_code_does_not_change_the_digest(copy: Path, tmp_path: Path):
    (copy / "tidemark" / "notes.txt").write_text("nothing runs this")
    assert report(copy, tmp_path)[3] == paths.code_sha256()


def test_the_cache_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert paths.cache_dir() == tmp_path / "tidemark"


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_a_cache_that_is_not_absolute_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str):
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.cache_dir() == tmp_path / ".cache" / "tidemark"


def test_state_and_runs_are_inside_the_project():
    assert paths.state_dir().parent == paths.runs_dir().parent == paths.root()
