"""A pipeline of somebody else's project: its modules, functions and packages, and what is said where they fail.

The project is a package in ``src`` that is installed nowhere (``tests.support.stranger``). Commands run in its folder,
on the stack that all tests share: in containers where there is an engine, and nothing of the project is in their image.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.support.stranger import Stranger
from tests.support.tiers import every_day
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.project_files import project_sha256

AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"
JOIN = "adteam.join:PROMISE"
PARCEL = """\"\"\"A package that is no part of the project.\"\"\"


def wrapped(name):
    return f"<{name}>"
"""


@pytest.fixture
def stranger(stack, tmp_path):
    return Stranger(tmp_path / "theirs")


def run(stranger, name="run", pipeline=JOIN, *options):
    """A run of the stranger's trace; its directory."""
    directory = stranger.folder / "runs" / name
    return stranger.run(
        "run", pipeline, "--trace", "trace.jsonl", "--run-dir", directory, *options
    ), RunDirectory(directory)


def must_be_valid(done):
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "VALID  orders_payments" in done.stdout


def import_when_called(stranger):
    """A function then brings no helper with it: the sources of the project are sent."""
    stranger.change("src/adteam/functions.py", "from adteam.names import tidy\n", "")
    stranger.change(
        "src/adteam/functions.py", "    return tidy", "    from adteam.names import tidy\n\n    return tidy"
    )


def values(evidence, name):
    return sorted({str(json.loads(record.value)[name]) for record in evidence.output()})


def test_a_module_with_functions_and_helpers_of_its_project_is_judged_and_can_be_run_again(
    stranger, tmp_path
):
    done, evidence = run(stranger)

    must_be_valid(done)
    assert values(evidence, "who") == ["ann", "bob", "cem"]
    kept = evidence.path / "project"
    assert (kept / "adteam" / "titles.txt").read_text() == "Mr Mrs Dr\n"
    assert evidence.manifest.project_sha256 == project_sha256(kept)
    command = f"tidemark run {JOIN} --seed 1 --trace trace.jsonl --project {kept}"
    assert done.stdout.rstrip().endswith(f"reproduce: {command}")

    stranger.change("src/adteam/names.py", ".lower()", ".upper()")
    must_be_valid(stranger.run(*command.split()[1:], "--run-dir", tmp_path / "again"))
    assert values(RunDirectory(tmp_path / "again"), "who") == values(evidence, "who")
    assert RunDirectory(tmp_path / "again").manifest.project_sha256 == evidence.manifest.project_sha256


@pytest.mark.long
def test_a_module_that_a_function_imports_when_called_is_there_and_never_an_older_one(stranger):
    import_when_called(stranger)
    done, evidence = run(stranger)
    must_be_valid(done)
    assert "ann" in values(evidence, "who")

    stranger.change("src/adteam/names.py", ".lower()", ".upper()")
    done, evidence = run(stranger, "edited")
    must_be_valid(done)
    assert "ANN" in values(evidence, "who")


@pytest.mark.parametrize("ending", ["zip", "whl"])
@pytest.mark.long
def test_a_package_that_is_handed_over_is_on_the_executors(ending, stranger):
    package = stranger.folder / f"parcel-1.0-py3-none-any.{ending}"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("parcel.py", PARCEL)
    stranger.change(
        "src/adteam/functions.py",
        "from adteam.names import tidy",
        "from parcel import wrapped\n\nfrom adteam.names import tidy",
    )
    stranger.change(
        "src/adteam/functions.py",
        "    return tidy(name)",
        "    import parcel\n\n    return parcel.wrapped(tidy(name))",
    )

    done, evidence = run(stranger, "run", JOIN, "--py-files", package)

    must_be_valid(done)
    assert "<ann>" in values(evidence, "who")
    assert f"--py-files {package}" in done.stdout


