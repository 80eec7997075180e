"""A name means one thing: no two modules and no two public classes share one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import PurePosixPath

from tests.repository import tree

SPECIAL = ("__init__", "__main__", "repro")
"""A package, a command, and the program that each ticket of ``spark_bugs`` has."""
CONFLICT_MARKERS = ("<" * 7 + " ", ">" * 7 + " ")


def _shared(names):
    places = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_no_two_modules_have_the_same_name():
    stems = [(PurePosixPath(name).stem, name) for name, _ in tree.modules(*tree.PRODUCT)]

    assert len(stems) > 100
    assert _shared((stem, name) for stem, name in stems if stem not in SPECIAL) == {}, (
        "fix: rename one of them"
    )


def test_no_two_public_classes_have_the_same_name():
    classes = [
        (node.name, f"{name}:{node.lineno}")
        for name, module in tree.modules(*tree.PRODUCT)
        for node in module.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]

    assert len(classes) > 100
    assert _shared(classes) == {}, "fix: rename one of them"


def test_no_file_holds_the_markers_of_a_merge_conflict():
    marked = [
        f"{name}:{number}"
        for name, text in tree.texts()
        for number, line in enumerate(text.splitlines(), 1)
        if line.startswith(CONFLICT_MARKERS)
    ]

    assert marked == [], "fix: resolve the conflict"
