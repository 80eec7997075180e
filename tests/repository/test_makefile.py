"""The Makefile: ``make`` shows every target, and an installed environment costs next to nothing."""

from __future__ import annotations

import re
import subprocess

from tests.repository import tree

MAKEFILE = (tree.ROOT / "Makefile").read_text()
PROMISED = {"help", "up", "down", "demo", "smoke", "test", "lint", "bench", "lock", "long", "soak", "clean"}


def targets() -> set[str]:
    """What can be typed after ``make``."""
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    return set(phony[1].split())


def test_make_shows_every_target_with_a_sentence():
    shown = subprocess.run(["make", "-s"], cwd=tree.ROOT, capture_output=True, text=True, check=True).stdout
    listed = set(re.findall(r"^  make ([a-z]+) +\S", shown, re.MULTILINE))
    assert listed == targets(), (
        f"fix: 'target: ## what it does', and .PHONY; differing: {sorted(listed ^ targets())}"
    )


def test_the_promised_targets_are_there():
    assert targets() >= PROMISED


def test_every_target_has_a_recipe():
    rules = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    assert rules == targets(), f"fix: .PHONY; differing: {sorted(rules ^ targets())}"
