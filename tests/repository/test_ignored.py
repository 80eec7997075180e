"""What git ignores: a file that a test reads and git ignores is in no clone."""

from __future__ import annotations

import subprocess
from pathlib import PurePath

from tests.repository import tree

CACHES = {"__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis", ".pytest_cache"}
MADE = ("bench/results/", "tidemark/reports/page/bundle/")
"""What programs of the tree write beside the code."""


def test_no_file_beside_the_code_is_ignored():
    folders = sorted({name.split("/")[0] for name in map(tree.name_of, tree.files()) if "/" in name})
    asked = ["git", "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", *folders]
    listed = subprocess.run(asked, cwd=tree.ROOT, check=True, capture_output=True, text=True).stdout

    names = [name for name in listed.split("\0") if name and not name.startswith(MADE)]

    assert "tests" in folders
    assert [name for name in names if CACHES.isdisjoint(PurePath(name).parts)] == []
