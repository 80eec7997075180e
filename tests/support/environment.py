"""The environment of a program with a classic Spark session of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def classic_environment(python: Path = Path(sys.executable)) -> dict[str, str]:
    """This process's without what a Connect session leaves in it, with which a classic session is refused."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {**environment, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}
