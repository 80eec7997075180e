"""The recorded runs: how each is made, and how what it wrote is taken over."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.evidence.campaign import RUNS
from tests.golden.__main__ import add
from tidemark.formats.seal import seal

SMALL = "--impressions 150"
OPTIONS = {
    "chain": f"windows_joined {SMALL}",
    "full_outer": f"full_outer {SMALL}",
    "full_outer_spark": f"full_outer {SMALL} --sink spark",
    "inner": f"inner {SMALL}",
    "inner_spark": f"inner {SMALL} --sink spark",
    "left_outer": f"left_outer {SMALL}",
    "left_outer_faults": f"left_outer {SMALL} --faults driver@written,executor",
    "left_outer_spark": f"left_outer {SMALL} --sink spark",
    "left_semi": f"left_semi {SMALL}",
    "left_semi_spark": f"left_semi {SMALL} --sink spark",
    "right_outer": f"right_outer {SMALL}",
    "right_outer_spark_faults": f"right_outer {SMALL} --sink spark --faults driver@written,executor",
}
"""What ``tidemark run`` is given for each recorded run."""


def record(name: str) -> None:
    """Run a join on a real stack, and keep its evidence in the place of what was recorded under this name.

    Raises:
        subprocess.CalledProcessError: the run was not ``VALID``.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        asked = [sys.executable, "-m", "tidemark", "run", *shlex.split(OPTIONS[name]), f"--run-dir={run}"]
        subprocess.run(asked, check=True)
        shutil.rmtree(RUNS / name, ignore_errors=True)
        keep(run, RUNS / name)


def keep(run: Path, target: Path) -> None:
    """Take over the directory of a real run, without what no judgement reads, and seal what is left."""
    add(run, target)
    shutil.copyfile(run / "contract.json", target / "contract.json")
    seal(target)
