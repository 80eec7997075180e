"""The tree that the repository checks look at: files as git sees them, functions as Python does."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("tidemark", "producers", "pipelines", "spark_bugs")

Definition = ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields in which statements are: nothing else of a syntax tree can hold a definition."""


@functools.cache
def files() -> tuple[Path, ...]:
    """Every file that is in git or could be added to it, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return tuple(
        sorted({path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()})
    )


def texts() -> Iterator[tuple[str, str]]:
    """(name in the tree, text) of every file that is text."""
    for path in files():
        try:
            yield name_of(path), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """(name in the tree, syntax tree) of every Python file below these folders; of all, if none is given."""
    for name, module in _modules():
        if not folders or name.split("/")[0] in folders:
            yield name, module


@functools.cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    return tuple((name, ast.parse(text, name)) for name, text in texts() if name.endswith(".py"))


def name_of(path: Path) -> str:
    """A file's name in the tree."""
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Function:
    """A function, by the name that it has in a traceback."""

    module: str
    qualified: str
    node: Definition

    @property
    def where(self) -> str:
        """As tables of deviations name it."""
        return f"{self.module}:{self.qualified}"

    @property
    def lines(self) -> int:
        """From ``def`` to the last line, without the functions that are defined inside."""
        return _extent(self.node) - sum(_extent(child) for child in _children(self.node))

    @property
    def own_nodes(self) -> Iterator[ast.AST]:
        """Everything in it but what is in a function defined inside."""
        others = {id(node) for child in _children(self.node) for node in ast.walk(child)}
        return (node for node in ast.walk(self.node) if id(node) not in others)

    @property
    def parameters(self) -> list[ast.arg]:
        """All but ``self`` and ``cls``."""
        args = self.node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        return [arg for arg in every if arg.arg not in ("self", "cls")]


def functions(*folders: str) -> Iterator[Function]:
    """Every function and method below these folders, also those defined inside another."""
    for function in _functions():
        if not folders or function.module.split("/")[0] in folders:
            yield function


@functools.cache
def _functions() -> tuple[Function, ...]:
    return tuple(function for module, tree in modules() for function in _inside(module, tree, ""))


def _inside(module: str, node: ast.AST, prefix: str) -> Iterator[Function]:
    for child in _statements(node):
        name = prefix
        if isinstance(child, (*DEFINITIONS, ast.ClassDef)):
            name = f"{prefix}.{child.name}".lstrip(".")
        if isinstance(child, DEFINITIONS):
            yield Function(module, name, child)
        yield from _inside(module, child, name)


def _extent(node: Definition) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _children(node: ast.AST) -> Iterator[Definition]:
    """The functions directly inside ``node``, not those inside a function inside it."""
    for child in _statements(node):
        if isinstance(child, DEFINITIONS):
            yield child
        else:
            yield from _children(child)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements directly inside, with the handlers and cases that hold some."""
    for field in BLOCKS:
        yield from getattr(node, field, ())
