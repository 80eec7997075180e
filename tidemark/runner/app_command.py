"""The command that starts a user's job, a program with a driver of its own; topics and checkpoint are arguments of it.

``{bootstrap}``, ``{topic:NAME}``, ``{output}`` and ``{checkpoint}`` are replaced, and ``{{`` and ``}}`` by one brace.
In the place of ``{output}``, the topic that is judged, a job may write ``{table}``, a folder. A Spark Connect program
has ``{connect}``, too: the address of a driver that the run starts for it; and a job that uses a schema registry
``{registry}``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tidemark.errors import UsageError
from tidemark.runner.pipeline_code import PipelineCode
from tidemark.runner.project_path import is_module, project_path

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
NO_FIELDS: Mapping[str, str] = MappingProxyType({})
PYTHONS = ("python", "python3")
CONNECT = "connect"
"""The field of a Spark Connect program."""
OUTPUTS = ("output", "table")


def uses_connect(command: str) -> bool:
    """Whether a command has the field of a Spark Connect program."""
    return CONNECT in _fields(command)


def output_field(command: str) -> str:
    """The field of the job's output: ``output`` or ``table``. Raises ``UsageError`` if it uses both, or none."""
    fields = _fields(command)
    used = [name for name in OUTPUTS if name in fields]
    if len(used) == 1:
        return used[0]
    raise UsageError(
        f"--app uses {' and '.join(f'{{{name}}}' for name in used) or 'neither {output} nor {table}'}",
        detail="one output is judged: the records of the topic {output}, or the rows of the table {table}",
        hint="use one of them: … --out {output}, or … --out {table}",
    )


def _fields(command: str) -> set[str]:
    return {match[1] for match in _FIELD.finditer(command) if match[1] is not None}


def app_words(
    command: str, values: Mapping[str, str], code: PipelineCode, optional: Mapping[str, str] = NO_FIELDS
) -> list[str]:
    """The words of the command with its fields replaced; ``values`` has each by its name.

    A field of ``optional`` need not be used; one that is empty there was not asked for. One of ``output`` and ``table``
    is not used. Raises ``UsageError`` for a field that there is not, for one that is not used, and for a program that
    is not there.
    """
    used = {name for name in OUTPUTS if name != output_field(command)}

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name in optional and not optional[name]:
            raise UsageError(
                f"--app has the field {match[0]}, and the run has no {name}",
                hint=f"add --{name} to the command",
            )
        known = {**values, **optional}
        if name not in known:
            raise UsageError(
                f"--app has the field {match[0]}, which there is not",
                hint=f"fields are {', '.join(f'{{{one}}}' for one in known)}",
            )
        used.add(name)
        return known[name]

    try:
        words = [_FIELD.sub(value, word) for word in shlex.split(command)]
    except ValueError as error:
        raise UsageError(
            f"--app {command!r} is no command", detail=str(error), hint="quote it as for a shell"
        ) from error
    if missing := [name for name in values if name not in used]:
        raise UsageError(
            f"--app does not use {', '.join(f'{{{name}}}' for name in missing)}",
            detail="the job would read or write something else than what is judged",
            hint="hand it to the job: python -m adteam.job --brokers {bootstrap} --orders {topic:orders} …",
        )
    if words[0] in PYTHONS:
        words[0] = str(code.interpreter)
    if shutil.which(words[0]) is None:
        raise UsageError(
            f"there is no program {words[0]!r}", hint="--app begins with a program: python -m adteam.job …"
        )
    return words


def app_path(command: str, code: PipelineCode) -> list[str]:
    """The folders in which the job's modules are looked for, as those of a pipeline."""
    named = module_of_app(command) or "app.job"
    return project_path(named if is_module(named) else f"{named}.job", code.project)


def module_of_app(command: str) -> str:
    """The module that ``python -m`` runs; empty if the command is another."""
    words = shlex.split(command)
    return words[2] if len(words) > 2 and words[0] in PYTHONS and words[1] == "-m" else ""


def sources_of_app(command: str, code: PipelineCode) -> dict[str, str]:
    """The package of the job (name -> folder), or its file, where it is the project's; for the evidence."""
    words, module = shlex.split(command), module_of_app(command).partition(".")[0]
    for folder in app_path(command, code) if module else []:
        for found in (Path(folder) / module, Path(folder) / f"{module}.py"):
            if found.exists():
                return {module: str(found)}
    scripts = [word for word in words[1:2] if word.endswith(".py") and os.path.isfile(word)]
    return {Path(script).stem: str(Path(script).resolve()) for script in scripts}
