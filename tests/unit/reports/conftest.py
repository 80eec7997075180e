"""What tests of reports share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of recorded evidence."""
    return Path(__file__).parents[2] / "golden" / "evidence"
