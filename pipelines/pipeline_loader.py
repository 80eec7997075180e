"""Finds a pipeline by what the command line calls it, and imports it.

A name of a bundled pipeline, a contract (``FILE.json``), a Python file, or a module of the user's project:
``adteam.join`` or ``adteam.join:CONTRACT``, where the word after the colon is the name of the contract in it. A file
that lies in a package is imported as a module of that package, so that its relative imports hold.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pipelines
from pipelines.described import read_contract
from pipelines.project_modules import OURS, is_of_project, pickle_by_value
from pipelines.user_errors import as_usage_error
from tidemark.errors import TidemarkError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pyspark.sql import DataFrame

PROGRAM_MODULES = {
    "__main__",
    "checkpoint_state",
    "operator_state",
    "codec",
    "described",
    "failure",
    "own_query",
    "pipeline_loader",
    "project_modules",
    "query",
    "query_server",
    "schemas",
    "session_server",
    "side_columns",
    "state",
    "user_errors",
}
"""Modules of this package that are no pipelines."""
MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::(?P<contract>[A-Za-z_]\w*))?")
OF_A_FILE = "pipeline_of_user"
"""The name of the module that a file becomes which lies in no package."""
PARTS = ("build", "start", "to_sink", "COLUMNS")
"""What a pipeline may have besides its contract."""
SESSIONS = {"spark", "session", "spark_session"}
"""What a program calls its session: a function whose first parameter it is opens its sources by itself."""


def names() -> list[str]:
    """The names of the bundled pipelines, one file each."""
    found = pkgutil.iter_modules(pipelines.__path__)  # also works inside a zip
    return sorted(module.name for module in found if module.name not in PROGRAM_MODULES)


def load(name: str, *, contract_only: bool = False) -> ModuleType | SimpleNamespace:
    """The pipeline of this name, or just its contract; its ``MODULE`` is the name of the user's module, or empty.

    Raises ``UsageError``, also for whatever the user's module raises when it is imported.
    """
    if name.endswith(".json"):
        return read_contract(name)
    if name in names():
        return _checked(name, importlib.import_module(f"pipelines.{name}"), "CONTRACT")
    module, contract = _named(name)
    imported = _import_file(name) if module is None else _import_module(module)
    found = imported if contract_only and hasattr(imported, contract) else _checked(name, imported, contract)
    if module is None:
        pickle_by_value([OF_A_FILE])
    own = {part: getattr(found, part) for part in PARTS if hasattr(found, part)}
    return SimpleNamespace(**own, CONTRACT=getattr(found, contract), MODULE=imported.__name__)


def load_module(name: str) -> ModuleType:
    """The module of a file or a package, whatever is in it; raises ``UsageError`` as ``load`` does."""
    if name in names():
        return importlib.import_module(f"pipelines.{name}")
    module, _ = _named(name)
    return _import_file(name) if module is None else _import_module(module)


def load_function(name: str) -> tuple[Callable[..., DataFrame], str]:
    """The function of a file or a module that joins two streams, ``build`` or the one after the colon; its module.

    Raises ``UsageError``, also if it does not take two data frames.
    """
    file, colon, called = name.rpartition(":") if ".py:" in name else (name, "", "")
    module, function = _named(file)
    function = called if colon else "build" if ":" not in name else function
    imported = _import_file(file) if module is None else _import_module(module)
    found = getattr(imported, function, None)
    if not callable(found):
        raise UsageError(
            f"{name!r} has no function {function}",
            hint="name the function that joins two streams: PACKAGE.MODULE:FUNCTION, or FILE.py:FUNCTION",
        )
    parameters = list(inspect.signature(found).parameters)
    if parameters and parameters[0] in SESSIONS:
        raise UsageError(
            f"the function {function} of {name!r} takes a session, not two data frames",
            detail=f"its parameters are {inspect.signature(found)}",
            hint="run the query once with spark.eventLog.enabled and draft from its event log:"
            " tidemark contract --draft LOG; or give it the function that makes the joined data frame",
        )
    if len(parameters) != 2:
        raise UsageError(
            f"the function {function} of {name!r} does not take two data frames",
            detail=f"its parameters are {inspect.signature(found)}",
            hint="give it a function of the two streams as Kafka's source reads them",
        )
    if module is None:
        pickle_by_value([OF_A_FILE])
    return found, imported.__name__


def _named(name: str) -> tuple[str | None, str]:
    """The module that a name means, ``None`` for a file outside of packages, and the name of its contract."""
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise UsageError(f"there is no pipeline file {name!r}", hint="give the path of a Python file")
        return module_of(Path(name)), "CONTRACT"
    reference = MODULE.fullmatch(name)
    if reference is None or not {".", ":"} & set(name):
        raise UsageError(
            f"there is no pipeline {name!r}",
            hint=f"the bundled pipelines are {', '.join(names())}; or give the path of a Python file, or a module of"
            " your project: PACKAGE.MODULE:CONTRACT",
        )
    module = reference["module"]
    if module.partition(".")[0] in OURS:
        raise UsageError(
            f"the package {module.partition('.')[0]!r} cannot be tested",
            detail="a package of tidemark has the same name and comes first",
            hint="give your package another name; a file in a folder that is no package has no such limit",
        )
    return module, reference["contract"] or "CONTRACT"


def module_of(file: Path) -> str | None:
    """The module that a file is: ``adteam.join``; ``None`` if its folder is no package, or not on the path."""
    file = file.resolve()
    folder, parts = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    on_path = any(entry and Path(entry).resolve() == folder for entry in sys.path)
    return ".".join(parts) if len(parts) > 1 and parts[0] not in OURS and on_path else None


def _import_file(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(OF_A_FILE, Path(name).resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[OF_A_FILE] = module  # data classes look their module up
    try:
        spec.loader.exec_module(module)
    except TidemarkError:
        raise
    except Exception as error:
        raise as_usage_error(error, f"the pipeline {name!r} cannot be imported") from error
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except TidemarkError:
        raise
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise _no_module(name, error.name) from error
        raise as_usage_error(error, f"the pipeline {name!r} cannot be imported") from error
    except Exception as error:
        raise as_usage_error(error, f"the pipeline {name!r} cannot be imported") from error


def _no_module(name: str, missing: str) -> UsageError:
    """The error for a pipeline that is not there; it names the modules beside it."""
    package = missing.rpartition(".")[0]
    beside = [found.name for found in pkgutil.iter_modules(getattr(sys.modules.get(package), "__path__", []))]
    searched = [
        entry for entry in sys.path if Path(entry).is_dir() and is_of_project(f"{entry}/{missing}.py")
    ]
    return UsageError(
        f"there is no module {missing!r}" + (f" for the pipeline {name!r}" if missing != name else ""),
        detail=f"{package} has {', '.join(beside) or 'no modules'}"
        if package
        else f"looked in {', '.join(searched)} and in the packages of {sys.executable}",
        hint="run this in the folder of your project, or name that: --project DIR",
    )


def _checked(name: str, module: ModuleType, contract: str) -> ModuleType:
    has_query = hasattr(module, "build") or hasattr(module, "start")
    if missing := contract if not hasattr(module, contract) else "" if has_query else "build":
        raise UsageError(
            f"pipeline {name!r} has no {missing}",
            hint="a pipeline has a CONTRACT and a function build(left, right), or start(spark, io);"
            " see docs/howto/test-my-join.md",
        )
    return module
