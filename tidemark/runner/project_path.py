"""Where a user's pipeline finds its modules: the folders that its program is given, besides the environment's own.

Reads ``pyproject.toml`` and ``sys.path``; imports nothing of the user's. In this order: ``--project``; the folder of a
pipeline file; of the project (the nearest folder upwards with a ``pyproject.toml``, a ``.git`` or a stack of tidemark)
the folders that its configuration names as roots of packages, ``src``, and itself; what this process has on its own
path besides Python and its packages, as ``PYTHONPATH`` and pytest set it.
"""

from __future__ import annotations

import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidemark import paths
from tidemark.errors import UsageError

INSTALLED = ("site-packages", "dist-packages")
SOURCE = "src"


def project_path(pipeline: str, project: Path | None = None) -> list[str]:
    """The folders for a pipeline that is a file or a module; none for a bundled one or a contract."""
    pipeline, _ = file_and_name(pipeline)
    is_file = pipeline.endswith(".py")
    if not is_file and not is_module(pipeline):
        return []
    folders = [] if project is None else list(_of_project(project))
    if is_file:
        folders.append(Path(pipeline).parent)
    start = Path(pipeline).resolve().parent if is_file else Path.cwd()
    folders += _of_project(paths.root_above(start))
    folders += _of_this_process()
    return list(dict.fromkeys(str(folder.resolve()) for folder in folders if folder.exists()))


def file_and_name(pipeline: str) -> tuple[str, str]:
    """A file, and ``:NAME`` behind it; of everything else nothing is parted."""
    file, colon, name = pipeline.rpartition(":")
    return (file, f":{name}") if colon and file.endswith(".py") else (pipeline, "")


def is_module(pipeline: str) -> bool:
    """Whether a pipeline is a module of the user's project: ``adteam.join``, ``adteam.join:CONTRACT``."""
    words = pipeline.replace(":", ".", 1).split(".")
    is_file = pipeline.endswith((".py", ".json"))
    return not is_file and len(words) > 1 and all(word.isidentifier() for word in words)


def is_python(name: str) -> bool:
    """Whether a name is that of a Python file, or of a module of the user's project and of no other file."""
    return name.endswith(".py") or (is_module(name) and not Path(name).is_file())


def is_installed(file: str) -> bool:
    """Whether a source file is Python's own or of an installed package."""
    path = Path(file)
    folders = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")]
    return any(name in path.parts for name in INSTALLED) or any(
        path.is_relative_to(folder) for folder in folders
    )


def located(pipeline: str) -> str:
    """A pipeline as its program takes it: a file by its absolute path. Raises ``UsageError`` if it is not there."""
    file, name = file_and_name(pipeline)
    if file.endswith(".py") and not Path(file).is_file():
        raise UsageError(f"there is no pipeline file {file!r}", hint="give the path of a Python file")
    return f"{Path(file).resolve()}{name}" if file.endswith((".py", ".json")) else pipeline


def _of_project(root: Path) -> Iterator[Path]:
    for folder in _configured(root / "pyproject.toml"):
        yield root / folder
    if (root / SOURCE).is_dir() and not (root / SOURCE / "__init__.py").exists():
        yield root / SOURCE
    yield root


def _configured(file: Path) -> list[str]:
    """The roots of packages that a ``pyproject.toml`` names for pytest, setuptools, Poetry or Hatch."""
    try:
        tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError):
        return []
    found = [
        *_listed(_at(tool, "pytest", "ini_options", "pythonpath")),
        *_listed(_at(tool, "setuptools", "packages", "find", "where")),
        *_listed(_at(tool, "setuptools", "package-dir", "")),
        *(
            package.get("from")
            for package in _listed(_at(tool, "poetry", "packages"))
            if isinstance(package, dict)
        ),
    ]
    packages = _listed(_at(tool, "hatch", "build", "targets", "wheel", "packages"))
    found += [str(Path(package).parent) for package in packages if isinstance(package, str)]
    return [folder for folder in found if isinstance(folder, str)]


def _at(table: Any, *names: str) -> Any:
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _of_this_process() -> Iterator[Path]:
    """The entries of ``sys.path`` that are neither Python's, nor its packages, nor the checkout of tidemark."""
    names = ("stdlib", "platstdlib", "scripts")
    others = {Path(sysconfig.get_paths()[name]) for name in names} | {paths.PACKAGE.parent}
    for entry in sys.path:
        path = Path(entry)
        parents = {path, *path.parents}
        if (
            entry
            and not any(name in path.parts for name in INSTALLED)
            and not parents & others
            and path.is_dir()
        ):
            yield path
