"""What is said of each property and each coverage goal where they are defined: read out of two docstrings.

Free of I/O. ``tidemark.oracle.findings`` and ``tidemark.oracle.coverage`` have one entry for each, in a fixed form.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tidemark.oracle import coverage, findings

_ENTRY = re.compile(r"^``(\w+)``\n((?: {4}.*\n|\n)+)", re.MULTILINE)
_LABEL = re.compile(r"(?:^|(?<=\s))(Example|Usual causes|Next): ")
_GOAL = re.compile(r"^``(\w+)`` +(.*(?:\n {10,}.*)*)", re.MULTILINE)


class PropertyNote(NamedTuple):
    """What a violated property means, what usually causes it, and the next command; double backticks mark code."""

    meaning: str = ""
    causes: tuple[str, ...] = ()
    next: str = ""


@cache
def property_notes() -> dict[str, PropertyNote]:
    """The note of each property."""
    return {name: _note(text) for name, text in _ENTRY.findall(f"{findings.__doc__ or ''}\n")}


def _note(text: str) -> PropertyNote:
    meaning, *labelled = _LABEL.split(" ".join(text.split()))
    said = dict(zip(labelled[::2], (part.strip() for part in labelled[1::2]), strict=True))
    causes = said.get("Usual causes", "").removesuffix(".").split("; ")
    return PropertyNote(meaning.strip(), tuple(filter(None, causes)), said.get("Next", ""))


@cache
def goal_notes() -> dict[str, str]:
    """When each coverage goal is met."""
    return {name: " ".join(text.split()) for name, text in _GOAL.findall(coverage.__doc__ or "")}