@pytest.mark.long
def test_a_package_of_spark_is_on_the_class_path_of_driver_and_executors(stranger):
    """Its jar comes from Maven Central, as those of the stack do."""
    stranger.change(
        "src/adteam/join.py", 'customer("o.customer").alias("who")',
        'from_avro(to_avro("o.customer"), \'["string", "null"]\').alias("who")',
    )  # fmt: skip
    stranger.change(
        "src/adteam/join.py",
        "import expr",
        "import expr\nfrom pyspark.sql.avro.functions import from_avro, to_avro",
    )
    missing = stranger.run("contract", JOIN)
    assert missing.returncode == 2
    assert "[AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE]" in missing.stderr
    done, evidence = run(stranger, "run", JOIN, "--packages", AVRO)

    must_be_valid(done)
    assert "Dr Ann" in values(evidence, "who")
    assert f"--packages {AVRO}" in done.stdout
    assert any(name.startswith("jar spark-avro") for name in evidence.manifest.versions)


def test_a_function_that_throws_is_one_line_and_its_place(stranger):
    stranger.change(
        "src/adteam/names.py",
        "    words = ",
        "    if name == 'Bob':\n        raise ValueError(f'{name} has no title')\n    words = ",
    )

    done, _ = run(stranger)

    assert done.returncode == 4
    assert done.stderr.splitlines()[-2:] == [
        "error: the query under test failed: ValueError: Bob has no title",
        "  why:  src/adteam/names.py:11 in tidy: raise ValueError(f'{name} has no title')",
    ]


UNRESOLVED = "A column, variable, or function parameter with name {} cannot be resolved"
BROKEN = {
    "select": (
        '"p.payment_id",', '"p.pay_id",', UNRESOLVED.format("`p`.`pay_id`"), "src/adteam/join.py:44: .select(",
    ),
    "SQL text": (
        "o.customer = p.customer", "o.customer = p.payer", UNRESOLVED.format("`p`.`payer`"),
        "src/adteam/join.py:37: o.customer = p.payer AND",
    ),
    "contract": (
        '"payment_id",\n        ("ord', '"paid_id",\n        ("ord', "has no column 'paid_id'",
        "`build` returned the columns order_id",
    ),
    "nothing": (
        "    return (", "    return None\n    return (", "`build` of the pipeline 'orders_payments' returned None", "",
    ),
    "exception": (
        "    print(", "    1 / 0\n    print(", "ZeroDivisionError: division by zero",
        "src/adteam/join.py:25 in build: 1 / 0",
    ),
}  # fmt: skip
"""What is replaced in the module of the join, by what, the error that is said, and its place."""


@pytest.mark.parametrize("what", every_day(BROKEN, ("SQL text", "exception")))
def test_a_join_that_cannot_be_built_is_said_before_a_run_with_its_line(what, stranger):
    old, new, says, place = BROKEN[what]
    stranger.change("src/adteam/join.py", old, new)

    done = stranger.run("contract", JOIN)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    error = done.stderr[done.stderr.rindex("error: ") :]
    assert says in error
    assert place in error


@pytest.mark.long
def test_the_session_of_the_run_is_the_one_that_a_module_gets(stranger):
    stranger.change(
        "src/adteam/functions.py", "from adteam.names",
        "from pyspark.sql import SparkSession\n\nspark = SparkSession.builder.getOrCreate()\nfrom adteam.names",
    )  # fmt: skip
    assert stranger.run("contract", JOIN).returncode == 0

    stranger.change(
        "src/adteam/functions.py", "builder.getOrCreate", 'builder.master("local[2]").getOrCreate'
    )
    done = stranger.run("contract", JOIN)
    assert done.returncode == 2
    assert "src/adteam/functions.py:7: spark = SparkSession.builder.master" in done.stderr
    assert "without master()" in done.stderr


def test_a_test_of_their_own_finds_the_package_as_pytest_does_and_so_do_the_executors(stranger):
    import_when_called(stranger)
    stranger.write("pytest.ini", "[pytest]\npythonpath = src\n")
    stranger.write(
        "tests/test_join.py",
        "def test_it(run_pipeline):\n"
        "    import adteam\n\n"
        f"    result = run_pipeline({JOIN!r}, trace='trace.jsonl')\n"
        "    assert result.verdict.verdict == 'VALID', result.verdict.findings\n",
    )
    done = stranger.run("-q", "tests", module="pytest")
    assert done.returncode == 0, done.stdout
    assert not list(Path(stranger.folder).glob("runs/tests/*"))
