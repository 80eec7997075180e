"""The command line answers at once: what is heavy is imported by the command that needs it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "pyspark",
    "confluent_kafka",
    "duckdb",
    "pandas",
    "pyarrow",
    "numpy",
    "grpc",
    "testcontainers",
    "faker",
)


def test_the_command_line_imports_nothing_heavy():
    program = f"import sys, tidemark.cli; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not done.stdout.split(), (
        f"'import tidemark.cli' imports {done.stdout.strip()}\nfix: import it in the function that needs it"
        f" ({sys.executable} -X importtime -c 'import tidemark.cli' shows who does)"
    )


def test_the_pytest_plugin_imports_nothing_heavy():
    """It is imported by every pytest of an environment that has tidemark, also where no test uses it."""
    program = (
        f"import sys, tidemark.pytest_plugin; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not done.stdout.split(), (
        f"'import tidemark.pytest_plugin' imports {done.stdout.strip()}\nfix: import it in the fixture"
    )
