"""Trials of a predicate that is dear and may be flaky: whether a candidate is *red*, that is, shows the bug.

Free of I/O but for what its caller hands in. A red trial is certain, because the bug was seen; a green one is not. So
the first run is repeated for its rate; a candidate is rejected after so many green trials in a row that one as red as
the first would hardly give them (one, if the first was always red; then it is never asked for again), and accepted
after two or three red ones, or one where trials are dear. Each trial is remembered by the candidate's digest and its
number, so that no trial is run twice, not even by another process that reads the journal. A trial that the testbed
failed is neither red nor green: it is tried once more, and is not remembered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Candidate = TypeVar("Candidate")

FIRST_REDS = 3
"""How many red trials of the first run give its rate: three trials, if all of them are."""
MOST_TRIALS = 60
"""Of one candidate, and of the first run: of a bug that comes in one run of 20 three are seen in as many."""
WRONGLY_REJECTED = 0.2
"""How likely a candidate that is as red as the first run may be to be rejected. It costs size, never correctness."""
FINAL_TRIALS = 5
TRIES = 2
"""How often a trial is tried that the testbed fails: on a busy machine a program is late now and then."""


class BudgetSpent(Exception):
    """The time for trials is over."""


class NoOutcome(Exception):
    """The testbed failed in each try of a trial."""


@dataclass(frozen=True)
class Measured:
    """So many trials ``of`` which so many were ``red``."""

    red: int
    of: int

    @property
    def rate(self) -> float:
        """The share of red ones, 0 to 1."""
        return self.red / self.of if self.of else 0.0

    @property
    def is_flaky(self) -> bool:
        """Whether some were red and some were not."""
        return 0 < self.red < self.of

    def __str__(self) -> str:
        return f"{self.red} of {self.of} runs"


@dataclass
class FlakyTrials(Generic[Candidate]):
    """``run`` is one trial (``None``: the testbed failed, and nobody knows), ``digest`` names a candidate by its
    content, ``possible`` says whether it can be red at all: if not, nothing is run. ``outcomes`` are those of earlier
    trials by digest, ``ended`` hears of each new one. ``is_over`` tells when the time is over, ``is_dear`` of which
    candidates one red trial has to do, if the first run was always red.
    """

    run: Callable[[Candidate], bool | None]
    digest: Callable[[Candidate], str]
    possible: Callable[[Candidate], bool] = lambda _candidate: True
    outcomes: dict[str, list[bool]] = field(default_factory=dict)
    ended: Callable[[str, bool], None] = lambda _digest, _red: None
    is_over: Callable[[], bool] = lambda: False
    is_dear: Callable[[Candidate], bool] = lambda _candidate: False
    first: Measured | None = field(default=None, init=False)
    trials: int = field(default=0, init=False)
    told: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._impossible: dict[str, bool] = {}
        self._refuted: set[str] = set()
        self._unlimited = False

    def measure(self, first: Candidate) -> Measured:
        """Repeat the first run for its rate; none is red if the bug cannot be shown again. Raises ``BudgetSpent``."""
        red = of = 0
        self._asked[self.digest(first)] = 0  # what was tried of it before counts
        for _ in range(MOST_TRIALS):
            with suppress(NoOutcome):
                red += self._trial(first)
                of += 1
            if red == FIRST_REDS:
                break
        self.first = Measured(red, of)
        return self.first

    @property
    def patience(self) -> int:
        """How many green trials in a row reject a candidate."""
        rate = 1.0 if self.first is None else self.first.rate
        if rate >= 1.0:
            return 1
        wanted = math.log(WRONGLY_REJECTED) / math.log(1.0 - max(rate, 1e-9))
        return max(1, min(MOST_TRIALS, math.ceil(wanted)))

    def accepts(self, candidate: Candidate) -> bool:
        """Whether a candidate shows the bug: two red trials, three where the first run is flaky, one of a dear one.

        One that the testbed fails is rejected, until another process asks. Raises ``BudgetSpent``.
        """
        digest, is_flaky = self.digest(candidate), self.first is not None and self.first.is_flaky
        if digest in self._refuted or not self._can_be_red(digest, candidate):
            self._must_be_in_time()
            return False
        wanted = 3 if is_flaky else 1 if self.is_dear(candidate) else 2
        try:
            is_red = all(self._is_red_in_time(candidate) for _ in range(wanted))
        except NoOutcome:
            self._refuted.add(digest)
            return False
        if not is_red and not is_flaky:
            self._refuted.add(digest)
        return is_red

    def is_red_once(self, candidate: Candidate) -> bool | None:
        """Whether a candidate shows the bug in one trial, or as many as the first run's rate asks for.

        ``None`` if the testbed failed.
        """
        try:
            return self._can_be_red(self.digest(candidate), candidate) and self._is_red_in_time(candidate)
        except NoOutcome:
            return None

    def confirms(self, candidate: Candidate) -> bool:
        """Run an accepted candidate again; one that is much less red than the first run is refuted for good.

        A trial that the testbed fails refutes nothing: the candidate has been red.
        """
        rate = 1.0 if self.first is None else self.first.rate
        more = max(FINAL_TRIALS, self.patience)
        try:
            if self._is_red_in_time(candidate):
                return True
            if sum(self._trial(candidate) for _ in range(more)) >= more * rate / 2:
                return True
        except NoOutcome:
            return True
        self._refuted.add(self.digest(candidate))
        return False

    def final(self, candidate: Candidate, runs: int = FINAL_TRIALS) -> Measured:
        """Run the smallest so many times, also if the time is over; the last is one that the testbed fails."""
        red = of = 0
        self._unlimited = True
        try:
            while of < runs:
                red += self._trial(candidate)
                of += 1
        except NoOutcome:
            pass
        finally:
            self._unlimited = False
        return Measured(red, of)

    def _is_red_in_time(self, candidate: Candidate) -> bool:
        return any(self._trial(candidate) for _ in range(self.patience))

    def _can_be_red(self, digest: str, candidate: Candidate) -> bool:
        if digest not in self._impossible:
            self._impossible[digest] = not self.possible(candidate)
            self.told += self._impossible[digest]
        return not self._impossible[digest]

    def _trial(self, candidate: Candidate) -> bool:
        """The next trial of a candidate: an earlier process's, while there is one, else a new one.

        Raises ``BudgetSpent`` and ``NoOutcome``.
        """
        digest = self.digest(candidate)
        known, at = self.outcomes.setdefault(digest, []), self._asked[digest]
        if at >= len(known):
            red = self._outcome(candidate)
            known.append(red)
            self.trials += 1
            self.ended(digest, red)
        self._asked[digest] += 1
        return known[at]

    def _outcome(self, candidate: Candidate) -> bool:
        for _ in range(TRIES):
            self._must_be_in_time()
            red = self.run(candidate)
            if red is not None:
                return red
        raise NoOutcome

    def _must_be_in_time(self) -> None:
        if not self._unlimited and self.is_over():
            raise BudgetSpent
