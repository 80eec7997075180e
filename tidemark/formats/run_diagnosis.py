"""What a diagnosis says: a field of ``verdict.json``, what ``tidemark diagnose --json`` prints, and its sentences.

Free of I/O.
"""

from __future__ import annotations

from typing import Literal

import msgspec

IN_COMMON = "in common: "
Outcome = Literal["explained", "several", "defects", "unexplained", "nothing wrong", "not asked"]


class Explanation(msgspec.Struct, kw_only=True, frozen=True):
    """One answer that explains all findings. ``changes`` are the names of what is changed, one or two; ``message`` is
    the sentence, ``also`` says what cannot be told apart from it.
    """

    changes: list[str]
    message: str
    also: list[str] = []


class Diagnosis(msgspec.Struct, kw_only=True):
    """What ``tidemark diagnose`` found out about a run.

    ``outcome``: *explained* by the one of ``explanations``; *several* explain it equally well; *defects*: known
    defects of Spark explain it; *unexplained*: nothing that was asked about explains all findings; *nothing wrong*:
    there is no finding; *not asked*: ``notes`` say why. ``common`` says what the rows in question have in common,
    ``nearest`` what comes nearest and what it leaves unexplained. ``asked`` counts the contracts and deliveries that
    the judge was asked about; ``sampled`` are how many keys of how many were, if not all (``null``).
    """

    outcome: Outcome
    explanations: list[Explanation] = []
    common: list[str] = []
    nearest: str = ""
    notes: list[str] = []
    asked: int = 0
    sampled: tuple[int, int] | None = None

    def lines(self) -> list[str]:
        """The sentences, the most important first."""
        found = [*_said(self.outcome, self.explanations)]
        if self.outcome == "unexplained":
            found += [f"{IN_COMMON}{one}" for one in self.common]
            found += [self.nearest] if self.nearest else []
        if self.sampled is not None:
            found.append(
                f"asked about {self.sampled[0]:,} of {self.sampled[1]:,} keys: those of wrong rows, and others"
            )
        return found + self.notes

    def brief(self) -> list[str]:
        """What is said below a verdict: less where nothing is named, and nothing that the verdict says itself."""
        if self.outcome in ("defects", "nothing wrong"):
            return []
        return [line for line in self.lines() if not line.startswith(IN_COMMON)]


def _said(outcome: Outcome, explanations: list[Explanation]) -> list[str]:
    if outcome == "nothing wrong":
        return ["nothing is wrong, so there is nothing to explain"]
    if outcome == "unexplained":
        return [
            "no other contract, rule of Spark or delivery explains all findings, one change or two at a time"
        ]
    also = [f"({note})" for one in explanations for note in one.also]
    if outcome == "several":
        return [f"either of these explains all findings, {len(explanations)} in all:"] + [
            f"{number}. {' '.join([one.message, *(f'({note})' for note in one.also)])}"
            for number, one in enumerate(explanations, 1)
        ]
    return [" ".join([one.message for one in explanations] + also)] if explanations else []
