"""Sizes: a file, a function and a list of parameters that fit in one's head."""

from __future__ import annotations

import ast

from tests.house import tree
from tests.house.deviations import compare

FILE_LINES = 400
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
    found = {
        function.where: f"{len(function.parameters)} parameters, more than {PARAMETERS}"
        for function in tree.functions()
        if len(function.parameters) > PARAMETERS and not _is_command(function) and not _is_test(function)
    }
    problems = compare("parameters", found, "group those that travel together in a dataclass")
    assert not problems, problems


def _is_command(function: tree.Function) -> bool:
    """Whether it is a command of the command line, whose parameters are its options."""
    decorators = [ast.unparse(decorator) for decorator in function.node.decorator_list]
    if any(".command(" in decorator or ".callback(" in decorator for decorator in decorators):
        return True
    annotations = [ast.unparse(argument.annotation or ast.Constant("")) for argument in function.parameters]
    return all(text.startswith("Annotated[") or text == "typer.Context" for text in annotations)


def _is_test(function: tree.Function) -> bool:
    return function.module.startswith("tests/") and function.node.name.startswith("test_")
