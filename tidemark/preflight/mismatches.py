"""What a comparison gives.

Free of I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.formats.contract import Filter


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
    """All mismatches, and sentences about what could not be compared.

    ``inferred`` has, by topic, what the plan asks of a key because the contract asks it of the equal key of the other
    side; ``None``: the plan does not say, or not in full.
    """

    mismatches: tuple[Mismatch, ...] = ()
    not_compared: tuple[str, ...] = ()
    inferred: dict[str, list[Filter]] | None = None


class Notes:
    """Collects what a comparison finds, each thing once."""

    def __init__(self) -> None:
        self._mismatches: dict[Mismatch, None] = {}
        self._not_compared: dict[str, None] = {}
        self.inferred: dict[str, list[Filter]] | None = None

    def differs(self, part: str, contract: str, plan: str, hint: str) -> None:
        """The contract says one thing, the plan another."""
        self._mismatches[Mismatch(part, contract, plan, hint)] = None

    def skip(self, sentence: str) -> None:
        """Something could not be compared."""
        self._not_compared[sentence] = None

    def done(self) -> PlanComparison:
        """All of it, in the order in which it was found."""
        return PlanComparison(tuple(self._mismatches), tuple(self._not_compared), self.inferred)
