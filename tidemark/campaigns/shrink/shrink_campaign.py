"""Makes a red run smaller: the search, its trials and its journal, and what is left on disk.

First, where Spark's rules say of any case whether it shows the bug (a known defect, a row that comes again under a
fault), the case is made smaller by these alone, which starts nothing; what they give counts only if real runs show the
bug in it. Then the search goes on with real runs, of which the rules only save those that cannot show it.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from tidemark.campaigns.shrink.bug_signature import BugSignature
from tidemark.campaigns.shrink.case_files import write_best
from tidemark.campaigns.shrink.fault_passes import fault_passes
from tidemark.campaigns.shrink.flaky_trials import BudgetSpent, FlakyTrials, Measured
from tidemark.campaigns.shrink.near_finding import LARGE
from tidemark.campaigns.shrink.predicted_batches import predicted_history, records_by_batch
from tidemark.campaigns.shrink.predicted_bug import PredictedBug
from tidemark.campaigns.shrink.record_passes import record_passes, variations_of
from tidemark.campaigns.shrink.red_run import RedRun
from tidemark.campaigns.shrink.setting_passes import SETTINGS, coarse_passes, fine_passes
from tidemark.campaigns.shrink.shrinkable import CaseSize, Shrinkable, digest_of, size_of, with_flush_behind
from tidemark.campaigns.shrink.shrinker import Pass, Shrinker, Shrunk, what_matters
from tidemark.campaigns.shrink.trial_journal import TRIALS, JournalledTrial, TrialJournal
from tidemark.campaigns.shrink.trial_runs import TrialRuns
from tidemark.errors import TestbedError, UsageError
from tidemark.formats.evidence import RunDirectory
from tidemark.runner.cleanup import first_error_kept
from tidemark.runner.run_options import Say, say_nothing
from tidemark.stack import Stack

PREDICTED_SHARE = 0.4
"""How much of the budget the search by rules alone may take."""
UNKNOWN_RATES = (Measured(1, 2), Measured(1, 10))
"""What is supposed of the rate of a start that is tried: as many green trials as one of that rate would hardly give."""
GUESSED = Measured(1, 1)
"""Of a guess: one trial rejects it."""


def all_passes() -> list[Pass[Shrinkable]]:
    """Every pass, coarse to fine."""
    return [*fault_passes(), *coarse_passes(), *record_passes(), *fine_passes()]


def predictable_passes() -> list[Pass[Shrinkable]]:
    """The passes whose candidates the rules can predict: all but that over settings."""
    return [one for one in all_passes() if one.name != SETTINGS]


@dataclass(frozen=True)
class ShrinkOptions:
    """``folder`` gets journal, trials and the best so far; ``budget_s`` is for trials, in seconds."""

    folder: Path
    budget_s: float = 600.0
    resume: bool = False
    seed: int = 0
    say: Say = say_nothing
    progress: Callable[[str], None] = say_nothing


@dataclass(frozen=True)
class ShrunkRun:
    """What came of it. ``before`` and ``after`` are sizes, ``told`` how many candidates the rules rejected unrun.

    ``matters`` has each part of the smallest that was varied, and whether its value matters. ``smallest`` is the
    evidence of its last run.
    """

    signature: BugSignature
    shrunk: Shrunk[Shrinkable]
    before: CaseSize
    after: CaseSize
    trials: int
    told: int
    seconds: float
    matters: dict[str, bool]
    smallest: RunDirectory


def shrink_red_run(red: RedRun, stack: Stack, options: ShrinkOptions) -> ShrunkRun:
    """Make a red run smaller on a stack.

    Raises ``UsageError`` if no case of the run shows the bug again, or the last runs do not, ``TidemarkError`` where
    the testbed failed.
    """
    begin_s, spark = time.monotonic(), stack.versions.get("spark", "")
    rules = PredictedBug(red.signature, spark)
    told = f"{red.signature}\0{digest_of(red.starts[0])}\0{options.seed}"
    journal = TrialJournal(
        options.folder / TRIALS, hashlib.sha256(told.encode()).hexdigest(), resume=options.resume
    )
    with first_error_kept(TrialRuns(stack, red, options.folder, rules)) as runs:
        trials = FlakyTrials(
            runs.run,
            digest_of,
            rules.may_show,
            journal.outcomes,
            lambda digest, was_red: journal.add(JournalledTrial(digest, was_red, round(runs.last_s, 3))),
            lambda: time.monotonic() - begin_s > options.budget_s,
            is_dear=lambda one: bool(one.faults),
        )
        start = _first_red(red, trials, _guesses(red, rules))
        options.progress(f"{size_of(start)}; how often the run shows the bug")
        _measure(start, trials)
        before = size_of(red.starts[0])
        options.say(f"{red.signature}: {before}")
        if start in red.guesses:
            options.say(f"what the finding names shows it, too: {size_of(start)}")
        start = _by_rules_alone(start, rules, trials, options)
        search = _Search(options, trials, size_of(start))
        shrinker = Shrinker(all_passes(), trials, size_of, search.taken, search.tries, options.seed)
        search.taken(start)
        shrunk = shrinker.shrink(start)
        if shrunk is None:
            raise _not_again(red)
        if not shrunk.is_shown:
            raise _not_shown_at_last(red, shrunk)
        shrunk = replace(shrunk, best=_in_order(shrunk.best, spark, trials))
        search.tries("what matters")
        # Under faults a run takes too long for one of each value of each field.
        variations = () if shrunk.best.faults else variations_of(shrunk.best)
        matters = what_matters(shrunk.best, trials, variations)
        smallest = _kept_run(runs, shrunk.best, options)
    return ShrunkRun(
        red.signature, shrunk, before, size_of(shrunk.best), trials.trials, trials.told,
        round(time.monotonic() - begin_s, 1), matters, smallest,
    )  # fmt: skip


def _kept_run(runs: TrialRuns, best: Shrinkable, options: ShrinkOptions) -> RunDirectory:
    """The evidence of the last run of the smallest; run again, twice at most, until it shows the bug."""
    if not (runs.shows(best) or runs.run(best) or runs.run(best)):
        options.say("the last run of the smallest did not show the bug; its rate says how often it does")
    if not (runs.trial / "manifest.json").is_file():
        raise TestbedError(
            "the last run of the smallest has no evidence",
            detail="the query, or the testbed, failed in it",
            hint="`tidemark status` says whether the stack is well; the same command with --resume goes on",
        )
    smallest = options.folder / "smallest"
    shutil.rmtree(smallest, ignore_errors=True)
    shutil.move(runs.trial, smallest)
    return RunDirectory(smallest)


def _in_order(best: Shrinkable, spark: str, trials: FlakyTrials[Shrinkable]) -> Shrinkable:
    """The smallest for people: slices numbered by the batches that read them, sentinels behind all, if it is red so."""
    # A run with faults has its own sentinels.
    case = best.case if best.faults else with_flush_behind(best.case)
    history = predicted_history(case, spark)
    if history is not None and case.mode == "backlog":
        batches = sorted(set(history.rows.batch[: history.rows.first_sentinel]))
        read_by = records_by_batch(case, [batch.plan for batch in history.batches])
        if len(batches) == case.slices:
            numbered = [msgspec.structs.replace(one, slice=batches.index(at)) for one, at in read_by]
            case = replace(case, records=tuple(sorted(numbered, key=lambda one: one.slice)))
    ordered = replace(best, case=case)
    if digest_of(ordered) == digest_of(best):
        return best
    try:
        return ordered if trials.accepts(ordered) else best
    except BudgetSpent:
        return best


@dataclass
class _Search:
    """What is said of a search while it goes on."""

    options: ShrinkOptions
    trials: FlakyTrials[Shrinkable]
    size: CaseSize
    name: str = ""

    def taken(self, one: Shrinkable) -> None:
        self.size = size_of(one)
        write_best(one, self.options.folder)
        self._show()

    def tries(self, name: str) -> None:
        self.name = name
        self._show()

    def _show(self) -> None:
        rate = f", red in {self.trials.first}" if self.trials.first is not None else ""
        self.options.progress(f"{self.size}; {self.trials.trials} trials{rate}; trying {self.name}")


def _measure(start: Shrinkable, trials: FlakyTrials[Shrinkable]) -> None:
    """The rate of the start; if the time is over, that of the one trial that was red."""
    try:
        trials.measure(start)
    except BudgetSpent:
        trials.first = GUESSED


def _guesses(red: RedRun, rules: PredictedBug) -> Sequence[Shrinkable]:
    """The guesses that are worth a run: none where rules alone make a run of up to ``LARGE`` rows small."""
    first = red.starts[0]
    is_large = bool(red.faults) or len(first.case.records) > LARGE
    return red.guesses if is_large or not rules.leads(first) else ()


def _first_red(red: RedRun, trials: FlakyTrials[Shrinkable], guesses: Sequence[Shrinkable]) -> Shrinkable:
    """The first of the guesses and starts that shows the bug: in a few trials, or else in more."""
    tried = [(GUESSED, guess) for guess in guesses]
    tried += [(rate, start) for rate in UNKNOWN_RATES for start in red.starts]
    try:
        for trials.first, start in tried:
            if trials.is_red_once(start):
                return start
    except BudgetSpent:
        raise UsageError(
            f"no run of the trace has shown {red.signature} again in the time that there was",
            detail=f"{trials.trials} trials were run",
            hint="give it more time, and go on: --budget 30m --resume",
        ) from None
    raise _not_again(red)


def _not_again(red: RedRun) -> UsageError:
    faults = f"; with its faults {', '.join(red.faults)}, and without" if red.faults else ""
    return UsageError(
        f"no run of the trace shows {red.signature} again",
        detail=f"tried as a backlog, slice by slice, and with the batches that the run had{faults}",
        hint="run the command of the run a few times: `reproduce:` of its verdict",
    )


def _not_shown_at_last(red: RedRun, shrunk: Shrunk[Shrinkable]) -> UsageError:
    return UsageError(
        f"the last runs do not show {red.signature}",
        detail=f"red in {shrunk.first} at first, and in {shrunk.final} at last; {shrunk.undone} that were accepted have"
        " been taken back",
        hint="`tidemark status` says whether the stack is well; with more time it goes on: --budget 30m --resume",
    )


def _by_rules_alone(
    start: Shrinkable, rules: PredictedBug, trials: FlakyTrials[Shrinkable], options: ShrinkOptions
) -> Shrinkable:
    """What Spark's rules make of the start, if they lead, and real runs show the bug in it.

    They know no program and no sink: if the bug is gone without these, they are kept.
    """
    if not rules.leads(start):
        return start
    end_s = time.monotonic() + options.budget_s * PREDICTED_SHARE
    options.progress(f"{size_of(start)}; by Spark's rules, without a run")
    for passes in (predictable_passes(), [*fault_passes(), *coarse_passes(), *record_passes()]):
        predicted = FlakyTrials[Shrinkable](
            lambda one: rules.shows(one) is True and one.case.sink == start.case.sink,
            digest_of,
            is_over=lambda: time.monotonic() > end_s,
        )
        found = Shrinker(passes, predicted, size_of, seed=options.seed).shrink(start)
        if found is None or found.best == start:
            return start
        options.say(f"by Spark's rules alone: {size_of(found.best)}")
        try:
            if trials.accepts(found.best) and (found.best.faults or rules.is_trusted):
                return found.best
        except BudgetSpent:  # the search ends at once, and the last runs are those of the start
            return start
    return start
