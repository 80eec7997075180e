"""Where the modules of a user's pipeline are looked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidemark import paths
from tidemark.runner.pipeline_code import PipelineCode
from tidemark.runner.project_path import is_module, project_path


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, as the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [])
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def names(pipeline, root, **options):
    found = map(Path, project_path(pipeline, **options))
    return [str(folder.relative_to(root)) for folder in found if folder.is_relative_to(root)]


@pytest.mark.parametrize("pipeline", ["inner", "joins/contract.json", "a b.c"])
def test_what_is_no_code_of_the_user_has_no_path(pipeline, project):
    assert project_path(pipeline) == []


def test_a_src_folder_comes_before_the_project_itself(project):
    (project / "src").mkdir()
    assert names("adteam.join:CONTRACT", project) == ["src", "."]


def test_a_package_that_is_called_src_is_no_root(project):
    (project / "src").mkdir()
    (project / "src" / "__init__.py").touch()
    assert names("src.join", project) == ["."]


def test_a_command_in_a_subfolder_means_the_same_project(project, monkeypatch):
    (project / "src" / "adteam").mkdir(parents=True)
    monkeypatch.chdir(project / "src" / "adteam")
    assert names("adteam.join", project) == ["src", "."]


def test_a_file_finds_what_lies_beside_it_and_the_packages_of_its_own_project(project, monkeypatch):
    (project / "joins").mkdir()
    (project / "src").mkdir()
    monkeypatch.chdir("/")
    assert names(str(project / "joins" / "orders.py"), project) == ["joins", "src", "."]


@pytest.mark.parametrize(
    ("table", "folder"),
    [
        ('[tool.pytest.ini_options]\npythonpath = ["lib"]', "lib"),
        ('[tool.pytest.ini_options]\npythonpath = "lib"', "lib"),
        ('[tool.setuptools.packages.find]\nwhere = ["lib"]', "lib"),
        ('[tool.setuptools.package-dir]\n"" = "lib"', "lib"),
        ('[[tool.poetry.packages]]\ninclude = "adteam"\nfrom = "lib"', "lib"),
        ('[tool.hatch.build.targets.wheel]\npackages = ["lib/adteam"]', "lib"),
    ],
)
def test_roots_that_the_configuration_names_are_found(table, folder, project):
    (project / "pyproject.toml").write_text(table)
    (project / "lib").mkdir()
    assert names("adteam.join", project) == [folder, "."]


@pytest.mark.parametrize(
    "text", ["not TOML", "tool = 3", "[tool]\npytest = 3", "[tool.setuptools.packages.find]\nwhere = [3]"]
)
def test_a_configuration_that_says_nothing_is_passed_over(text, project):
    (project / "pyproject.toml").write_text(text)
    assert names("adteam.join", project) == ["."]


def test_a_folder_that_is_named_comes_first_with_its_src(project):
    (project / "kept" / "src").mkdir(parents=True)
    assert names("adteam.join", project, project=project / "kept") == ["kept/src", "kept", "."]


def test_what_pytest_or_the_environment_has_put_on_the_path_is_handed_on(project, monkeypatch):
    for name in ("own", "lib/python3/site-packages"):
        (project / name).mkdir(parents=True)
    given = [project / "own", project / "absent", project / "lib/python3/site-packages", paths.PACKAGE.parent]
    monkeypatch.setattr(sys, "path", [*map(str, given), ""])

    assert names("adteam.join", project) == [".", "own"]
    assert str(paths.PACKAGE.parent) not in project_path("adteam.join")


def test_a_module_is_told_from_a_file_and_a_name():
    assert all(map(is_module, ("adteam.join", "adteam.join:CONTRACT", "join:CONTRACT")))
    assert not any(map(is_module, ("inner", "join.py", "./a.json", "a/b.c:D", "a..b", "1.2", "a:b:c")))


def test_packages_that_go_with_a_pipeline_come_before_its_project(tmp_path: Path) -> None:
    (tmp_path / "join.py").touch()

    found = PipelineCode(str(tmp_path / "join.py"), py_files=(tmp_path / "helpers.zip",)).path

    assert found[:2] == [str(tmp_path / "helpers.zip"), str(tmp_path)]
