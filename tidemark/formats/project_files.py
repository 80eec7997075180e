"""The files of a user's project that belong to a run: sent to Spark, and kept as ``project/`` in the evidence.

Free of Kafka and Spark. A *source* is a package or a module at top level. Of a package with an ``__init__.py`` every
file counts, because code reads what lies beside it (a schema, a text of SQL); of one without, which may be any folder,
Python files only. Hidden files, compiled ones and data of more than ``MOST_BYTES`` are left out.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidemark.paths import files_sha256

MOST_BYTES = 1 << 20
"""A file that is no Python code and is larger is left out: it is data and no source."""
CODE = (".py", ".pyi", ".so")
COMPILED = "__pycache__"
PROJECT = "project"
"""The folder in a run directory."""


def files_of_source(name: str, source: Path) -> Iterator[tuple[str, Path]]:
    """(path in the project, file) of each file of a package or module ``name``, sorted."""
    if source.is_file():
        yield source.name, source
        return
    is_package = (source / "__init__.py").is_file()
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        hidden = COMPILED in inside.parts or any(part.startswith(".") for part in inside.parts)
        if hidden or not path.is_file() or not (is_package or path.suffix == ".py"):
            continue
        if path.suffix in CODE or path.stat().st_size <= MOST_BYTES:
            yield f"{name}/{inside.as_posix()}", path


def path_in_package(file: Path) -> Path:
    """The path of a file from the folder on that its outermost package lies in; its name if it is in no package."""
    folder = file.resolve().parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return file.resolve().relative_to(folder)


def keep_project(sources: Mapping[str, str], folder: Path) -> None:
    """Copy the sources (name -> folder or file) into ``folder``; what is there already stays as it is."""
    for name, source in sources.items():
        for inside, path in files_of_source(name, Path(source)):
            kept = folder / inside
            if not kept.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, kept)


def project_sha256(folder: Path) -> str:
    """The SHA-256 of all files below a folder, sorted (``tidemark.paths.files_sha256``)."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return files_sha256(sorted((path.relative_to(folder).as_posix(), path) for path in found))
