"""A drafted contract as Python, for a person: a note about where each line was read, and the questions.

Free of I/O.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

from tidemark.formats.contract import Bound, Filter, Output, Side, Term
from tidemark.formats.record_fields import Field
from tidemark.preflight.contract_draft import ContractDraft

QUESTION = "QUESTION"
_WIDTH = 100
_INLINE = (Bound, Output, Filter, Term, Field)
_NAMES = ("Bound", "Contract", "Field", "Filter", "JoinKind", "Output", "Side", "Term")


def draft_text(draft: ContractDraft, source: str, imports: str = "") -> str:
    """The Python source of a draft; ``source`` says what it was made of, ``imports`` are lines for the top."""
    many = sum(map(len, draft.questions.values()))
    count = f"{many} question{'' if many == 1 else 's'}, marked {QUESTION}" if many else "no question"
    head = (
        f"Drafted from the plan of {source}: {count}. It says what the query does; make it what the query should do."
        " Read each line, and delete the comments."
    )
    body = "\n".join(_contract(draft))
    used = ", ".join(name for name in _NAMES if f"{name}(" in body or f"{name}." in body)
    return f"{_comment(head, '')}\n{imports}from tidemark import {used}\n\nCONTRACT = {body}\n"


def _contract(draft: ContractDraft) -> Iterator[str]:
    yield "Contract("
    for question in draft.questions.get("contract", ()):
        yield _comment(f"{QUESTION}: {question}", "    ")
    asked = set(draft.questions)
    for name, value in _given(draft.contract, asked):
        if isinstance(value, Side):
            yield f"    {name}=Side("
            for inner, one in _given(value, {about.removeprefix(f"{name}.") for about in asked}):
                yield from _line(draft, f"{name}.{inner}", inner, one, "        ")
            yield "    ),"
        else:
            yield from _line(draft, name, name, value, "    ")
    yield ")"


def _line(draft: ContractDraft, about: str, name: str, value: Any, indent: str) -> Iterator[str]:
    """A field, and before it what is said of it."""
    if about in draft.notes:
        yield _comment(draft.notes[about], indent)
    for question in draft.questions.get(about, ()):
        yield _comment(f"{QUESTION}: {question}", indent)
    text = f"{indent}{name}={_shown(value)},"
    if len(text) <= _WIDTH or not isinstance(value, _INLINE):
        yield text
        return
    yield f"{indent}{name}={type(value).__name__}("
    for inner, one in _given(value):
        yield f"{indent}    {inner}={_shown(one)},"
    yield f"{indent}),"


def _given(value: Any, asked: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """The fields that are not their defaults, and those that a reader looks for, or is ``asked`` about."""
    for one in fields(value):
        found = getattr(value, one.name)
        if one.default is MISSING or found != one.default or one.name in asked:
            yield one.name, found


def _shown(value: Any) -> str:
    if isinstance(value, _INLINE):
        inside = ", ".join(f"{name}={_shown(found)}" for name, found in _given(value))
        return f"{type(value).__name__}({inside})"
    if isinstance(value, tuple):
        inside = ", ".join(map(_shown, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    return (
        repr(value)
        if not isinstance(value, str)
        else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )


def _comment(text: str, indent: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}#   ", break_long_words=False
    )
