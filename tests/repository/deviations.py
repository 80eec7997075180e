"""The one table of deviations from the repository checks; an entry that is no longer needed fails, too."""

from __future__ import annotations

from typing import NamedTuple


class Deviation(NamedTuple):
    """Where a rule is not kept (``file`` or ``file:function``), why, and since when."""

    rule: str
    where: str
    reason: str
    since: str


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "hint",
        "tidemark/waiting.py:wait_until",
        "a wait knows what it waited for, but only its caller knows what to do about it",
        "2026-11-21",
    ),
)


def allowed(rule: str) -> set[str]:
    """The places that may break ``rule``."""
    return {deviation.where for deviation in DEVIATIONS if deviation.rule == rule}


def compare(rule: str, found: dict[str, str], fix: str) -> str:
    """Say what breaks ``rule`` and is not in the table, and what is in the table and breaks nothing."""
    table = allowed(rule)
    lines = [f"{where}: {what}" for where, what in sorted(found.items()) if where not in table]
    if lines:
        lines.append(f"fix: {fix}; or, with a reason and a date, an entry in tests/repository/deviations.py")
    lines += [
        f"{where}: keeps the rule {rule!r} by now; fix: delete its entry in tests/repository/deviations.py"
        for where in sorted(table - found.keys())
    ]
    return "\n".join(lines)
