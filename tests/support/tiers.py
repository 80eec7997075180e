"""Which parameters of a test run every day: some of them; ``make long`` has all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def every_day(values: Iterable[Any], today: Collection[Any]) -> list[Any]:
    """Parameters of which those that are in ``today`` run every day, and the others in ``make long``."""
    listed = list(values)
    assert any(value in today for value in listed), "nothing is left for every day"
    return [value if value in today else pytest.param(value, marks=pytest.mark.long) for value in listed]
