"""The command of a user's job: which fields it has, which program it runs, and where that finds its modules."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidemark.errors import UsageError
from tidemark.runner import PipelineCode, RunOptions
from tidemark.runner.app_command import (
    app_path,
    app_words,
    module_of_app,
    output_field,
    sources_of_app,
    uses_connect,
)
from tidemark.runner.one_run import _must_be_possible, run_pipeline
from tidemark.stack import StackSpec
from tidemark.stack.spec import External

VALUES = {
    "bootstrap": "b:9092", "topic:orders": "run-orders", "output": "run-output", "table": "/t a", "checkpoint": "/c",
}  # fmt: skip
CODE = PipelineCode("contract.json")
WHOLE = (
    'python -m adteam.job --in {bootstrap}/{topic:orders} --out {output} \'--conf={{"c": "{checkpoint}"}}\''
)


def test_fields_are_replaced_inside_of_words_and_doubled_braces_are_one():
    words = app_words(WHOLE, VALUES, CODE)
    assert words[1:] == [
        "-m", "adteam.job", "--in", "b:9092/run-orders", "--out", "run-output", '--conf={"c": "/c"}',
    ]  # fmt: skip


def test_a_table_is_one_word_in_the_place_of_the_output():
    assert app_words(WHOLE.replace("{output}", "{table}"), VALUES, CODE)[5:7] == ["--out", "/t a"]
    assert [output_field(WHOLE.replace("{output}", name)) for name in ("{output}", "{table}")] == [
        "output",
        "table",
    ]


@pytest.mark.parametrize("out", ["{output}/{table}", "out", "{{output}}"])
def test_a_job_with_both_outputs_or_none_is_refused_before_anything_is_made(out, tmp_path):
    asked = RunOptions("contract.json", app=WHOLE.replace("{output}", out), run_dir=tmp_path / "run")

    with pytest.raises(UsageError, match=r"--app uses (neither )?\{output\}") as refused:
        run_pipeline(asked)

    assert "use one of them" in refused.value.hint
    assert not list(tmp_path.iterdir())


def test_python_is_the_interpreter_of_the_run_and_any_other_program_is_its_own():
    assert app_words(WHOLE, VALUES, CODE)[0] == sys.executable
    assert app_words(WHOLE, VALUES, replace(CODE, python=Path("/bin/sh")))[0] == "/bin/sh"
    assert app_words(WHOLE.replace("python", "env"), VALUES, CODE)[0] == "env"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (WHOLE + " {topic:clicks}", "the field {topic:clicks}, which there is not"),
        (WHOLE.replace("{output}", "out"), "uses neither {output} nor {table}"),
        (WHOLE + " --table {table}", "uses {output} and {table}"),
        (WHOLE.replace("{topic:orders}", "orders"), "does not use {topic:orders}"),
        (WHOLE + " 'open", "is no command"),
        (WHOLE.replace("python", "no-such-program"), "there is no program 'no-such-program'"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(command, says):
    with pytest.raises(UsageError, match=r".") as refused:
        app_words(command, VALUES, CODE)
    assert says in refused.value.message


def test_the_package_of_a_job_is_found_and_kept(tmp_path, monkeypatch):
    (tmp_path / "src" / "adteam").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "script.py").touch()
    monkeypatch.chdir(tmp_path)

    assert str(tmp_path / "src") in app_path(WHOLE, CODE)
    assert sources_of_app(WHOLE, CODE) == {"adteam": str(tmp_path / "src" / "adteam")}
    assert sources_of_app("python -m nothing.there {output}", CODE) == {}
    assert sources_of_app("python script.py {output}", CODE) == {"script": str(tmp_path / "script.py")}
    assert sources_of_app("spark-submit other.py", CODE) == {}
    assert module_of_app("python -m adteam.job -x") == "adteam.job"


@pytest.mark.parametrize(
    "given", [{"conf": ("a=b",)}, {"jars": (Path("a.jar"),)}, {"py_files": (Path("a.zip"),)}]
)
def test_settings_that_a_job_does_not_get_are_refused(given):
    with pytest.raises(UsageError, match="which a job does not get"):
        _must_be_possible(RunOptions("contract.json", app=WHOLE, sink="own", **given), StackSpec("local"))


@pytest.mark.parametrize("given", [{"jars": (Path("a.jar"),)}, {"packages": ("g:a:1",)}])
def test_a_driver_that_runs_already_gets_no_jars(given):
    with pytest.raises(UsageError, match="cannot be added to the driver 'mine', which runs already"):
        _must_be_possible(RunOptions("inner", driver="mine", **given), StackSpec("local"))


def test_a_job_needs_processes_of_this_machine():
    with pytest.raises(UsageError, match="--app needs the backend local, and the stack is compose"):
        _must_be_possible(RunOptions("contract.json", app=WHOLE, sink="own"), StackSpec("compose"))


def test_the_command_of_a_run_has_the_job():
    assert (
        "--app 'python job.py {output}'"
        in RunOptions("c.json", app="python job.py {output}", sink="own").command()
    )


CLIENT = "python -m adteam.job --remote {connect} --out {output}"


def test_a_connect_program_has_the_address_of_a_driver():
    assert uses_connect(CLIENT)
    assert not uses_connect("python job.py {{connect}} {output}")


@pytest.mark.parametrize("backend", ["local", "compose"])
def test_a_connect_program_runs_on_each_backend_and_its_driver_gets_jars(backend):
    _must_be_possible(
        RunOptions("c.json", app=CLIENT, sink="own", jars=(Path("a.jar"),), packages=("g:a:1",)),
        StackSpec(backend),
    )
    with pytest.raises(UsageError, match="--app is given, and conf, which a job does not get"):
        _must_be_possible(RunOptions("c.json", app=CLIENT, sink="own", conf=("a=b",)), StackSpec(backend))


def test_a_connect_program_needs_a_driver_of_its_own(tmp_path):
    theirs = StackSpec("external", external=External("b:9092", "sc://d:1", str(tmp_path)))
    with pytest.raises(
        UsageError, match=r"--app with \{connect\} starts a driver, and the stack is external"
    ):
        _must_be_possible(RunOptions("c.json", app=CLIENT, sink="own"), theirs)


def test_the_registry_need_not_be_used_and_is_an_error_if_the_run_has_none():
    registry = {"registry": "http://127.0.0.1:8081"}
    assert app_words(WHOLE, VALUES, CODE, registry) == app_words(WHOLE, VALUES, CODE)
    assert app_words(WHOLE + " {registry}", VALUES, CODE, registry)[-1] == "http://127.0.0.1:8081"
    with pytest.raises(UsageError, match="the run has no registry") as error:
        app_words(WHOLE + " {registry}", VALUES, CODE, {"registry": ""})
    assert "--registry" in error.value.hint
