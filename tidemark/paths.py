"""Where things are: the one module that knows the folders of a checkout, a wheel and the user's cache.

Free of everything but the standard library; creates no folder and changes nothing. Two situations are told apart:

``checkout``  tidemark is imported from a clone: the project is that clone, whatever the current folder.
``wheel``     tidemark is installed: the project is looked for from the current folder upwards, so that a command in one
              of its subfolders means the same stack; the bundled programs are in the package.

=================  =======================  =========================================================
what               checkout                 wheel
=================  =======================  =========================================================
``root()``         the clone                the nearest folder upwards with one of ``ROOT_MARKS``
``payload()``      the clone                ``tidemark/_payload``
``compose_dir()``  ``root()/compose``       ``payload()/compose``
``spark_bugs_dir()``  ``root()/spark_bugs``    ``payload()/spark_bugs``
``state_dir()``    ``root()/.tidemark``     the same
``runs_dir()``     ``root()/runs``          the same
``cache_dir()``    ``tidemark`` in ``$XDG_CACHE_HOME``, or in ``~/.cache``
=================  =======================  =========================================================

The payload is the folder that holds ``producers/``, ``pipelines/`` and ``spark_bugs/``: on the
``PYTHONPATH`` of a child
process it makes ``python -m pipelines NAME`` work. They are never importable at top level of an installation, because
they would hide a stranger's folder of the same name.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
PROGRAMS = ("producers", "pipelines", "spark_bugs")
PAYLOAD = "_payload"
STATE = ".tidemark"
ROOT_MARKS = (STATE, "pyproject.toml", ".git")
"""What a project's folder holds, one of them at least, where it is more than a folder."""
BACKEND_VARIABLE = "TIDEMARK_BACKEND"
"""Asks for a backend of the stack."""


def is_checkout() -> bool:
    """Whether this tidemark is imported from a clone of the project."""
    clone = PACKAGE.parent
    return (clone / "pyproject.toml").is_file() and all((clone / name).is_dir() for name in PROGRAMS)


def root() -> Path:
    """The project's folder: the clone if there is one, else that of the current folder (:func:`root_above`)."""
    return PACKAGE.parent if is_checkout() else root_above(Path.cwd())


def root_above(folder: Path) -> Path:
    """The nearest folder, from this one upwards, that holds one of ``ROOT_MARKS``; this one if none does.

    The user's home and what is above it are no project of a folder below: what lies there (the files of a shell in
    Git, say) belongs to all projects alike.
    """
    home = Path.home()
    for candidate in (folder, *folder.parents):
        if candidate != folder and home.is_relative_to(candidate):
            break
        if any((candidate / mark).exists() for mark in ROOT_MARKS):
            return candidate
    return folder


def payload() -> Path:
    """The folder that holds the packages ``producers``, ``pipelines`` and ``spark_bugs``."""
    return PACKAGE.parent if is_checkout() else PACKAGE / PAYLOAD


def compose_dir() -> Path:
    """The folder of what the compose backend gives to Docker: the image's recipe and its lock."""
    return payload() / "compose"


def spark_bugs_dir() -> Path:
    """The folder of pipelines and traces that show the known defects of Spark."""
    return payload() / "spark_bugs"


def state_dir() -> Path:
    """What a running stack keeps: data, logs, leases. May be deleted when no stack runs."""
    return root() / STATE


def runs_dir() -> Path:
    """Where run directories go."""
    return root() / "runs"


def cache_dir() -> Path:
    """The user's cache, shared by all projects: jars, by digest. May be deleted at any time."""
    # The XDG specification: a value that is not absolute is to be ignored.
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "tidemark"


def code_files() -> Iterator[tuple[str, Path]]:
    """Every module that can take part in a run, as (name in the tree, file), sorted by name."""
    folders = [("tidemark", PACKAGE), *((name, payload() / name) for name in PROGRAMS)]
    files = {
        f"{top}/{path.relative_to(folder).as_posix()}": path
        for top, folder in folders
        for path in folder.rglob("*.py")
        if PAYLOAD not in path.relative_to(folder).parts
    }
    return iter(sorted(files.items()))


@functools.cache
def code_sha256() -> str:
    """The SHA-256 of the code that runs: the same for a checkout and for the wheel built from it.

    Of each file of ``code_files()``: its name, its length and its bytes. Read once per process, so that a file that
    is edited while a run goes on does not change what the run says of itself.
    """
    return files_sha256(code_files())


def files_sha256(files: Iterable[tuple[str, Path]]) -> str:
    """The SHA-256 of files: of each, in this order, its name, its length and its bytes."""
    digest = hashlib.sha256()
    for name, path in files:
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
