"""What ``make lint`` runs, so that the suite alone is enough."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import tree

BIN = Path(sys.executable).parent
COMMANDS = {
    "ruff": ["ruff", "check", "--output-format=concise", "."],
    "format": ["ruff", "format", "--diff", "."],
    "mypy": ["mypy"],
    "layers": ["lint-imports", "--no-cache"],
}
FIX = {
    "ruff": "ruff check --fix . does what it can",
    "format": "ruff format .",
    "mypy": "types are strict; an ignore names its code and says why",
    "layers": "move the code to the layer it belongs to; ARCHITECTURE.md and pyproject.toml name them",
}


@pytest.mark.parametrize("tool", COMMANDS)
def test_lint(tool):
    name, *arguments = COMMANDS[tool]
    done = subprocess.run(
        [BIN / name, *arguments], cwd=tree.ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}{done.stderr[-2000:]}\nfix: {FIX[tool]}"


def test_make_lint_runs_the_same():
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (tree.ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    for command in COMMANDS.values():
        wanted = " ".join(word for word in command[:2] if not word.startswith("-"))
        assert f"$(BIN)/{wanted}" in recipe[1], f"fix: let the target lint of the Makefile run {wanted}"
