"""Runs every mutant, also the long ones, prints the score and writes it down: ``python -m tests.mutants``.

Arguments are pytest's; a selection of tests (``-k``) prints its score and leaves the document as it is. ``--resume``
leaves out the tests that passed in an interrupted run with the same code.
"""

from __future__ import annotations

import sys

import pytest

from tests.mutants.score import Writer

RESUME = "--resume"
PLUGIN_IS_IMPORTED = "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning"
"""The score needs ``tidemark`` before pytest finds it among its plugins; no assertion there is to be rewritten."""
SELECTING = ("-k", "-m", "--lf", "--deselect")


def main(arguments: list[str]) -> int:
    """The exit code of pytest."""
    some = any(word.startswith(SELECTING) or word.startswith("tests") for word in arguments)
    # The document's own test is of the one before, and would keep that of new mutants from being written.
    own = "tests/mutants/test_score.py"
    everything = [] if some else ["tests/mutants", "tests/regressions", f"--ignore={own}"]
    words = [word for word in arguments if word != RESUME]
    writer = None if some else Writer(resume=RESUME in arguments)
    deselecting = writer.deselecting if writer else []
    return pytest.main(
        [PLUGIN_IS_IMPORTED, "-m", "mutants or regressions", *everything, *deselecting, *words],
        plugins=[writer] if writer else [],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
