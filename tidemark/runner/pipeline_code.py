"""A pipeline as a program of its own starts it, and what the program says of it before a run: its contract.

The user's module is never imported here. A module that can be imported only where a session is (one with a ``@udf`` at
its top level, say) is described on a driver of a stack.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemark.errors import UsageError
from tidemark.formats.chain import Chain, read_contract
from tidemark.formats.connect_url import with_parameters
from tidemark.formats.contract import Contract
from tidemark.runner.programs import run_program
from tidemark.runner.project_path import located, project_path
from tidemark.stack import Stack, lease, spec_to_lease

DESCRIBE_S = 120.0
"""Calibration: 0.5 s, on a driver 2 s; the user's packages take their own time."""


@dataclass(frozen=True)
class PipelineCode:
    """What a pipeline's program needs: its name, the interpreter, the folder of its project, packages and jars."""

    pipeline: str
    python: Path | None = None
    project: Path | None = None
    py_files: tuple[Path, ...] = ()
    jars: tuple[Path, ...] = ()
    packages: tuple[str, ...] = ()
    contract_only: bool = False

    @property
    def interpreter(self) -> Path:
        """The interpreter whose PySpark runs it."""
        return self.python or Path(sys.executable)

    @property
    def path(self) -> list[str]:
        """Where its modules are found: in the packages that go with it, then in its project."""
        packages = [str(package.resolve()) for package in self.py_files]
        return [*packages, *project_path(self.pipeline, self.project)]

    def arguments(self) -> list[str]:
        """The arguments of ``python -m`` that load the pipeline; raises ``UsageError`` for what is not there."""
        if self.project is not None and not self.project.is_dir():
            raise UsageError(
                f"there is no folder {str(self.project)!r}", hint="--project names a project's folder"
            )
        for package in self.py_files:
            if not package.is_file():
                raise UsageError(
                    f"there is no file {str(package)!r}", hint="--py-files names .py, .zip or .whl files"
                )
        return [
            "pipelines",
            located(self.pipeline),
            *(f"--path={folder}" for folder in project_path(self.pipeline, self.project)),
            *(["--contract-only"] if self.contract_only else []),
            *(f"--py-file={package.resolve()}" for package in self.py_files),
        ]


@dataclass(frozen=True)
class Described:
    """What a pipeline's program says of it: the contract; whether a function imports when it is called; ``start``."""

    contract: Contract | Chain
    imports_at_call: bool
    starts_query: bool = False


def describe(pipeline: str | PipelineCode, python: Path | None = None) -> Contract | Chain:
    """The contract of a bundled pipeline (by name), a file (by path) or a module; leases a stack if that is needed."""
    code = PipelineCode(pipeline, python) if isinstance(pipeline, str) else pipeline
    described = described_without_session(code)
    if described is None:
        with lease(spec_to_lease(code.python)) as stack:
            described = described_on(stack, code)
    return described.contract


def described_without_session(code: PipelineCode) -> Described | None:
    """What the program says, or ``None`` if the module has to be imported where a session is."""
    answer = _answer(code, "--inspect")
    return None if "needs_session" in answer else _described(answer)


def described_on(stack: Stack, code: PipelineCode) -> Described:
    """What the program says where it has a session."""
    return _described(answer_on(stack, code, "--inspect"))


def answer_on(stack: Stack, code: PipelineCode, question: str) -> dict[str, Any]:
    """What the program answers to an option where it has a session on the stack's driver."""
    with driver_session(stack) as remote:
        return _answer(code, question, f"--remote={remote}")


@contextmanager
def driver_session(stack: Stack) -> Iterator[str]:
    """The URL of a new session of the stack's driver, which is released at the end of the block."""
    driver, session_id = stack.driver(), str(uuid.uuid4())
    with stack.register_session(session_id, driver.name):
        yield with_parameters(driver.remote, session_id=session_id)


def _described(answer: dict[str, Any]) -> Described:
    return Described(read_contract(answer["contract"]), answer["imports_at_call"], answer["starts_query"])


def _answer(code: PipelineCode, *options: str) -> dict[str, Any]:
    arguments = [*code.arguments(), *options]
    answer: dict[str, Any] = json.loads(run_program(arguments, timeout_s=DESCRIBE_S, python=code.python))
    return answer
