"""Trials of candidates on a stack: a case on a warm driver, or, with faults, an ordinary run of the runner.

A warm driver serves one trial after the other in a second or two. It cannot be killed at a commit point, and must not
be there while a worker, the master or a broker is: its programs are ended before a run with faults, and started again
for the next one without. A search with faults has a driver of its own, which is killed and is there for the next trial.
"""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tidemark.campaigns.shrink.bug_signature import leaves_topic_unread, signatures_in
from tidemark.campaigns.shrink.case_files import pipeline_of, write_best
from tidemark.campaigns.shrink.fault_passes import schedule_of
from tidemark.campaigns.shrink.flaky_trials import TRIES
from tidemark.campaigns.shrink.predicted_bug import PredictedBug
from tidemark.campaigns.shrink.red_run import RedRun
from tidemark.campaigns.shrink.shrinkable import Shrinkable, digest_of
from tidemark.campaigns.warm_driver import WarmDriver
from tidemark.errors import PipelineFailed, TidemarkError, UsageError
from tidemark.formats.evidence import Batch, RunDirectory
from tidemark.formats.faults import Fault
from tidemark.oracle import Verdict
from tidemark.runner import RunOptions, run_pipeline
from tidemark.runner.cleanup import Cleanup
from tidemark.runner.pace import GRACE_S
from tidemark.stack import DRIVER, POWERS, Stack

FAILURES = 2 * TRIES + 1
"""So many failures of the testbed in a row end the search: one or two candidates may stop a program in each try."""

NO_GRACE_S = 1.0
"""Of a query that runs no no-data batches: with the grace of others each slice of each trial waits for 15 s in vain."""


def runs_no_data_batches(batches: Sequence[Batch]) -> bool:
    """Whether a batch read nothing, or the watermark never moved, so that none was to come."""
    nothing_read = any(one.end_offsets == before.end_offsets for before, one in itertools.pairwise(batches))
    return nothing_read or len({one.watermark_ms for one in batches}) <= 1


def shows_nothing(verdict: Verdict, faults: Sequence[Fault]) -> bool:
    """Whether a run is neither red nor green: nothing is wrong, and a fault was not injected.

    On a busy machine a batch may be over before the injector has looked at it; where few rows are left, no other batch
    follows in which it could be tried again.
    """
    return verdict.verdict == "UNKNOWN" and not all(fault.injected for fault in faults)


