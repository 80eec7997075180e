"""Sizes: a file, a function and a list of parameters that fit in one's head."""

from __future__ import annotations

import ast

from tests.repository import tree
from tests.repository.deviations import compare

FILE_LINES = 500
FUNCTION_LINES = 50
PARAMETERS = 5


def test_files_are_short():
    found = {
        name: f"{lines} lines, more than {FILE_LINES}"
        for name, text in tree.texts()
        if name.endswith(".py") and (lines := text.count("\n")) > FILE_LINES
    }
    problems = compare("file-lines", found, "split it where a second subject begins")
    assert not problems, problems


def test_functions_are_short():
    found = {
        function.where: f"{function.lines} lines, more than {FUNCTION_LINES}"
        for function in tree.functions()
        if function.lines > FUNCTION_LINES
    }
    problems = compare("function-lines", found, "give a part of it a name of its own")
    assert not problems, problems


def test_functions_take_few_parameters():
    """Not counted: the options of a command, and the fixtures of a test."""
    commands = _commands()
    found = {
        function.where: f"{len(function.parameters)} parameters, more than {PARAMETERS}"
        for function in tree.functions()
        if len(function.parameters) > PARAMETERS
        and function.where not in commands
        and not _is_decorated_command(function)
        and not _is_test(function)
    }
    problems = compare("parameters", found, "group those that travel together in a dataclass")
    assert not problems, problems


def _commands() -> set[str]:
    """The commands of the command line, whose parameters are their options: ``app.command("run")(run_command)``."""
    return {
        f"{module}:{argument.id}"
        for module, parsed in tree.modules(*tree.PRODUCT, "bench")
        for node in ast.walk(parsed)
        if isinstance(node, ast.Call) and _registers(node.func)
        for argument in node.args
        if isinstance(argument, ast.Name)
    }


def _is_decorated_command(function: tree.Function) -> bool:
    return any(_registers(decorator) for decorator in function.node.decorator_list)


def _registers(node: ast.expr) -> bool:
    """Whether it is ``app.command(...)`` or ``app.callback(...)``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("command", "callback")
    )


def _is_test(function: tree.Function) -> bool:
    return function.module.startswith("tests/") and function.node.name.startswith("test_")
