from __future__ import annotations

import sys

from tests.diagnoses.recording import record

if __name__ == "__main__":
    sys.exit(record(sys.argv[2:]))
