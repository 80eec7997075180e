from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tidemark.errors import JavaError, TestbedError, UsageError
from tidemark.stack.install.toolchain import check_java, find_java, find_spark


@pytest.fixture(autouse=True)
def _no_java_home(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)


def java_that_says(executable, text: str) -> Path:
    return executable("java", f"echo '{text}' >&2")


def test_without_java_the_error_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="no Java") as error:
        find_java()
    assert "install Java 17" in error.value.hint


@pytest.mark.parametrize(
    ("text", "major"), [('openjdk version "11.0.2" 2019-01-15', 11), ('java version "1.8.0_392"', 8)]
)
def test_an_old_java_is_refused(executable, text, major):
    with pytest.raises(JavaError, match=f"Java {major} is too old") as error:
        check_java(java_that_says(executable, text))
    assert error.value.exit_code == 4
    assert "17" in error.value.hint


@pytest.mark.parametrize("text", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023-09-19'])
def test_a_new_java_is_accepted(executable, text):
    assert check_java(java_that_says(executable, text)) in {"17.0.15", "21"}


def test_a_java_that_is_too_new_for_a_spark_is_refused(executable):
    java = java_that_says(executable, 'openjdk version "21.0.1" 2023-10-17')
    assert check_java(java, "4.0.5") == "21.0.1"
    with pytest.raises(JavaError, match="Java 21 is too new") as error:
        check_java(java, "3.5.7")
    assert "Spark 3.5.7 needs 17" in error.value.detail
    assert "Java 17" in error.value.hint


def test_a_program_that_is_not_java_is_refused(executable):
    with pytest.raises(JavaError, match="does not report its version"):
        check_java(executable("java", "exit 1"))


def test_java_home_takes_precedence_over_path(monkeypatch, executable, tmp_path):
    java = java_that_says(executable, 'openjdk version "17"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == java


def test_a_java_home_without_java_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaError, match="JAVA_HOME"):
        find_java()


def test_this_interpreter_has_spark():
    spark = find_spark(Path(sys.executable))
    assert spark.version.startswith("4.")
    assert list(spark.jars.glob("spark-connect_*.jar"))


def test_pyspark_3_5_is_given_spark_connect_and_needs_none_of_its_own(executable, tmp_path):
    spark = find_spark(executable("python", f"printf '3.11.0\\n3.5.7\\n-\\n{tmp_path}\\n'"))
    assert (spark.version, spark.home) == ("3.5.7", tmp_path)


def test_the_pyspark_of_another_interpreter_is_found(executable):
    same = find_spark(Path(sys.executable))
    other = executable("python", f'exec {sys.executable} "$@"')
    assert find_spark(other).version == same.version
    assert find_spark(other).home == same.home


def test_an_interpreter_without_pyspark_is_named(executable):
    with pytest.raises(TestbedError, match="has no PySpark") as error:
        find_spark(executable("python", "printf '3.11.0\\n\\n-\\n\\n'"))
    assert "pyspark[connect]" in error.value.hint


def test_a_pyspark_without_the_connect_extra_is_named(executable):
    with pytest.raises(TestbedError, match="lacks packages that Spark Connect needs: grpc,pandas") as error:
        find_spark(executable("python", "printf '3.11.0\\n4.0.5\\ngrpc,pandas\\n/x\\n'"))
    assert "pyspark[connect]==4.0.5" in error.value.hint


@pytest.mark.parametrize("text", ["exit 3", "echo hello"])
def test_a_program_that_is_not_python_is_wrong_usage(executable, text):
    with pytest.raises(UsageError, match="is not a Python interpreter"):
        find_spark(executable("python", text))


def test_a_missing_interpreter_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="cannot be run as a Python interpreter"):
        find_spark(tmp_path / "python")
