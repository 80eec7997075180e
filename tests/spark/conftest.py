"""A session on the driver of the stack, whose plans are printed in full."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def session(stack):
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(stack.driver().remote).create()
    try:
        session.conf.set("spark.sql.debug.maxToStringFields", 100_000)
        yield session
    finally:
        session.stop()
