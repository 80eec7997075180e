"""The reference says what the source says, and the site has every page."""

from __future__ import annotations

import re

import pytest

from docs.environment import VARIABLES
from docs.generate import REFERENCE, pages
from tests.repository import tree
from tidemark.errors import TidemarkError
from tidemark.formats.faults import POINTS
from tidemark.oracle import PROPERTIES

DOCS = tree.ROOT / "docs"
NOT_OF_THE_PRODUCT = {"TIDEMARK_MARK"}
"""Made up by a test of processes."""


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_page_is_what_the_source_says(name):
    assert (REFERENCE / name).read_text(encoding="utf-8") == pages()[name], "fix: python -m docs.generate"


def test_every_property_point_and_error_is_in_the_reference():
    written = pages()
    errors = [
        kind.__name__ for base in TidemarkError.__subclasses__() for kind in (base, *base.__subclasses__())
    ]
    assert not [name for name in PROPERTIES if f"`{name}`" not in written["properties.md"]]
    assert not [name for name in errors if name not in written["exit-codes.md"]], (
        "fix: tidemark/errors.py, the tree"
    )
    for (component, action), points in POINTS.items():
        shown = " ".join(f"`{point}`" for point in points)
        assert f"| `{component}` | `{action}` | {shown} |" in written["faults.md"]


def test_every_environment_variable_of_the_project_is_in_the_reference():
    named = {
        name
        for file, text in tree.texts()
        if not file.startswith("docs/") and not file.endswith((".md", ".jsonl"))
        for name in re.findall(r"\bTIDEMARK_[A-Z0-9_]*[A-Z0-9]\b", text)
    } - NOT_OF_THE_PRODUCT
    told = {name for name in VARIABLES if name.startswith("TIDEMARK_")}
    assert named == told, f"fix: docs/environment.py; differing: {sorted(named ^ told)}"


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(
        r"^((?:\w[\w-]*/)*[\w-]+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    there = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")} - {"index"}
    assert there <= set(listed), f"fix: docs/index.md lacks {sorted(there - set(listed))}"
