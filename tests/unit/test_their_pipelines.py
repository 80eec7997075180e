"""How a pipeline of a user's project is found, imported and described, and what is said where that fails."""

from __future__ import annotations

import json

import pytest

from tests.support.stranger import Stranger
from tidemark.runner.project_path import project_path

CONTRACT = """
from tidemark import Bound, Contract, JoinKind, Output, Side

CONTRACT = Contract(
    name="pairs", kind=JoinKind.INNER,
    left=Side("lefts", "id", ("k",), "t", 0), right=Side("rights", "id", ("k",), "t", 0),
    bound=Bound(lower_ms=0, upper_ms=0), output=Output("left", "right"),
)


def build(lefts, rights):
    return lefts
"""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Stranger(tmp_path, {"src/adteam/plain.py": CONTRACT})


@pytest.fixture
def inspect(stranger):
    """A function: what the program of pipelines says of one without a session."""

    def inspect(pipeline, what="--inspect"):
        folders = [f"--path={folder}" for folder in project_path(pipeline)]
        return stranger.run(pipeline, what, *folders, module="pipelines")

    return inspect


def answered(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done):
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    return done.stderr


def test_a_module_of_a_src_layout_is_described_by_its_name(inspect):
    for name in ("adteam.plain", "adteam.plain:CONTRACT"):
        answer = answered(inspect(name))
        assert (answer["contract"]["name"], answer["imports_at_call"]) == ("pairs", False)


def test_what_a_module_prints_is_no_answer(inspect, stranger):
    stranger.change("src/adteam/plain.py", "CONTRACT = ", 'print("{}")\nCONTRACT = ')
    assert answered(inspect("adteam.plain"))["contract"]["name"] == "pairs"
    assert answered(inspect("adteam.plain", "--describe"))["name"] == "pairs"


def test_a_contract_is_a_pipeline_also_as_the_command_line_prints_it(inspect, stranger):
    contract = answered(inspect("adteam.plain", "--describe"))
    stranger.write("printed.json", json.dumps({"contract": contract, "mismatches": [], "plan": ""}))
    assert answered(inspect("printed.json", "--describe")) == contract


def test_a_module_that_needs_a_session_is_told_from_one_that_is_wrong(inspect):
    assert "SESSION" in answered(inspect("adteam.join:PROMISE"))["needs_session"]


def test_a_file_has_helpers_beside_it_relative_imports_of_its_package_and_data_classes(inspect, stranger):
    data = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    a: int\n"
    stranger.write("joins/orders.py", f"{data}from beside import CONTRACT, build\n")
    stranger.write("joins/beside.py", CONTRACT)
    assert answered(inspect("joins/orders.py"))["contract"]["name"] == "pairs"

    stranger.write("src/adteam/relative.py", "from .plain import CONTRACT, build\n")
    assert answered(inspect("src/adteam/relative.py"))["contract"]["name"] == "pairs"


@pytest.mark.parametrize(
    "line",
    [
        "from adteam.names import tidy",
        "import adteam.names",
        "from . import names",
        "from adteam import names as n",
    ],
)
def test_a_function_that_imports_a_module_of_the_project_when_called_is_noticed(line, inspect, stranger):
    stranger.change("src/adteam/plain.py", "    return lefts", f"    {line}\n    return lefts")
    assert answered(inspect("adteam.plain"))["imports_at_call"] is True


def test_such_an_import_is_noticed_in_a_file_outside_of_packages_too(inspect, stranger):
    late = "def late():\n    import beside\n"
    stranger.write("joins/beside.py", CONTRACT)
    stranger.write("joins/orders.py", f"from beside import CONTRACT, build\n{late}")
    assert answered(inspect("joins/orders.py"))["imports_at_call"] is True


def test_other_imports_in_functions_need_nothing(inspect, stranger):
    stranger.change("src/adteam/plain.py", "    return lefts", "    import json, os.path\n    return lefts")
    assert answered(inspect("adteam.plain"))["imports_at_call"] is False


def test_a_missing_package_is_named_with_the_line_that_imports_it(inspect, stranger):
    stranger.change("src/adteam/names.py", "import files", "import files\nimport not_there")
    stranger.change("src/adteam/plain.py", "CONTRACT = ", "from adteam.names import tidy\n\nCONTRACT = ")

    said = refused(inspect("adteam.plain"))

    assert "'adteam.plain' cannot be imported: ModuleNotFoundError: No module named 'not_there'" in said
    assert "src/adteam/names.py:4: import not_there" in said
    assert "hint: install it for" in said


def test_a_module_that_is_not_there_is_named_with_those_beside_it(inspect):
    said = refused(inspect("adteam.joins"))

    assert "there is no module 'adteam.joins'" in said
    assert "adteam has functions, join, names, plain" in said


def test_a_package_that_is_not_there_is_named_with_the_folders_that_were_searched(inspect, tmp_path):
    said = refused(inspect("nobody.join"))

    assert "there is no module 'nobody' for the pipeline 'nobody.join'" in said
    assert f"looked in {tmp_path}/src, {tmp_path}" in said
    assert "--project DIR" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def broken(:\n", "SyntaxError: invalid syntax"),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("raise KeyError\n", "KeyError"),
        ("build = 1\n", "'adteam.other' has no CONTRACT"),
    ],
)
def test_whatever_a_module_raises_is_one_error_with_its_line(text, says, inspect, stranger):
    stranger.write("src/adteam/other.py", text)

    said = refused(inspect("adteam.other"))

    assert says in said
    assert ("src/adteam/other.py:1: " in said) is ("build" not in text)


def test_a_contract_of_another_name_is_missed_by_its_name(inspect):
    assert "'adteam.plain:PROMISE' has no PROMISE" in refused(inspect("adteam.plain:PROMISE"))


def test_a_package_that_a_program_of_tidemark_hides_is_refused(inspect):
    assert "the package 'pipelines' cannot be tested" in refused(inspect("pipelines.join"))


def test_a_name_that_is_nothing_says_what_there_is(inspect):
    said = refused(inspect("outer_left"))
    assert "there is no pipeline 'outer_left'" in said
    assert "PACKAGE.MODULE:CONTRACT" in said
