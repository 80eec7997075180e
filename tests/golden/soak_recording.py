"""``python -m tests.golden.soak_recording``: run a short soak, and keep the evidence of its runs.

It is drawn by ``python -m docs.pictures`` and takes ten minutes. What was recorded before is replaced; none of it is
judged as a golden verdict.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.golden.__main__ import PATH, add
from tests.golden.judging import HERE

SOAK = HERE / "soak"
OPTIONS = ("--minutes", "8", "--seed", "3", "--impressions", "150", "--faults", "3")


def main() -> int:
    """Run it and keep what was found, whatever that is; the soak's exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "soak"
        done = subprocess.run(
            [sys.executable, "-m", "tidemark", "soak", *OPTIONS, "--folder", str(folder)], check=False
        )
        keep(folder)
    return done.returncode


def keep(folder: Path) -> None:
    """Take over the runs of a soak's folder."""
    shutil.rmtree(SOAK, ignore_errors=True)
    for manifest in sorted(folder.glob("*/manifest.json")):
        add(manifest.parent, SOAK / manifest.parent.name)
    for summary in folder.glob("campaign.json"):
        (SOAK / summary.name).write_bytes(PATH.sub(b"", summary.read_bytes()).rstrip() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
