"""Error texts: every error says what to do, and the tree drawn in errors.py is the one that is there."""

from __future__ import annotations

import ast
import inspect
import re

from tests.repository import tree
from tests.repository.deviations import compare
from tidemark import errors

CLASSES = {
    name: thing
    for name, thing in vars(errors).items()
    if inspect.isclass(thing) and issubclass(thing, errors.TidemarkError)
}


def _calls() -> list[tuple[str, ast.Call]]:
    """Every error that is made in the product, with the innermost function that makes it."""
    return [
        (function.where, node)
        for function in tree.functions(*tree.PRODUCT)
        for node in function.own_nodes
        if isinstance(node, ast.Call) and _called(node) in CLASSES
    ]


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _has_hint(call: ast.Call) -> bool:
    hints = [keyword.value for keyword in call.keywords if keyword.arg in (None, "hint")]
    return any(not isinstance(hint, ast.Constant) or bool(hint.value) for hint in hints)


def test_every_error_has_a_hint():
    found = {where: f"line {call.lineno}: no hint" for where, call in _calls() if not _has_hint(call)}
    problems = compare("hint", found, "hint='what the reader can do now'")
    assert not problems, problems


def test_messages_are_not_sentences_with_a_full_stop():
    found = [
        f"{where}: line {call.lineno}: {ast.unparse(call.args[0])}"
        for where, call in _calls()
        if call.args and ast.unparse(call.args[0]).rstrip("'\"").endswith(".")
    ]
    assert not found, "\n".join([*found, "fix: a message is what comes after 'error:', without a full stop"])


def test_no_error_is_raised_without_a_message():
    found = [f"{where}: line {call.lineno}" for where, call in _calls() if not call.args]
    assert not found, "\n".join([*found, "fix: say what happened, with the value that triggered it"])


def test_the_drawn_tree_is_the_real_one():
    drawn = set(re.findall(r"(?:├──|└──) (\w+)", errors.__doc__ or ""))
    real = CLASSES.keys() - {"TidemarkError"}
    assert drawn == real, f"fix: the docstring of tidemark/errors.py; it differs in {sorted(drawn ^ real)}"


def test_the_drawn_exit_codes_are_the_real_ones():
    drawn = dict(re.findall(r"── (\w+) +(\d)", errors.__doc__ or ""))
    assert drawn == {name: str(CLASSES[name].exit_code) for name in drawn}
    assert len(drawn) >= 2
