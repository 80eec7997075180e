"""Environments with another PySpark: made by pip, one folder for each version, kept in the user's cache.

Nothing but the network and the disk is needed. What pip has its settings for (a mirror, a proxy) is pip's business.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark import paths
from tidemark.errors import FetchError, TidemarkError
from tidemark.stack.install.toolchain import find_spark

RELEASES = ("4.0.5", "4.1.4", "4.2.0", "4.3.0")
"""The newest of each line of Spark that has a Kafka connector here."""
INSTALL_S = 3600.0
"""Calibration: 450 MB come in 1 to 3 minutes and are built in half a one; an hour is a very slow line."""


def folder() -> Path:
    """Where environments are made if nothing else is said."""
    return paths.cache_dir() / "spark"


def provide(release: str, where: Path, say: Callable[[str], None]) -> Path:
    """The interpreter of an environment below ``where`` that has this PySpark; made if it is not there.

    Raises ``FetchError`` with the end of what pip said.
    """
    home = where / f"pyspark-{release}"
    python = home / "bin" / "python"
    if _has(python, release):
        return python
    try:
        where.mkdir(parents=True, exist_ok=True)
        with _turn(where / f"pyspark-{release}.lock"):
            if not _has(python, release):
                say(f"installing PySpark {release} (450 MB)")
                _make(home, python, release)
    except OSError as error:
        raise FetchError(
            f"the environment of PySpark {release} could not be made",
            detail=str(error),
            hint=f"{where} must be writable and have 1 GB free for each version; --install names another folder",
        ) from error
    return python


def _has(python: Path, release: str) -> bool:
    """Whether an interpreter is there and can serve a stack with this PySpark."""
    if not python.exists():
        return False
    try:
        return find_spark(python).version == release
    except TidemarkError:
        return False  # half an environment, of an attempt that was broken off


def _make(home: Path, python: Path, release: str) -> None:
    _run([sys.executable, "-m", "venv", "--clear", str(home)], release)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    try:
        _run([*pip, f"pyspark[connect]=={release}", "pandas<3"], release)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _run(command: list[str], release: str) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=INSTALL_S, check=False,
        )  # fmt: skip
        failed, said = done.returncode != 0, done.stdout
    except subprocess.TimeoutExpired as error:
        failed, said = True, f"{(error.stdout or b'').decode(errors='replace')}\nno end after {INSTALL_S:g} s"
    if failed:
        last = "\n".join([line.strip() for line in said.splitlines() if line.strip()][-8:])
        raise FetchError(
            f"PySpark {release} could not be installed",
            detail=f"the end of what pip said:\n{last}",
            hint="this needs the network once, or a mirror in pip's settings (PIP_INDEX_URL); interpreters that have "
            "their PySpark already are named with --spark PYTHON",
        )


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    """One process at a time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
