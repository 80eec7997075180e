"""A session on the driver of the stack, whose plans are printed in full, and a folder that it sees, too."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def seen_by_spark(stack):
    """A folder that driver and executors see, too."""
    folder = Path(tempfile.mkdtemp(dir=stack.work_dir("seen")))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def session(stack):
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(stack.driver().remote).create()
    try:
        session.conf.set("spark.sql.debug.maxToStringFields", 100_000)
        yield session
    finally:
        session.stop()
