"""One word, one meaning: words that were replaced do not come back, in names, messages, documents or file names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.repository import tree

NAMES = {
    "anchor": "goal (a coverage goal)",
    "anchors": "goals (coverage goals)",
    "cries": "false_positives",
    "crawl": "throttle",
    "doubt": "reason (why a verdict is inconclusive)",
    "doubts": "inconclusive",
    "excused": "permitted",
    "fate": "disposition",
    "halt": "suspend",
    "keeper": "reaper",
    "lane": "worker",
    "lanes": "workers",
    "mend": "repair",
    "mended": "repaired",
    "opinion": "oracle",
    "opinions": "oracles",
    "placing": "pushdown, or executor_assignment",
    "sabotage": "mutant",
    "saboteur": "mutant",
    "saboteurs": "mutants",
    "scene": "target (FaultTarget)",
    "strike": "inject, or fault",
    "striker": "injector (FaultInjector)",
    "strikes": "faults",
    "struck": "injected",
    "swept": "evicted",
    "timeless": "null_event_time",
    "whom": "victim",
}
"""Words of identifiers, parameters, file and folder names -> what to write instead."""

PHRASES = {
    r"saboteurs?": "mutant",
    r"strik(?:e|es|er|ers|ing)": "inject, fault, fault injector",
    r"who strikes": "the fault injector",
    r"(?:lies|lie|lying) in wait": "armed",
    r"lets? go": "resumes",
    r"cr(?:y|ies) of wolf": "false positives",
    r"cries wolf": "false positive",
    r"what must come of it": "expected behaviour",
    r"last words": "the end of the log",
    r"undo(?:es)? the dead": "cleans up orphans",
    r"house (?:rules?|tests?)": "repository checks",
    r"opinions?": "oracle",
    r"keepers?": "reaper",
    r"anchors?": "coverage goal",
    r"badly placed": "unsafe join",
    r"timeless": "with a NULL event time",
    r"excuse[sd]?": "permits, permitted duplicate",
    r"again: tidemark": "reproduce: tidemark",
}
"""Phrases of messages, comments and documents -> what to write instead. Case does not matter."""

DATA = ("tests/golden/", "tests/unit/preflight/recorded/")
"""Recorded data: not written by hand."""
OLD_FORMATS = (
    "tidemark/formats/conversion.py",
    "tests/unit/test_conversion.py",
    "tests/unit/oracle/test_golden_verdicts.py",
    "docs/conf.py",
)
"""Files that name fields of format version 1, recorded names, or settings of other programs."""
HERE = "tests/repository/test_vocabulary.py"
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
PHRASE = re.compile(r"\b(" + "|".join(f"(?:{phrase})" for phrase in PHRASES) + r")\b", re.IGNORECASE)


def words_of(name: str) -> list[str]:
    """``strike_driver`` and ``StrikeDriver`` as words."""
    return [word.lower() for word in WORD.findall(name)]


def names_in(module: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, name) of everything that a module gives a name to."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def retired_names() -> Iterator[str]:
    for name, module in tree.modules():
        if name == HERE or name in OLD_FORMATS:
            continue
        for line, identifier in names_in(module):
            for word in words_of(identifier):
                if word in NAMES:
                    yield f"{name}:{line}: {identifier}: write {NAMES[word]}"


def retired_file_names() -> Iterator[str]:
    for path in tree.files():
        name = tree.name_of(path)
        if name.startswith(DATA):
            continue
        for word in words_of(name):
            if word in NAMES:
                yield f"{name}: write {NAMES[word]}"


def retired_phrases() -> Iterator[str]:
    for name, text in tree.texts():
        if name == HERE or name in OLD_FORMATS or name.startswith(DATA):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for match in PHRASE.finditer(line):
                yield f"{name}:{number}: {match[0]!r}: write {replacement_of(match[0])}"


def replacement_of(found: str) -> str:
    return next(new for phrase, new in PHRASES.items() if re.fullmatch(phrase, found, re.IGNORECASE))


@pytest.mark.parametrize(
    "retired", [retired_names, retired_file_names, retired_phrases], ids=lambda one: one.__name__
)
def test_no_retired_word_is_used(retired):
    problems = "\n".join(retired())
    assert not problems, problems


def test_a_retired_word_is_found_in_any_form_of_a_name():
    assert (
        words_of("strike_driver")
        == words_of("strikeDriver")
        == words_of("StrikeDriver")
        == ["strike", "driver"]
    )
    module = ast.parse("def f(scene):\n    self.anchors = lane = 1\n")
    assert {name for _, name in names_in(module)} == {"f", "scene", "anchors", "lane"}


def test_a_phrase_has_its_own_replacement():
    assert replacement_of("who strikes") == "the fault injector"
    assert replacement_of("Saboteurs") == "mutant"
