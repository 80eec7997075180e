"""The search for a smaller candidate that still shows the bug: passes, coarse to fine, to a fixed point.

Free of I/O, of Spark, and of what a candidate is. A *removal* takes units away, half of all first, then quarters, and
so on to single ones (Zeller's ddmin, complements only). A *rewrite* offers candidates, each of which is taken if it is
smaller. What is taken is smaller by ``size`` and accepted by the trials, so nothing ever becomes larger, and nothing
shows another bug. Now and then the best so far is run again; a false acceptance is undone. The same arguments and
outcomes give the same search, which is how one that was interrupted is resumed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from tidemark.campaigns.shrink.flaky_trials import FINAL_TRIALS, BudgetSpent, Candidate, FlakyTrials, Measured

CONFIRM_EVERY = 8
"""After so many accepted candidates the best is run again."""


@dataclass(frozen=True)
class Removal(Generic[Candidate]):
    """``units`` are what can be taken away, ``without`` the candidate without some of them, by number; or ``None``."""

    name: str
    units: Callable[[Candidate], Sequence[Any]]
    without: Callable[[Candidate, frozenset[int]], Candidate | None]


@dataclass(frozen=True)
class Rewrite(Generic[Candidate]):
    """``smaller`` are candidates in the place of one, best first."""

    name: str
    smaller: Callable[[Candidate], Iterable[Candidate]]


Pass = Removal[Candidate] | Rewrite[Candidate]


@dataclass(frozen=True)
class Shrunk(Generic[Candidate]):
    """``best`` is the smallest that was found, ``is_minimal`` whether no pass makes it smaller (else time was over);
    ``first`` and ``final`` are the rates of the first run and of the best; ``undone`` counts what was accepted, and
    taken back because later runs did not show the bug.
    """

    best: Candidate
    is_minimal: bool
    first: Measured
    final: Measured
    accepted: int
    undone: int

    @property
    def is_shown(self) -> bool:
        """Whether the last runs showed the bug, or it is one that comes now and then."""
        return self.final.red > 0 or self.first.is_flaky


@dataclass
class Shrinker(Generic[Candidate]):
    """``taken`` hears of each candidate that becomes the best, ``tries`` which pass is at work."""

    passes: Sequence[Pass[Candidate]]
    trials: FlakyTrials[Candidate]
    size: Callable[[Candidate], Any]
    taken: Callable[[Candidate], None] = lambda _candidate: None
    tries: Callable[[str], None] = lambda _name: None
    seed: int = 0
    accepted: int = field(default=0, init=False)
    undone: int = field(default=0, init=False)

    def shrink(self, start: Candidate) -> Shrunk[Candidate] | None:
        """The smallest candidate; ``None`` if the first run does not show the bug again.

        The rate of the first run is measured, unless the trials know it.
        """
        self._line, is_minimal = [start], False
        try:
            first = self.trials.first or self.trials.measure(start)
            if not first.red:
                return None
            self._to_fixed_point()
            is_minimal = True
        except BudgetSpent:
            first = self.trials.first or Measured(0, 0)
        self.tries("the final runs")
        final, is_cut_short = self._final(first)
        is_minimal = is_minimal and not is_cut_short
        return Shrunk(self.best, is_minimal, first, final, self.accepted, self.undone)

    @property
    def best(self) -> Candidate:
        """The smallest so far."""
        return self._line[-1]

    def _final(self, first: Measured) -> tuple[Measured, bool]:
        """The rate of the best, and whether something smaller may be as red, for which there was no time.

        Of a bug that always came a best that does not show it is undone. While there is time that is one step, and all
        runs of what is the best then; after it twice as many steps each time, and one run, so that there is an end.
        """
        final, steps, is_over = self.trials.final(self.best), 1, False
        while not final.red and not first.is_flaky and len(self._line) > 1:
            for _ in range(min(steps, len(self._line) - 1)):
                self._undo()
            is_over = is_over or self.trials.is_over()
            steps *= 2 if is_over else 1
            final = self.trials.final(self.best, 1 if is_over else FINAL_TRIALS)
        return final, is_over

    def _to_fixed_point(self) -> None:
        while True:
            before = self.size(self.best)
            for one in self.passes:
                self.tries(one.name)
                if isinstance(one, Removal):
                    self._remove(one)
                else:
                    self._rewrite(one)
            if self.size(self.best) == before and self._is_confirmed():
                return

    def _remove(self, one: Removal[Candidate]) -> None:
        """Chunks of units, from all at once down to single ones."""
        chunk = len(one.units(self.best))
        rng = random.Random(f"shrink-{self.seed}-{one.name}-{chunk}")
        while chunk:
            for first in self._chunks(one, chunk, rng):
                units = len(one.units(self.best))
                some = frozenset(range(first, min(first + chunk, units)))
                smaller = one.without(self.best, some) if some else None
                if smaller is not None:
                    self._take(smaller)
            chunk = -(-chunk // 2) if chunk > 1 else 0

    def _chunks(self, one: Removal[Candidate], chunk: int, rng: random.Random) -> Iterator[int]:
        """Where chunks begin: from the back, where units that were taken away move none; seed 0 in this order."""
        starts = list(range(0, len(one.units(self.best)), chunk))[::-1]
        if self.seed:
            at = rng.randrange(len(starts)) if starts else 0
            starts = starts[at:] + starts[:at]
        return iter(starts)

    def _rewrite(self, one: Rewrite[Candidate]) -> None:
        """Take what is smaller, and begin anew with that, until nothing of it is taken."""
        while any(self._take(smaller) for smaller in one.smaller(self.best)):
            pass

    def _take(self, smaller: Candidate) -> bool:
        """Make it the best, if it is smaller and shows the bug."""
        if not self.size(smaller) < self.size(self.best) or not self.trials.accepts(smaller):
            return False
        self._line.append(smaller)
        self.accepted += 1
        self.taken(smaller)
        return self.accepted % CONFIRM_EVERY > 0 or self._is_confirmed()

    def _is_confirmed(self) -> bool:
        """Whether the best is red again; if not, go back to the last one that is, at most to the first run."""
        before = len(self._line)
        while len(self._line) > 1 and not self.trials.confirms(self.best):
            self._undo()
        return len(self._line) == before

    def _undo(self) -> None:
        self._line.pop()
        self.undone += 1
        self.taken(self.best)


def what_matters(
    best: Candidate, trials: FlakyTrials[Candidate], variations: Iterable[tuple[str, Candidate]]
) -> dict[str, bool]:
    """Vary each part of the smallest: name of the part -> whether its value matters.

    A part of which there are several variations does not matter if all of them show the bug. What was not varied
    because the time was over, or because the testbed failed, is left out.
    """
    matters, failed = dict[str, bool](), set[str]()
    same = trials.digest(best)
    try:
        for name, candidate in variations:
            if matters.get(name, False) or trials.digest(candidate) == same:
                continue
            is_red = trials.is_red_once(candidate)
            if is_red is None:
                failed.add(name)
            else:
                matters[name] = not is_red
    except BudgetSpent:
        pass
    return {name: does for name, does in matters.items() if does or name not in failed}
