"""Delta's jars for the Spark of the tests, locked in ``tests/spark/delta.lock``."""

from __future__ import annotations

import sys
from pathlib import Path

from tidemark.stack.install.jars import provide
from tidemark.stack.install.toolchain import find_java, find_spark

LOCK = Path(__file__).parents[1] / "spark" / "delta.lock"


def delta_jars() -> list[Path]:
    """The jars, fetched once into the cache."""
    return provide(find_java(), find_spark(Path(sys.executable)), ["delta"], print, lock=LOCK)["delta"]
