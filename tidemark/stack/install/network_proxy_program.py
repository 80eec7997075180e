"""The network proxy's program: Toxiproxy with counters, built once from locked Go modules into the user's cache.

Its source and its lock (``go.sum``) are in ``network_proxy``. The name of what is built has their SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tidemark import paths
from tidemark.errors import FetchError

SOURCES = Path(__file__).with_name("network_proxy")
FILES = ("go.mod", "go.sum", "main.go")
BUILD_S = 900
"""Calibration: 65 s on two busy cores with all modules to be fetched and compiled; 3 s when Go has them."""
_LINES = 12


def built_path() -> Path:
    """Where the program is, or will be."""
    digest = hashlib.sha256(f"{platform.system()}-{platform.machine()}".encode())
    for name in FILES:
        digest.update((SOURCES / name).read_bytes())
    return paths.cache_dir() / "network-proxy" / f"network-proxy-{digest.hexdigest()[:16]}"


def can_be_built() -> bool:
    """Whether the program was built already, or this machine has Go to build it with."""
    return built_path().is_file() or shutil.which("go") is not None


def must_be_buildable() -> None:
    """Raise ``FetchError`` if it cannot be built."""
    if not can_be_built():
        raise FetchError(
            "the network cannot be disturbed: its proxy is built with Go, and there is none",
            detail="no `go` is on PATH; the proxy is Toxiproxy, which has no package for Python",
            hint="install Go 1.23 or newer (Debian: `apt-get install golang`), or leave the faults of the network out",
        )


def provide_network_proxy(say: Callable[[str], None]) -> Path:
    """The program, built if it is not there. Raises ``FetchError`` if it cannot be."""
    path = built_path()
    if path.is_file():
        return path
    must_be_buildable()
    say("building the network proxy: a minute the first time")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            _build(Path(folder)).rename(path)
    except OSError as error:
        raise FetchError(
            "the network proxy could not be stored",
            detail=str(error),
            hint=f"{path.parent} must be writable and have 50 MB free; XDG_CACHE_HOME moves it",
        ) from error
    return path


def _build(folder: Path) -> Path:
    for name in FILES:
        shutil.copyfile(SOURCES / name, folder / name)
    built = folder / "network-proxy"
    argv = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", str(built), "."]
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    try:
        done = subprocess.run(
            argv, cwd=folder, env=env, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        said, failed = done.stderr, done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = f"it did not end within {BUILD_S} s", True
    if failed:
        raise FetchError(
            "the network proxy could not be built",
            detail="\n".join(["the end of Go's output:", *said.strip().splitlines()[-_LINES:]]),
            hint="Go 1.23 or newer and, the first time, the network are needed; GOPROXY names a mirror of modules",
        )
    return built
