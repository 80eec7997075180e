"""The environment of a program with a classic Spark session of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tidemark.stack.components.spark_settings import DRIVER_JVM


def classic_environment(python: Path = Path(sys.executable)) -> dict[str, str]:
    """This process's without what a Connect session leaves in it, with which a classic session is refused.

    Its JVM has the options of a stack's drivers (``SPARK_SUBMIT_OPTS``): it starts with less processor time.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": " ".join(DRIVER_JVM)}
    return {**environment, **own, "PYSPARK_PYTHON": str(python)}
