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


def test_no_module_gives_a_name_of_its_own_two_values():
    """A merge may leave two constants of one name, of which the later is everybody's."""
    given = [
        (f"{name}:{target.id}", f"{name}:{node.lineno}")
        for name, module in tree.modules()
        for node in module.body
        for target in _targets(node)
        if isinstance(target, ast.Name)
    ]

    assert len(given) > 1_000
    assert _shared(given) == {}, "fix: rename one of them"


def _targets(node):
    if isinstance(node, ast.Assign):
        return [part for target in node.targets for part in ast.walk(target)]
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def test_no_file_holds_the_markers_of_a_merge_conflict():
    marked = [
        f"{name}:{number}"
        for name, text in tree.texts()
        for number, line in enumerate(text.splitlines(), 1)
        if line.startswith(CONFLICT_MARKERS)
    ]

    assert marked == [], "fix: resolve the conflict"
