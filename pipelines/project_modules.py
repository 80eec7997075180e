"""The modules of the user's project: where they are looked for, which were imported, how they reach the executors.

A module is the project's if it lies in no ``site-packages``, is not Python's own and none of tidemark's. The package of
the pipeline itself is the project's wherever it lies. Functions and classes of such modules are pickled by value, so
that a user-defined function brings its helpers along. A function that imports when it is called looks for a module by
its name, and the sources have to be sent. Python workers keep what they have imported, and Spark gives those of one
session to the streaming queries of all (4.2, also with artifact isolation), so sources are sent to a driver that no
other query uses.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from tidemark.formats.project_files import files_of_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    from pyspark.sql import SparkSession

OURS = ("tidemark", "producers", "pipelines", "spark_bugs")
"""Packages of tidemark, which come first on the path of its programs."""
INSTALLED = ("site-packages", "dist-packages")
ARCHIVE = re.compile(r"/project-[0-9a-f]{12}\.zip/")
"""The archive in the path of a module on an executor; an executor refuses another content under the same name."""


def add_to_path(folders: Iterable[str]) -> None:
    """Let modules be found in these folders: after Python's own modules, before the installed packages."""
    at = next((n for n, entry in enumerate(sys.path) if Path(entry).name in INSTALLED), len(sys.path))
    sys.path[at:at] = [folder for folder in folders if folder not in sys.path]


def is_of_project(path: str) -> bool:
    """Whether a source file is the project's: not installed, not Python's own, and not tidemark's."""
    if not path or path.startswith("<") or any(name in Path(path).parts for name in INSTALLED):
        return False
    own = (
        Path(__file__).resolve().parent.parent
    )  # the code of this program: a checkout, a payload or a zip file
    others: list[str | Path] = [
        sysconfig.get_paths()["stdlib"],
        sysconfig.get_paths()["platstdlib"],
        *(own / name for name in OURS),
    ]
    return not any(Path(path).is_relative_to(folder) for folder in others)


def project_modules(pipeline: str = "") -> dict[str, str]:
    """The top-level packages and modules of the project that were imported -> folder or file of each.

    ``pipeline`` is the module of the pipeline: its package is the project's in any case.
    """
    own = pipeline.partition(".")[0]
    found: dict[str, str] = {}
    for name, module in sorted(sys.modules.items()):
        if "." not in name and name not in OURS and not name.startswith("__"):
            path = _location(module, name)
            if path and (name == own or is_of_project(path)):
                found[name] = path
    return found


def _location(module: ModuleType, name: str) -> str:
    """The folder of a package, also of one without ``__init__.py``, or the file of a module; else an empty text."""
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    if folders:
        return str(folders[0].resolve()) if folders[0].name == name and folders[0].is_dir() else ""
    file = getattr(module, "__file__", None) or ""
    return str(Path(file).resolve()) if Path(file).name == f"{name}.py" else ""


def pickle_by_value(names: Iterable[str]) -> None:
    """Pickle what these modules define by value from now on."""
    for name in names:
        cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def imports_at_call(modules: Mapping[str, str], pipeline: str = "") -> bool:
    """Whether a function of the project imports a module of the project when it is called.

    ``pipeline`` is the module of the pipeline, which is none of ``modules`` if it is a file outside of packages.
    """
    own = getattr(sys.modules.get(pipeline), "__file__", None)
    if own is not None and pipeline not in modules and _imports_at_call(Path(own), modules):
        return True
    for name, source in modules.items():
        for inside, file in files_of_source(name, Path(source)):
            if inside.endswith(".py") and _imports_at_call(file, modules):
                return True
    return False


def _imports_at_call(file: Path, modules: Mapping[str, str]) -> bool:
    try:
        module = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return False  # it is not what was imported
    functions = [
        node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in (inner for function in functions for inner in ast.walk(function)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [next(iter(modules), "") if node.level else node.module or ""]
        if any(name.partition(".")[0] in modules for name in names):
            return True
    return False


def send_modules(session: SparkSession, modules: Mapping[str, str], packages: Sequence[str]) -> None:
    """Send the project's modules, and ``packages`` (``.py``, ``.zip``, ``.egg``, ``.whl``), to driver and executors.

    For a driver that no other query uses: its Python workers keep what they have imported.
    """
    with tempfile.TemporaryDirectory() as folder:
        archives = [_importable(Path(package), Path(folder)) for package in packages]
        if modules:
            archives.append(_archive(Path(folder), modules))
        if archives:
            session.addArtifacts(*map(str, archives), pyfile=True)


def _importable(package: Path, folder: Path) -> Path:
    """The file as Spark takes it: executors import nothing from a ``.whl``, and do from the same bytes as ``.zip``."""
    if package.suffix != ".whl":
        return package
    renamed = folder / f"{package.stem}.zip"
    renamed.write_bytes(package.read_bytes())
    return renamed


def _archive(folder: Path, modules: Mapping[str, str]) -> Path:
    path = folder / "project.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in modules.items():
            for inside, file in files_of_source(name, Path(source)):
                archive.write(file, inside)
    return path.rename(folder / f"project-{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}.zip")
