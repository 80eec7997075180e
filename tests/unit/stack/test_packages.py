"""Packages by their Maven coordinates: what is refused, what is asked of Ivy, and which jars are left out."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from tidemark import paths
from tidemark.errors import UsageError
from tidemark.stack.install.packages import resolve_packages
from tidemark.stack.install.toolchain import Spark

AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"


@pytest.fixture
def spark(tmp_path, monkeypatch):
    """A PySpark whose jars are there by name only, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "pyspark"
    (home / "jars").mkdir(parents=True)
    for name in ("scala-library-2.13.18.jar", "jackson-core-2.20.0.jar", "ivy-2.5.3.jar"):
        (home / "jars" / name).touch()
    return Spark(Path(sys.executable), "3.11.0", "4.2.0", home)


@pytest.mark.parametrize("package", ["spark-avro", "a:b", "a:b:c:d", "a:b:", "a b:c:1", ""])
def test_what_is_no_coordinate_is_refused(package, spark):
    with pytest.raises(UsageError, match="is no package") as refused:
        resolve_packages(Path("java"), spark, [AVRO, package])
    assert "GROUP:ARTIFACT:VERSION" in refused.value.hint


def test_what_was_resolved_is_not_asked_for_again_and_what_spark_has_is_left_out(spark):
    folder = paths.cache_dir() / "packages" / hashlib.sha256(AVRO.encode()).hexdigest()[:16]
    folder.mkdir(parents=True)
    for name in ("spark-avro_2.13-4.2.0.jar", "xz-1.12.jar", "jackson-core-2.13.5.jar"):
        (folder / name).touch()

    found = resolve_packages(Path("no java"), spark, [AVRO])

    assert [jar.name for jar in found] == ["spark-avro_2.13-4.2.0.jar", "xz-1.12.jar"]