class TrialRuns:
    """Trials of one red run below ``folder``; the last one's evidence is ``trial`` there. A context manager.

    Raises ``UsageError`` if the run had faults and the stack is somebody else's.
    """

    def __init__(self, stack: Stack, red: RedRun, folder: Path, rules: PredictedBug) -> None:
        self.trial = folder / "trial"
        self.last_s = 0.0
        self._stack = stack
        self._red = red
        self._rules = rules
        self._logs = folder / "logs"
        self._input = folder / "trial-input"
        self._driver = DRIVER
        self._warm: WarmDriver | None = None
        self._of_warm = Cleanup()
        self._failures = 0
        self._shown = ""
        self._grace_s = GRACE_S
        if red.faults and "processes" not in POWERS[stack.spec.backend]:
            raise UsageError(
                f"the run had the faults {', '.join(red.faults)}, and the stack is {stack.spec.backend}",
                detail="its processes belong to somebody else, and are not killed",
                hint="take a stack of your own: `tidemark up --backend local`",
            )

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        if self._red.faults:
            self._driver = self._stack.start_driver(f"shrink-{os.getpid()}").name
        return self

    def __exit__(
        self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None
    ) -> None:
        with Cleanup() as cleanup:
            if self._driver != DRIVER:
                cleanup.callback(self._stack.stop, self._driver)
            cleanup.callback(shutil.rmtree, self._input, ignore_errors=True)
            cleanup.callback(self._of_warm.close)

    def run(self, candidate: Shrinkable) -> bool | None:
        """One trial: whether the run of a candidate shows the bug. A query that fails does not.

        ``None``: the testbed failed, and nobody knows. What it said is in ``failure.txt`` beside the trial. Raises
        ``TidemarkError`` if the testbed fails again and again, or cannot be repaired.
        """
        start_s, self._shown = time.monotonic(), ""
        shutil.rmtree(self.trial, ignore_errors=True)
        try:
            verdict = self._under_faults(candidate) if candidate.faults else self._on_warm_driver(candidate)
        except TidemarkError as error:
            if self._is_of_query(error, candidate):
                return False
            self._failures += 1
            if self._failures >= FAILURES:
                raise
            self._end_warm()
            self._stack.repair()
            self._keep(error)
            return None
        finally:
            self.last_s = time.monotonic() - start_s
        self._failures = 0
        shown = signatures_in(verdict, candidate.case.contract, candidate.case.records)
        is_judged = self._red.is_unread or not leaves_topic_unread(verdict)
        is_red = is_judged and self._red.signature in shown
        self._shown = digest_of(candidate) if is_red else ""
        return is_red

    def shows(self, candidate: Shrinkable) -> bool:
        """Whether the evidence of the last trial is of this candidate, and shows the bug."""
        return self._shown == digest_of(candidate)

    def _on_warm_driver(self, candidate: Shrinkable) -> Verdict:
        if self._warm is None:
            self._stack.start(self._driver)  # it may have been killed
            driver = self._stack.driver(self._driver)
            self._warm = self._of_warm.enter_context(WarmDriver(self._stack, driver, self._logs))
        self._warm.grace_s = self._grace_s
        verdict = self._warm.run(self._warm.as_possible(candidate.case), self.trial)
        batches = RunDirectory(self.trial).batches()
        self._rules.learn(candidate.case, batches)
        if candidate.case.mode == "followed":
            self._grace_s = GRACE_S if runs_no_data_batches(batches) else NO_GRACE_S
        return verdict

    def _under_faults(self, candidate: Shrinkable) -> Verdict:
        """The run of a candidate under its faults; run once more if that shows nothing, and should."""
        verdict = self._run_under_faults(candidate)
        faults = RunDirectory(self.trial).faults()
        if shows_nothing(verdict, faults) and self._rules.shows(candidate):
            shutil.rmtree(self.trial)
            verdict = self._run_under_faults(candidate)
        return verdict

    def _run_under_faults(self, candidate: Shrinkable) -> Verdict:
        """An ordinary run on the search's own driver; what it left dead is started again."""
        self._end_warm()
        self._stack.start(self._driver)
        write_best(candidate, self._input)
        case, pipeline = candidate.case, pipeline_of(candidate.case)
        file = self._input / pipeline
        options = RunOptions(
            str(file) if file.is_file() else pipeline, seed=candidate.seed, trace=self._input / "trace.jsonl",
            faults=schedule_of(candidate.faults), sink=case.sink, driver=self._driver, python=self._red.python,
            conf=tuple(f"{name}={value}" for name, value in case.conf.items()), run_dir=self.trial,
            diagnosis=False,
        )  # fmt: skip
        with Cleanup() as cleanup:
            cleanup.callback(self._stack.repair)
            return run_pipeline(options, stack=self._stack).verdict

    def _end_warm(self) -> None:
        self._warm = None
        self._of_warm.close()

    def _is_of_query(self, error: TidemarkError, candidate: Shrinkable) -> bool:
        """Whether the query under test failed by itself: not where no fault was injected, and a component had died."""
        return isinstance(error, PipelineFailed) and (bool(candidate.faults) or not self._stack.repair())

    def _keep(self, error: TidemarkError) -> None:
        """What a failure of the testbed said, beside the trial."""
        self.trial.mkdir(parents=True, exist_ok=True)
        (self.trial / "failure.txt").write_text(f"{error}\n", encoding="utf-8")
