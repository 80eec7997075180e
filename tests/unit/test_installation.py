"""This package beside a stranger's distribution of the same import name: each has overwritten files of the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tidemark
from tidemark import installation, paths

PROJECT = tomllib.loads((paths.PACKAGE.parent / "pyproject.toml").read_text())["project"]


@pytest.fixture
def site(tmp_path):
    """A folder of installed packages with this one in it."""
    site = tmp_path / "site"
    shutil.copytree(paths.PACKAGE, site / "tidemark", ignore=shutil.ignore_patterns("__pycache__"))
    record(site, "tidemark_spark-0.1.0", "tidemark-spark", ["tidemark/__init__.py"])
    return site


def record(site: Path, stem: str, name: str, files: list[str]) -> None:
    """What pip leaves of an installation."""
    folder = site / f"{stem}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {stem.split('-')[1]}\n")
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def run(site: Path, program: str) -> subprocess.CompletedProcess[str]:
    found = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=found,
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_distribution_is_named_once():
    assert PROJECT["name"] == installation.DISTRIBUTION == tidemark.DISTRIBUTION


def test_alone_it_is_imported_without_a_word(site):
    done = run(site, "import tidemark; print(tidemark.__file__)")
    assert (done.stdout, done.stderr) == (f"{site}/tidemark/__init__.py\n", "")
    assert installation.other_owners(site) == []


def test_a_strangers_distribution_beside_it_is_warned_of_and_bad(site):
    record(site, "tidemark-0.1.4", "tidemark", ["tidemark/__init__.py", "tidemark/client.py"])
    assert installation.other_owners(site) == ["tidemark 0.1.4"]
    done = run(site, "import tidemark; from tidemark import installation; print(installation.problem())")
    assert "RuntimeWarning: another distribution has files in" in done.stderr
    assert done.stdout == f"tidemark 0.1.4 has files in {site}/tidemark, too\n"


def test_a_distribution_of_another_name_with_files_of_the_package_is_found(site):
    record(site, "tide-1.0", "tide", ["tidemark/x.py"])
    record(site, "other-1.0", "other", ["other/__init__.py"])
    assert installation.other_owners(site) == ["tide 1.0"]


def test_the_command_ends_with_an_error_where_the_package_is_the_strangers(site):
    (site / "tidemark" / "__init__.py").write_text("__version__ = '0.1.4'\n")
    done = run(site, "from tidemark.cli import main; main()")
    assert done.returncode == 4
    assert "is of another package, which took the place of tidemark-spark's" in done.stderr
    assert "pip uninstall tidemark tidemark-spark" in done.stderr
    assert "Traceback" not in done.stderr
