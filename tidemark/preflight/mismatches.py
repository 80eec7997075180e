"""What a comparison gives.

Free of I/O.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mismatch:
    """``part`` is what differs: kind, keys, bound, …; ``contract`` and ``plan`` what each of them says of it."""

    part: str
    contract: str
    plan: str
    hint: str

    def __str__(self) -> str:
        return f"{self.part}: the contract says {self.contract}; the plan says {self.plan}"


@dataclass(frozen=True)
class PlanComparison:
    """All mismatches, and sentences about what could not be compared."""

    mismatches: tuple[Mismatch, ...] = ()
    not_compared: tuple[str, ...] = ()


class Notes:
    """Collects what a comparison finds, each thing once."""

    def __init__(self) -> None:
        self._mismatches: dict[Mismatch, None] = {}
        self._not_compared: dict[str, None] = {}

    def differs(self, part: str, contract: str, plan: str, hint: str) -> None:
        """The contract says one thing, the plan another."""
        self._mismatches[Mismatch(part, contract, plan, hint)] = None

    def skip(self, sentence: str) -> None:
        """Something could not be compared."""
        self._not_compared[sentence] = None

    def add(self, other: PlanComparison) -> None:
        """All that another comparison found."""
        self._mismatches |= dict.fromkeys(other.mismatches)
        self._not_compared |= dict.fromkeys(other.not_compared)

    def done(self) -> PlanComparison:
        """All of it, in the order in which it was found."""
        return PlanComparison(tuple(self._mismatches), tuple(self._not_compared))
