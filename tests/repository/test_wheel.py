"""The wheel: one import root, the bundled programs inside it, and the same code as the checkout."""

from __future__ import annotations

import json
import venv
import zipfile
from pathlib import Path

import pytest

from tests.repository import tree
from tests.support.tiers import every_day
from tests.support.wheels import SITE, build_wheel, environment_with, run_elsewhere
from tidemark import paths
from tidemark.reports.html_report import BUNDLE

BUNDLED = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "flights_weather")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_with(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A stranger's folder, who has pipelines of his own."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "__init__.py").write_text("OWNER = 'stranger'\n")
    return tmp_path


def test_only_tidemark_is_at_top_level(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    roots = {name.split("/")[0] for name in names}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"tidemark"}


def test_everything_that_is_in_the_tree_is_in_the_wheel(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    listed = [tree.name_of(path) for path in tree.files()]
    wanted = {name for name in listed if name.startswith("tidemark/")}
    wanted |= {
        f"tidemark/_payload/{name}"
        for name in listed
        if name.startswith(("producers/", "pipelines/", "spark_bugs/", "compose/"))
    }
    wanted |= {
        tree.name_of(path) for path in BUNDLE.glob("*")
    }  # what `make view` has built, if it was called
    packed = {name for name in names if name.startswith("tidemark/")}
    assert packed == wanted, f"fix: tool.hatch.build in pyproject.toml; differing: {sorted(packed ^ wanted)}"


def test_the_command_works(installed: Path, elsewhere: Path):
    shown = run_elsewhere([installed / "bin" / "tidemark", "--help"], elsewhere)
    assert "run" in shown
    assert run_elsewhere([installed / "bin" / "tidemark", "--version"], elsewhere).startswith("tidemark ")


def test_it_is_the_code_of_the_checkout(installed: Path, elsewhere: Path):
    program = "from tidemark import paths as p; print(p.PACKAGE, p.is_checkout(), p.root(), p.code_sha256())"
    package, is_checkout, root, digest = run_elsewhere(
        [installed / "bin" / "python", "-c", program], elsewhere
    ).split()
    assert Path(package) == installed / SITE / "tidemark"
    assert is_checkout == "False"
    assert Path(root) == elsewhere
    assert digest == paths.code_sha256()


@pytest.mark.parametrize("name", every_day(BUNDLED, ("left_outer", "flights_weather")))
def test_the_bundled_pipelines_are_there(installed: Path, elsewhere: Path, name: str):
    """Also where the current folder holds a stranger's pipelines."""
    payload = installed / SITE / "tidemark" / "_payload"
    described = run_elsewhere(
        [installed / "bin" / "python", "-P", "-m", "pipelines", name, "--describe"],
        elsewhere,
        PYTHONPATH=str(payload),
    )
    assert json.loads(described)["name"] == name


def test_the_bundled_producers_are_there(installed: Path, elsewhere: Path):
    payload = installed / SITE / "tidemark" / "_payload"
    shown = run_elsewhere(
        [installed / "bin" / "python", "-P", "-m", "producers", "--help"], elsewhere, PYTHONPATH=str(payload)
    )
    assert "generate" in shown


def test_a_strangers_pipelines_are_not_hidden(installed: Path, elsewhere: Path):
    program = "import pipelines; print(pipelines.OWNER)"
    assert run_elsewhere([installed / "bin" / "python", "-c", program], elsewhere) == "stranger\n"


@pytest.mark.long
def test_it_installs_and_runs_from_an_empty_environment(wheel: Path, elsewhere: Path):
    """Everything by pip from the registry, at the newest versions that pyproject.toml allows; then a join."""
    venv.create(elsewhere / "env", with_pip=True)
    bin_folder = elsewhere / "env" / "bin"
    run_elsewhere([bin_folder / "python", "-m", "pip", "install", "--quiet", wheel], elsewhere)
    try:
        shown = run_elsewhere(
            [bin_folder / "tidemark", "run", "left_outer", "--impressions", "500", "--json"], elsewhere
        )
    finally:
        run_elsewhere([bin_folder / "tidemark", "down"], elsewhere)
    assert json.loads(shown)["verdict"] == "VALID"
