"""How long one waits: a stack from nothing, a stack that is there, the first row of a query.

    python -m bench.startup [--runs 3]

Uses a stack of its own in a folder of its own, so that one that runs is left alone. ``cold`` is `up` with everything
fetched, ``warm`` is `up` again (this process has its imports; ``command`` is the whole command line, from the shell).
``first_row`` is from starting the pipeline's program on a warm driver to the timestamp of the first output record,
``run`` a whole judged run of 400 impressions. The aims are 12 s cold, 1.5 s for the command, 8 s for the run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench._summary import print_result, say, summary
from tidemark import paths
from tidemark.formats.evidence import RunDirectory
from tidemark.runner import RunOptions, describe, new_run_directory, run
from tidemark.stack import StackSpec, down, up

AIM_COLD_S = 12.0
AIM_COMMAND_S = 1.5
AIM_RUN_S = 8.0
IMPRESSIONS = 400


def cold_s(home: Path) -> float:
    """Seconds of `up` with no stack there."""
    down(home=home)
    return warm_s(home)


def warm_s(home: Path) -> float:
    """Seconds of `up`."""
    started = time.monotonic()
    up(StackSpec(), home=home)
    return time.monotonic() - started


def command_s() -> float:
    """Seconds of `tidemark up` as a command, on a stack that is there."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "tidemark", "up"], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def run_s(folder: Path, seed: int) -> tuple[float, float]:
    """Seconds of a judged run, and until its first output row; on the project's stack, which is there."""
    options = RunOptions("left_outer", seed=seed, impressions=IMPRESSIONS)
    started = time.monotonic()
    contract = describe(options.pipeline)
    directory = new_run_directory(replace(options, run_dir=folder / f"run-{seed}"), contract)
    verdict = run(options, contract, directory).verdict
    whole_s = time.monotonic() - started
    assert verdict.verdict == "VALID", verdict
    return whole_s, first_row_s(directory)


def first_row_s(directory: RunDirectory) -> float:
    """From the start of the run's programs to the first record of its output."""
    text = directory.manifest.started_utc
    assert text is not None
    first_ms = min(record.timestamp_ms for record in directory.output())
    return first_ms / 1000 - datetime.fromisoformat(text).timestamp()


def _folder() -> Path:
    paths.runs_dir().mkdir(exist_ok=True)
    return paths.runs_dir()


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.startup", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with TemporaryDirectory(prefix="bench-", dir=_folder()) as name:
        home = Path(name)
        try:
            cold = [cold_s(home) for _ in range(args.runs)]
            say(f"cold {cold}")
            warm = [warm_s(home) for _ in range(args.runs)]
        finally:
            down(home=home)
        subprocess.run([sys.executable, "-m", "tidemark", "up"], check=True, stdout=subprocess.DEVNULL)
        command = [command_s() for _ in range(args.runs)]
        say(f"command {command}")
        for seed in (-1, -2):  # the driver compiles its code in its first queries
            run_s(home, seed)
        runs = [run_s(home, seed) for seed in range(1, args.runs + 1)]
    print_result(
        {
            "cold": {**summary("stack from nothing", "s", cold), "aim": AIM_COLD_S},
            "warm": summary("stack that is there", "s", warm),
            "command": {
                **summary("`tidemark up` on a stack that is there", "s", command),
                "aim": AIM_COMMAND_S,
            },
            "first_row": summary("first row of a warm query", "s", [first for _, first in runs]),
            "run": {
                **summary("judged run of 400 impressions", "s", [whole for whole, _ in runs]),
                "aim": AIM_RUN_S,
            },
            "cold_over_warm_ratio": round(
                summary("", "", cold)["median"] / summary("", "", warm)["median"], 1
            ),
        }
    )


if __name__ == "__main__":
    main()
