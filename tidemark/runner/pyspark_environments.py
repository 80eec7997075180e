"""Virtual environments with other PySpark versions, installed by pip, one directory per version in the user's cache.

pip's own settings apply (mirror, proxy).
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

RELEASES = ("3.5.7", "4.0.5", "4.1.4", "4.2.0", "4.3.0")
"""The newest of each line of Spark that has a Kafka connector here."""
OF_3_5 = "pyarrow<20"
"""PySpark 3.5 needs NumPy 1, and later PyArrows need NumPy 2."""
OF_THE_SINK = "confluent-kafka>=2.6"
"""What the exactly-once sink needs where driver and executors run."""
NEWEST_PYTHON_OF_3_5 = (3, 11)
"""PySpark 3.5 imports ``distutils``, which Python 3.12 has not."""
INSTALL_S = 3600.0
"""Calibration: downloading 450 MB takes 1 to 3 minutes, building half a minute; an hour allows for a slow network."""


def folder() -> Path:
    """The default directory of the environments."""
    return paths.cache_dir() / "spark"


def provide(release: str, where: Path, say: Callable[[str], None]) -> Path:
    """The interpreter of the environment below ``where`` with this PySpark, which is created if it is missing.

    Raises ``FetchError`` with the end of pip's output.
    """
    home = where / f"pyspark-{release}"
    python = home / "bin" / "python"
    if _has(python, release):
        return python
    try:
        where.mkdir(parents=True, exist_ok=True)
        with _turn(where / f"pyspark-{release}.lock"):
            if not _has(python, release):
                _must_fit(release)
                say(f"installing PySpark {release} ({320 if _is_3_5(release) else 450} MB)")
                _make(home, python, release)
    except OSError as error:
        raise FetchError(
            f"the environment of PySpark {release} could not be created",
            detail=str(error),
            hint=f"{where} must be writable and have 1 GB free for each version; --install names another folder",
        ) from error
    return python


def _has(python: Path, release: str) -> bool:
    """Whether the interpreter exists and a stack can use it with this PySpark."""
    if not python.exists():
        return False
    try:
        return find_spark(python).version == release
    except TidemarkError:
        return False  # left incomplete by an installation that was interrupted


def _is_3_5(release: str) -> bool:
    return release.startswith("3.5.")


def _must_fit(release: str) -> None:
    """Refuse a PySpark that does not run on this Python, of which the environment would be."""
    if _is_3_5(release) and sys.version_info[:2] > NEWEST_PYTHON_OF_3_5:
        raise FetchError(
            f"PySpark {release} does not run on Python {sys.version_info[0]}.{sys.version_info[1]}",
            detail="it imports distutils, which Python 3.12 removed",
            hint="give --spark PYTHON, an interpreter of Python 3.11 that has it: "
            f"pip install 'pyspark[connect]=={release}' 'pandas<3' '{OF_3_5}'",
        )


def _make(home: Path, python: Path, release: str) -> None:
    _run([sys.executable, "-m", "venv", "--clear", str(home)], release)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    try:
        more = [OF_3_5] if _is_3_5(release) else [OF_THE_SINK]
        _run([*pip, f"pyspark[connect]=={release}", "pandas<3", *more], release)
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
        failed, said = (
            True,
            f"{(error.stdout or b'').decode(errors='replace')}\ntimed out after {INSTALL_S:g} s",
        )
    if failed:
        last = "\n".join([line.strip() for line in said.splitlines() if line.strip()][-8:])
        raise FetchError(
            f"PySpark {release} could not be installed",
            detail=f"the end of pip's output:\n{last}",
            hint="installing needs network access, or a mirror in pip's settings (PIP_INDEX_URL); to use an "
            "interpreter "
            "that already has its PySpark, give --spark PYTHON",
        )


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    """One process at a time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
