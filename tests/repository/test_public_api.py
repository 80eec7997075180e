"""The public interface: what ``tidemark`` exports, what it needs, and the examples of the page that describes it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest

import tidemark
from tests.repository import tree
from tidemark import public_api

PAGE = tree.ROOT / "docs" / "reference" / "python-api.md"
REFUSED = (
    "duckdb",
    "msgspec",
    "typer",
    "rich",
    "psutil",
    "confluent_kafka",
    "watchdog",
    "zstandard",
    "faker",
)
"""What a user's environment with PySpark and pandas does not have."""

REFUSAL = f"""
import sys
from importlib.abc import MetaPathFinder
class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"refused: {{name}}", name=name)
REFUSED = {REFUSED!r}
sys.meta_path.insert(0, Refuse())
"""
OF_A_PIPELINE = """
import tidemark
sorted(dir(tidemark))
tidemark.Contract(
    "j", tidemark.JoinKind.INNER, tidemark.Side("a", "id", ("k",), "t", 0), tidemark.Side("b", "id", ("k",), "t", 0),
    tidemark.Bound(0, 0), tidemark.Output("id", "id2"),
)
source = tidemark.Source("a", "t", (tidemark.Field("k"),), 0, ("k",))
tidemark.Chain("c", tidemark.Deduplicate(source, ("k",)), ("k",))
assert callable(tidemark.read_json)
"""


def examples() -> dict[str, str]:
    """The Python examples of the page by the heading that they stand below."""
    found = re.findall(r"^## (.*?)$.*?^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return dict(found)


def run(
    program: str, *arguments: str | Path, python: str | Path = sys.executable, path: str | Path = tree.ROOT
) -> str:
    """What a program prints that finds ``tidemark`` in ``path``."""
    found = f"import sys; sys.path.insert(0, {str(path)!r})\n{program}"
    command: Sequence[str | Path] = [python, "-c", found, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_is_there():
    assert len(tidemark.__all__) == len(set(tidemark.__all__))  # their order is ruff's (RUF022)
    assert set(tidemark.__all__) <= set(dir(tidemark))
    for name in tidemark.__all__:
        assert getattr(tidemark, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tidemark.nothing


def test_the_type_checker_sees_the_same_names():
    text = inspect.getsource(tidemark)
    block = text[text.index("if TYPE_CHECKING:") : text.index("__version__ =")]
    declared = set(re.findall(r"\b\w+\b", " ".join(re.findall(r"import (\([^)]*\)|[^\n]*)", block))))
    assert declared == set(tidemark.__all__) - {"__version__"}


def test_no_public_name_is_that_of_a_module():
    """``import tidemark.NAME`` would put the module in its place."""
    assert [name for name in tidemark.__all__ if find_spec(f"tidemark.{name}")] == []


def test_the_options_of_run_are_those_of_run_options():
    own = {field.name for field in fields(tidemark.RunOptions)} - {"pipeline"}
    assert set(public_api.Options.__annotations__) == own


def test_the_types_of_a_pipeline_need_the_standard_library_only():
    assert run(REFUSAL + OF_A_PIPELINE) == ""
    with pytest.raises(AssertionError, match="refused: "):
        run(REFUSAL + "import tidemark; tidemark.Verdict")


def test_a_pipeline_is_imported_where_only_pyspark_is(tmp_path):
    """In an environment of its own with nothing in it: what is imported is the code that a run hands to a pipeline."""
    from tidemark.runner.programs import write_code_zip

    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    code = write_code_zip(tmp_path / "code.zip")
    assert run(OF_A_PIPELINE, python=tmp_path / "env" / "bin" / "python", path=code) == ""


def test_read_json_needs_pyspark_when_it_is_called():
    refusal = REFUSAL.replace("REFUSED = (", "REFUSED = ('pyspark', ")
    assert run(refusal + OF_A_PIPELINE) == ""
    with pytest.raises(AssertionError, match="refused: pyspark"):
        run(refusal + "import tidemark; tidemark.read_json(None, 'a', 'b STRING', 'b')")


def test_the_page_has_every_public_name():
    table = "\n".join(line for line in PAGE.read_text().splitlines() if line.startswith("|"))
    named = set(re.findall(r"`(\w+)`", table)) - {"accept"}
    assert named == set(tidemark.__all__)


def test_the_example_of_a_pipeline_is_one(tmp_path):
    file = tmp_path / "orders_paid.py"
    file.write_text(examples()["A pipeline"])
    described = subprocess.run(
        [sys.executable, "-P", "-m", "pipelines", file, "--describe"],
        capture_output=True, text=True, env={"PYTHONPATH": str(tree.ROOT)}, check=True,
    )  # fmt: skip
    assert '"accept": ["one-sided-watermark"]' in described.stdout


def test_the_example_of_a_run_asks_for_what_can_be(monkeypatch, capsys):
    from tidemark import runner

    asked = []

    def note(options):
        asked.append(options)
        return tidemark.RunResult(tidemark.check(GOLDEN / "typed_valid"), GOLDEN, "0" * 64, options.command())

    monkeypatch.setattr(runner, "run_pipeline", note)
    exec(compile(examples()["A run"], str(PAGE), "exec"), {"__name__": "__main__"})
    assert asked == [
        tidemark.RunOptions(
            "left_outer", impressions=2_000, seed=7, faults="executor", accept=("one-sided-watermark",)
        )
    ]
    assert "--accept one-sided-watermark" in capsys.readouterr().out


GOLDEN = tree.ROOT / "tests" / "golden" / "evidence"


def test_the_example_of_a_judgement_judges():
    printed = run(examples()["A judgement"], GOLDEN / "defect_condition_bound").splitlines()
    assert printed[0] == "VALID 0"
    assert "condition-bounds-the-state" in printed[-1]
    assert len(printed) == 2  # no new finding


def test_the_example_of_the_defects_lists_them():
    printed = run(examples()["Accepted defects"]).splitlines()
    assert [line.split()[0] for line in printed] == list(tidemark.KNOWN_DEFECTS)


def test_check_writes_only_if_it_is_asked_to(tmp_path):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(GOLDEN / "typed_valid", folder)
    verdict = tidemark.check(folder)
    assert not (folder / "verdict.json").exists()
    assert tidemark.check(str(folder), save=True) == verdict
    assert (folder / "verdict.json").is_file()
