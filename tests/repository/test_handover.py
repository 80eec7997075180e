"""``pytest`` as typed: another interpreter's pytest hands over to the project's own, whatever it is asked."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repository import tree

BARE = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has pytest and nothing else; its python."""
    folder = tmp_path_factory.mktemp("stranger")
    venv.create(folder, with_pip=False, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for name in BARE:
        for file in importlib.metadata.files(name) or []:
            if file.parts[0] not in ("..", "__pycache__"):
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), site / file)  # with its time, so that what is compiled fits
    return folder / "bin" / "python"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As little of a clone as a hand-over needs: root conftest.py, settings, one test that can fail."""
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copyfile(tree.ROOT / name, tmp_path / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_two.py").write_text(
        "import os, sys\n"
        "def test_where(): assert os.path.samefile(sys.prefix, os.environ['EXPECTED_PREFIX'])\n"
        "def test_failing(): assert 'FAIL' not in os.environ\n"
    )
    return tmp_path


@pytest.fixture
def run(stranger: Path) -> Run:
    """Call the stranger's pytest in a folder."""

    def call(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TIDEMARK"))
        }
        return subprocess.run(
            [stranger, "-m", "pytest", *arguments],
            cwd=folder,
            env=inherited | {"EXPECTED_PREFIX": sys.prefix} | environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return call


def test_a_foreign_pytest_hands_over(run: Run, clone: Path):
    done = run(clone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_options_of_plugins_that_it_does_not_have_are_passed_on(run: Run, clone: Path):
    done = run(clone, "-n", "2", "tests/unit", "-k", "where")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_it_works_from_a_folder_below(run: Run, clone: Path):
    done = run(clone / "tests" / "unit", "test_two.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_exit_code_is_that_of_the_tests(run: Run, clone: Path):
    done = run(clone, FAIL="1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout


def test_without_an_environment_it_says_what_to_type(run: Run, clone: Path):
    (clone / ".venv").unlink()
    done = run(clone)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "make up" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_it_can_be_told_to_stay(run: Run, clone: Path, stranger: Path):
    done = run(clone, TIDEMARK_PYTEST="here", EXPECTED_PREFIX=str(stranger.parent.parent))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
