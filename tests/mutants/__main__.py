"""Runs every mutant, also the long ones, prints the score and writes it down: ``python -m tests.mutants``.

Arguments are pytest's; a selection of tests (``-k``) prints its score and leaves the document as it is.
"""

from __future__ import annotations

import sys

import pytest

from tests.mutants.score import Writer

SELECTING = ("-k", "-m", "--lf", "--deselect")


def main(arguments: list[str]) -> int:
    """The exit code of pytest."""
    some = any(word.startswith(SELECTING) or word.startswith("tests") for word in arguments)
    everything = [] if some else ["tests/mutants", "tests/regressions"]
    plugins = [] if some else [Writer()]
    return pytest.main(["-m", "mutants or regressions", *everything, *arguments], plugins=plugins)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
