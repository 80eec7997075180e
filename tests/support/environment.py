"""The environment of a program with a classic Spark session of its own."""

from __future__ import annotations

import os


def without_spark() -> dict[str, str]:
    """This process's without Spark's variables: a Connect session sets some, and with them a classic one is refused."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
