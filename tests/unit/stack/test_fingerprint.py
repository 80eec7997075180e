"""The fingerprint changes with everything that shapes a stack, and with nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark import paths
from tidemark.stack import StackSpec
from tidemark.stack.fingerprint import digest_of
from tidemark.stack.local.local_backend import LocalBackend

SPEC = StackSpec()
REPORT = """
import sys
sys.path.insert(0, {code!r})
from pathlib import Path
from tidemark.stack.backends import backend_of
from tidemark.stack.fingerprint import digest_of
from tidemark.stack.spec import StackSpec
spec = StackSpec(backend={backend!r}, brokers=3)
print(digest_of(spec, backend_of(spec, Path("home"))))
"""


@pytest.fixture(autouse=True)
def java(executable, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(executable("java", "").parents[1]))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The code of tidemark, to be edited."""
    clone = tmp_path / "clone"
    for name in ("tidemark", "compose", *paths.PROGRAMS):
        shutil.copytree(
            paths.PACKAGE.parent / name, clone / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    (clone / "pyproject.toml").touch()
    return clone


def reported(code: Path, backend: str = "local", **env: str) -> str:
    """The digest that this code, in a process of its own, has for a stack."""
    argv = [sys.executable, "-P", "-c", REPORT.format(code=str(code), backend=backend)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ, **env}).stdout


def edit(code: Path, name: str, old: str, new: str) -> None:
    path = next((code / "tidemark" / "stack").rglob(name))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_specs_and_interpreters_have_different_fingerprints(executable):
    def digest(spec):
        return digest_of(spec, LocalBackend(spec))

    one = digest(SPEC)
    assert one == digest(StackSpec())
    assert one != digest(StackSpec(kafka_port=20000))
    assert one != digest(StackSpec(brokers=3))
    assert one != digest(StackSpec(python=executable("python", f'exec {sys.executable} "$@"')))


@pytest.mark.parametrize("backend", ["local", "compose"])
def test_an_edit_without_effect_on_a_launch_keeps_the_fingerprint(copy, backend):
    before = reported(copy, backend)
    for path in [*(copy / "tidemark" / "stack").rglob("*.py"), copy / "tidemark" / "processes.py"]:
        with path.open("a") as file:
            file.write("\n# A remark.\n")
    assert reported(copy, backend) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("kafka_settings.py", '"-Xmx512m"', '"-Xmx600m"', id="heap-of-the-broker"),
        pytest.param(
            "kafka_settings.py", "logger.config.level = warn", "logger.config.level = info", id="logging"
        ),
        pytest.param(
            "spark_settings.py", "EXECUTORS_PER_DRIVER = 2", "EXECUTORS_PER_DRIVER = 4", id="executors"
        ),
        pytest.param(
            "kafka_settings.py", "    settings = {", '    settings = {"a.setting": 1, ', id="broker-setting"
        ),
        pytest.param("launch_specs.py", '"--webui-port", "0"', '"--webui-port", "1"', id="argument"),
        pytest.param("launch_specs.py", '"SPARK_SCALA_VERSION": "2.12"', '"NEW": "1"', id="environment"),
        pytest.param("launch_specs.py", '"format", "-t"', '"format", "-i", "-t"', id="formatting"),
        pytest.param("cds.py", "-Xlog:cds=off", "-Xlog:cds=info", id="options-with-an-archive"),
    ],
)
def test_a_change_of_a_launch_changes_the_fingerprint(copy, name, old, new):
    before = reported(copy)
    edit(copy, name, old, new)
    assert reported(copy) != before


def test_another_jar_changes_the_fingerprint(copy):
    before = reported(copy)
    lock = next((copy / "tidemark" / "stack").rglob("jars.lock"))
    lines = lock.read_text().splitlines(keepends=True)
    changed = next(number for number, line in enumerate(lines) if line.startswith("connector "))
    lines[changed] = lines[changed].rstrip("\n")[:-1] + "x\n"
    lock.write_text("".join(lines))
    assert reported(copy) != before


def test_a_change_of_the_compose_files_changes_the_fingerprint(copy):
    before = reported(copy, "compose")
    with (copy / "compose" / "compose.yaml").open("a") as file:
        file.write("# another\n")
    after = reported(copy, "compose")
    assert after != before
    edit(copy, "container_runtime.py", 'lines = ["set -e"', 'lines = ["set -ex"')
    assert reported(copy, "compose") != after


def test_the_shell_and_the_folder_do_not_change_the_fingerprint(copy, tmp_path):
    other = {"PATH": f"/elsewhere:{os.environ['PATH']}", "LANG": "de_DE.UTF-8", "TMPDIR": str(tmp_path)}
    assert reported(copy, **other) == reported(copy)
