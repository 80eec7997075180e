"""Each repository in ``docs/examples`` is listed, has its mistakes, and they still are changes of its code."""

from __future__ import annotations

import ast

import pytest

from tests.repository import tree
from tests.support.broken_examples import EXAMPLES
from tests.support.example_repository import EXAMPLES as FOLDER

FEWEST = 10
FILES = ("README.md", "pyproject.toml", ".github/workflows/tidemark.yml", "tests/test_join.py")


def test_every_folder_has_a_list_of_mistakes():
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(EXAMPLES), (
        "fix: a list of its mistakes in tests/support/broken_examples.py"
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_a_repository_as_a_user_has_it(name):
    assert [file for file in FILES if not (EXAMPLES[name].folder / file).is_file()] == []
    assert f"examples/{name}/README" in (tree.ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_mistake_is_a_change_of_its_code(name):
    example = EXAMPLES[name]
    assert len(example.breaks) >= FEWEST
    for what, mistake in example.breaks.items():
        was = (example.folder / "src" / mistake.file).read_text()
        broken = mistake.applied(was)
        assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(was)), what
        assert mistake.says, what
