"""What was pickled, used where tidemark and its tests cannot be imported, as on an executor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def printed_elsewhere(pickled: Path, program: str) -> tuple[str, str]:
    """What a program prints that has what was pickled as ``loaded``, and its errors."""
    begin = (
        "import pickle, sys; sys.modules['tidemark'] = sys.modules['tests'] = None\n"
        "loaded = pickle.load(open(sys.argv[1], 'rb'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin + program, str(pickled)], capture_output=True, text=True, timeout=60
    )
    return done.stdout, done.stderr
