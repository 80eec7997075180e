"""Runs every measurement, or those named: ``python -m bench [NAME ...]``; prints them and writes them as JSON.

Each runs in a process of its own, one after the other: memory and caches of one are not those of the next.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from docs.page_browser import chromium
from tidemark import __version__, paths
from tidemark.errors import EXIT_TESTBED, EXIT_USAGE
from tidemark.stack.compose.docker_engine import why_unavailable

HERE = Path(__file__).parent
RESULTS = HERE / "results"
NEED_AN_ENGINE = {"freeze"}
NEED_A_BROWSER = {"report_pages"}


def names() -> list[str]:
    """The measurements that there are: the files of this folder."""
    return sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def chosen() -> list[str]:
    """The measurements that this machine can have; says which are left out, and why."""
    reasons = dict.fromkeys(NEED_AN_ENGINE, why_unavailable())
    reasons |= dict.fromkeys(NEED_A_BROWSER, "" if chromium() else "there is no Chromium")
    for name, reason in sorted(reasons.items()):
        if reason:
            print(f"bench: {name} is left out: {reason}", file=sys.stderr, flush=True)
    return [name for name in names() if not reasons.get(name)]


def measure(name: str) -> dict[str, Any]:
    """Run one measurement; what it says of itself, or how it ended."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}"],
        cwd=HERE.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    try:
        result = json.loads(lines[-1])
    except (IndexError, ValueError):
        result = {}
    if done.returncode != 0 or not isinstance(result, dict) or not result:
        return {"error": f"ended with {done.returncode}", "said": lines[-5:]}
    return result


def numbers(result: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, value) of every number in a result, however deep it is; a series of runs is one."""
    if "median" in result:
        name, unit = result.get("name") or prefix.rstrip("."), result.get("unit", "")
        spread = f"({readable(result['min'])} to {readable(result['max'])})"
        yield name, f"{readable(result['median'])} {unit} {spread}"
    for key, value in result.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float | bool) and key not in ("min", "median", "max"):
            yield f"{prefix}{key}", readable(value)
        elif key in ("error", "verdict"):
            yield f"{prefix}{key}", str(value)


def readable(value: float) -> str:
    """Three digits of a small number, all of a large one."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"


def machine() -> dict[str, Any]:
    """What the numbers were measured on and with."""
    return {
        "measured_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "tidemark": __version__,
        "code_sha256": paths.code_sha256(),
    }


def main(arguments: list[str]) -> int:
    """Run, print, write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(names())}; or all")
    asked: list[str] = parser.parse_args(arguments).names
    unknown = sorted(set(asked) - set(names()))
    if unknown:
        print(
            f"error: no such measurement: {', '.join(unknown)}\n  hint: {', '.join(names())}", file=sys.stderr
        )
        return EXIT_USAGE
    results = {}
    console = Console(soft_wrap=True)
    for name in asked or chosen():
        print(f"bench: {name}", file=sys.stderr, flush=True)
        results[name] = measure(name)
        table = Table("measure", "value", title=name, title_justify="left")
        for key, value in numbers(results[name]):
            table.add_row(key, value)
        console.print(table)
    RESULTS.mkdir(exist_ok=True)
    written = RESULTS / "latest.json"
    written.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")
    print(f"written to {written.relative_to(HERE.parent)}")
    return EXIT_TESTBED if any("error" in result for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
