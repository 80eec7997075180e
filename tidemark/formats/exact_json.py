"""JSON that keeps every digit of its numbers.

Free of everything but the standard library, because it also runs in another interpreter (``--spark PYTHON``).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

COMPACT = (",", ":")


def json_text(value: Any, separators: tuple[str, str] = COMPACT, *, ensure_ascii: bool = True) -> str:
    """A decoded record as JSON, as ``json.dumps`` writes it; a ``Decimal`` is a number with all of its digits.

    Raises ``TypeError`` for what JSON has not.
    """
    comma, colon = separators

    def text(one: Any) -> str:
        if isinstance(one, dict):
            return "{" + comma.join(f"{text(name)}{colon}{text(of)}" for name, of in one.items()) + "}"
        if isinstance(one, list | tuple):
            return "[" + comma.join(map(text, one)) + "]"
        return str(one) if isinstance(one, Decimal) else json.dumps(one, ensure_ascii=ensure_ascii)

    return text(value)
