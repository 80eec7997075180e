"""What every measurement prints: runs, their least, median and most, and a ratio to what it is measured against."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any


def summary(name: str, unit: str, runs: Sequence[float]) -> dict[str, Any]:
    """One series of runs."""
    return {
        "name": name,
        "unit": unit,
        "runs": [round(run, 3) for run in runs],
        "min": round(min(runs), 3),
        "median": round(median(runs), 3),
        "max": round(max(runs), 3),
    }


def print_result(result: dict[str, Any]) -> None:
    """One JSON object, as the last line on standard output."""
    sys.stdout.write(json.dumps(result) + "\n")


def say(text: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(f"  {text}\n")
