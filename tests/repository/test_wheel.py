"""The wheel: one import root, the bundled programs inside it, and the same code as the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.repository import tree
from tidemark import paths

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
BUNDLED = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "flights_weather")


def _run(command: list[str | Path], cwd: Path, **environment: str) -> str:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TIDEMARK"))
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        env=inherited | environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree with the locked tools."""
    folder = tmp_path_factory.mktemp("wheel")
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, tree.ROOT], folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it; it borrows the dependencies, which take a minute to install."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    # A path that a .pth file adds is searched last; the .pth files in it (the checkout's) are not followed.
    (folder / SITE / "borrowed.pth").write_text(f"{Path(sys.prefix) / SITE}\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    _run([*pip, "--ignore-installed", wheel], folder)
    return folder


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
    packed = {name for name in names if name.startswith("tidemark/")}
    assert packed == wanted, f"fix: tool.hatch.build in pyproject.toml; differing: {sorted(packed ^ wanted)}"


def test_the_command_works(installed: Path, elsewhere: Path):
    shown = _run([installed / "bin" / "tidemark", "--help"], elsewhere)
    assert "run" in shown
    assert _run([installed / "bin" / "tidemark", "--version"], elsewhere).startswith("tidemark ")


def test_it_is_the_code_of_the_checkout(installed: Path, elsewhere: Path):
    program = "from tidemark import paths as p; print(p.PACKAGE, p.is_checkout(), p.root(), p.code_sha256())"
    package, is_checkout, root, digest = _run(
        [installed / "bin" / "python", "-c", program], elsewhere
    ).split()
    assert Path(package) == installed / SITE / "tidemark"
    assert is_checkout == "False"
    assert Path(root) == elsewhere
    assert digest == paths.code_sha256()


@pytest.mark.parametrize("name", BUNDLED)
def test_the_bundled_pipelines_are_there(installed: Path, elsewhere: Path, name: str):
    """Also where the current folder holds a stranger's pipelines."""
    payload = installed / SITE / "tidemark" / "_payload"
    described = _run(
        [installed / "bin" / "python", "-P", "-m", "pipelines", name, "--describe"],
        elsewhere,
        PYTHONPATH=str(payload),
    )
    assert json.loads(described)["name"] == name


def test_the_bundled_producers_are_there(installed: Path, elsewhere: Path):
    payload = installed / SITE / "tidemark" / "_payload"
    shown = _run(
        [installed / "bin" / "python", "-P", "-m", "producers", "--help"], elsewhere, PYTHONPATH=str(payload)
    )
    assert "generate" in shown


def test_a_strangers_pipelines_are_not_hidden(installed: Path, elsewhere: Path):
    program = "import pipelines; print(pipelines.OWNER)"
    assert _run([installed / "bin" / "python", "-c", program], elsewhere) == "stranger\n"


@pytest.mark.long
def test_it_installs_and_runs_from_an_empty_environment(wheel: Path, elsewhere: Path):
    """Everything by pip from the registry, at the newest versions that pyproject.toml allows; then a join."""
    venv.create(elsewhere / "env", with_pip=True)
    bin_folder = elsewhere / "env" / "bin"
    _run([bin_folder / "python", "-m", "pip", "install", "--quiet", wheel], elsewhere)
    try:
        shown = _run(
            [bin_folder / "tidemark", "run", "left_outer", "--impressions", "500", "--json"], elsewhere
        )
    finally:
        _run([bin_folder / "tidemark", "down"], elsewhere)
    assert json.loads(shown)["verdict"] == "VALID"
