"""The wheel of this tree, and an environment with nothing of the checkout in it but what the wheel brings."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.repository import tree

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def environment_elsewhere(**more: str) -> dict[str, str]:
    """The variables of this process, without those of this Python and this tidemark."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TIDEMARK"))
    }
    return inherited | more


def run_elsewhere(command: Sequence[str | Path], cwd: Path, **environment: str) -> str:
    """What a command prints that must succeed, without the variables of this Python and this tidemark."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment_elsewhere(**environment),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """The wheel, built from this tree with the locked tools."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, tree.ROOT]
    run_elsewhere(command, folder)
    (built,) = folder.glob("*.whl")
    return built


def environment_with(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel in it; it borrows the dependencies, which take a minute to install."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    # A path that a .pth file adds is searched last; the .pth files in it (the checkout's) are not followed.
    (folder / SITE / "borrowed.pth").write_text(f"{Path(sys.prefix) / SITE}\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    run_elsewhere([*pip, "--ignore-installed", wheel], folder)
    return folder
