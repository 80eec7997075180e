"""Makes evidence smaller by the judge alone: the search, its journal, and what comes out. Nothing is started.

``smallest/``       the evidence that is left: a sealed run directory, whose manifest says that no query wrote it so.
``trace.jsonl``, ``contract.json``   its input, as ``tidemark run --trace`` takes it, and the contract.
``shrunk.json``     sizes before and after.
``trials.jsonl``    every trial, for ``--resume``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from tidemark.atomic_files import write_atomically
from tidemark.campaigns.shrink.bug_signature import NOT_SHOWN, BugSignature, chosen_finding, of_sentinels
from tidemark.campaigns.shrink.case_files import CONTRACT, TRACE
from tidemark.campaigns.shrink.flaky_trials import FINAL_TRIALS, FlakyTrials, Measured
from tidemark.campaigns.shrink.offline.evidence_passes import evidence_passes
from tidemark.campaigns.shrink.offline.held_evidence import HeldEvidence, read_evidence
from tidemark.campaigns.shrink.offline.kept_evidence import (
    EvidencePart,
    EvidenceSize,
    WholeEvidence,
    digest_of_kept,
)
from tidemark.campaigns.shrink.offline.same_finding import SameFinding, where_sentinels_begin
from tidemark.campaigns.shrink.offline.smaller_evidence import smaller_evidence
from tidemark.campaigns.shrink.red_run import OF_STATE
from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions
from tidemark.campaigns.shrink.shrinker import Shrinker
from tidemark.campaigns.shrink.trial_journal import TRIALS, JournalledTrial, TrialJournal
from tidemark.errors import TestbedError, UsageError
from tidemark.formats.chain import is_chain
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory, open_run
from tidemark.formats.input_offsets import records_in
from tidemark.formats.run_notes import made_smaller
from tidemark.oracle import judge
from tidemark.oracle.findings import Finding
from tidemark.reports.html_report import report_beside
from tidemark.reports.kept_verdict import judged_verdict

LARGEST = 300_000
"""Evidence of more input records is not held in memory."""
NOT_OF_ROWS = {
    **NOT_SHOWN,
    "wrong_metrics": "numbers of a whole batch",
    **dict.fromkeys(OF_STATE, "Spark's state, which is that of all rows"),
}
"""Properties of which no smaller evidence can be made, and what their findings are about."""
SMALLEST = "smallest"
WRITE_EVERY_S = 5.0
"""How often the best so far is written while the search goes on. Calibration: 100,000 rows are written in 2 s."""
NO_PROGRAMS = (
    "no test and no repro.py: evidence was made smaller, not a run, and whether the query does it again with"
)
NO_PROGRAMS += " this input, nobody has tried"


@dataclass(frozen=True)
class RedEvidence:
    """Evidence with a finding, and the predicate: whether another evidence shows the same."""

    whole: WholeEvidence
    finding: Finding
    same: SameFinding


@dataclass(frozen=True)
class ShrunkEvidence:
    """What came of it. ``smallest`` is the evidence that is left, ``kept`` says what it is of the whole."""

    signature: BugSignature
    kept: EvidencePart
    before: EvidenceSize
    after: EvidenceSize
    is_minimal: bool
    trials: int
    seconds: float
    smallest: RunDirectory
    held: HeldEvidence

    def as_json(self) -> dict[str, Any]:
        """Sizes and trials, as plain values."""
        return {
            "signature": asdict(self.signature),
            "offline": True,
            "before": self.before._asdict(),
            "after": self.after._asdict(),
            "is_minimal": self.is_minimal,
            "watermarks": "derived" if self.kept.is_derived else "logged",
            "trials": self.trials,
            "seconds": self.seconds,
        }

    def lines(self) -> Iterator[str]:
        """For people: what is left of how much, and each row of it."""
        yield str(self.signature)
        yield f"before   {self.before}"
        yield f"after    {self.after}; judged {self.held.manifest.delivery}, with the same finding"
        yield f"trials   {self.trials} judgements in {self.seconds:g} s; nothing was started"
        if self.kept.is_derived:
            yield "the watermarks are those that the rows that are left give, not those of the log"
        if not self.is_minimal:
            yield "the time was over: it may become smaller with --resume and a longer --budget"
        for record in self.held.records:
            yield f"  batch {record.slice}  {record.topic}  {record.value}"
        for written in self.held.written:
            yield f"  output {written.partition}/{written.offset}  {written.value}"


class CertainTrials(FlakyTrials[EvidencePart]):
    """Trials of a predicate that always says the same: one is enough."""

    def measure(self, first: EvidencePart) -> Measured:
        """One trial."""
        self.first = Measured(int(self._trial(first)), 1)
        return self.first

    def accepts(self, candidate: EvidencePart) -> bool:
        """One red trial."""
        return self._trial(candidate)

    def confirms(self, candidate: EvidencePart) -> bool:  # noqa: ARG002 (it says the same again)
        """It was accepted."""
        return True

    def final(self, candidate: EvidencePart, runs: int = FINAL_TRIALS) -> Measured:  # noqa: ARG002 (the same again)
        """It was accepted, or is the first."""
        return Measured(1, 1)

    def _trial(self, candidate: EvidencePart) -> bool:
        self._asked[self.digest(candidate)] = 0
        return super()._trial(candidate)


def read_red_evidence(path: Path, number: int | None = None) -> RedEvidence:
    """The evidence in a directory, and its finding with a number (``chosen_finding``).

    Raises ``UsageError`` where there is no such finding, and for evidence that cannot be made smaller in memory.
    """
    directory = open_run(path)
    _must_be_possible(directory)
    verdict = judge(directory)
    held = read_evidence(directory)
    is_of_sentinel = of_sentinels(*where_sentinels_begin(held))
    finding = chosen_finding(verdict, number, is_of_sentinel, not_shown=NOT_OF_ROWS)
    if (what := NOT_OF_ROWS.get(finding.property)) is not None:
        raise _another_finding(
            f"the finding is about {what}: {finding.message}", "with fewer rows it is another, or none"
        )
    whole = WholeEvidence(held)
    try:
        same = SameFinding(held, verdict, finding, whole.came)
    except ValueError as error:
        raise _another_finding(finding.message, "nothing says which watermark its rows give") from error
    return RedEvidence(whole, finding, same)


def shrink_evidence(red: RedEvidence, options: ShrinkOptions) -> ShrunkEvidence:
    """Make evidence smaller; after an interruption the best so far is in the folder.

    Raises ``UsageError`` if the evidence does not show the finding without what is never kept of a run.
    """
    begin_s, whole, start = time.monotonic(), red.whole, red.whole.all
    journal = TrialJournal(options.folder / TRIALS, _search_digest(red, options.seed), resume=options.resume)
    last_s = [0.0]

    def shows(kept: EvidencePart) -> bool:
        trial_s = time.monotonic()
        held = smaller_evidence(whole, kept)
        shown = held is not None and red.same.is_shown_by(held)
        last_s[0] = time.monotonic() - trial_s
        return shown

    trials = CertainTrials(
        shows, digest_of_kept, outcomes=journal.outcomes,
        ended=lambda digest, was_red: journal.add(JournalledTrial(digest, was_red, round(last_s[0], 3))),
        is_over=lambda: time.monotonic() - begin_s > options.budget_s,
    )  # fmt: skip
    options.say(
        f"{red.same.signature}: {whole.size_of(start)}; offline: the judge alone decides, nothing is started"
    )
    with _best_so_far(whole, options) as best:
        shrinker = Shrinker(
            evidence_passes(whole, red.finding), trials, whole.size_of, best.taken, best.tries, options.seed
        )
        shrunk = shrinker.shrink(start)
        if shrunk is None:
            raise _another_finding(
                f"the evidence does not show {red.same.signature} once its offsets are those of a whole run",
                "offsets that go back, demands and coverage goals are never kept",
            )
    smallest, held = _judged(red, shrunk.best, options.folder)
    found = ShrunkEvidence(
        red.same.signature, shrunk.best, whole.size_of(start), whole.size_of(shrunk.best), shrunk.is_minimal,
        trials.trials, round(time.monotonic() - begin_s, 1), smallest, held,
    )  # fmt: skip
    (options.folder / "shrunk.json").write_text(
        json.dumps(found.as_json(), indent=2) + "\n", encoding="utf-8"
    )
    return found


def _another_finding(message: str, why: str) -> UsageError:
    return UsageError(message, detail=why, hint="--finding N chooses another finding")


def _must_be_possible(directory: RunDirectory) -> None:
    manifest, where = directory.manifest, str(directory.path)
    if is_chain(manifest.contract):
        raise UsageError(
            f"{where!r} is the run of a chain",
            detail="its output does not say of which records it is made, so nothing says what can be left out together",
            hint="make it smaller on a stack: the same command without --offline",
        )
    if Contract.from_json(manifest.contract).is_decoded:
        raise UsageError(
            f"the records in {where!r} are read by functions",
            detail="what they read is beside the trace, and is not made smaller with it",
            hint="make a run with records in JSON, and make that smaller",
        )
    if (many := records_in(manifest.inputs)) > LARGEST:
        raise UsageError(
            f"{where!r} has {many:,} input records",
            detail=f"evidence of up to {LARGEST:,} is held in memory, and judged once for each trial",
            hint="audit fewer batches, or run a shorter trace, and make that smaller",
        )


def _search_digest(red: RedEvidence, seed: int) -> str:
    """What the trials are of."""
    held, finding = red.whole.held, red.finding
    digest = hashlib.sha256(f"offline\0{red.same.signature}\0{finding.row}\0{finding.read}\0{seed}".encode())
    for part in (held.manifest, held.records, held.planned, held.written):
        digest.update(msgspec.json.encode(part))
    return digest.hexdigest()


class _BestSoFar:
    """The best so far, on disk now and then and at the end."""

    def __init__(self, whole: WholeEvidence, options: ShrinkOptions) -> None:
        self._whole = whole
        self._options = options
        self._best: EvidencePart | None = None
        self._is_written = True
        self._written_s = time.monotonic()
        self._name = ""

    def taken(self, one: EvidencePart) -> None:
        self._best, self._is_written = one, False
        if time.monotonic() - self._written_s >= WRITE_EVERY_S:
            self.write()
        if self._name:
            self.tries(self._name)

    def tries(self, name: str) -> None:
        self._name = name
        if self._best is not None:
            self._options.progress(f"{self._whole.size_of(self._best)}; trying {name}")

    def write(self) -> None:
        if self._best is not None and not self._is_written:
            write_smallest(self._whole, self._best, self._options.folder)
            self._is_written, self._written_s = True, time.monotonic()


@contextmanager
def _best_so_far(whole: WholeEvidence, options: ShrinkOptions) -> Iterator[_BestSoFar]:
    """Written also if the search is interrupted."""
    best = _BestSoFar(whole, options)
    best.taken(whole.all)
    try:
        yield best
    finally:
        best.write()


def write_smallest(whole: WholeEvidence, kept: EvidencePart, folder: Path) -> RunDirectory:
    """Write the evidence that is left, its trace and its contract; what was there of another takes no harm before."""
    held = smaller_evidence(whole, kept)
    if held is None:
        raise TestbedError(
            "what is kept is no evidence",
            detail=str(whole.size_of(kept)),
            hint="please report it, with the run directory",
        )
    before, after = whole.size_of(whole.all), whole.size_of(kept)
    note = made_smaller((after.rows, after.output, after.batches), before[:3], is_derived=kept.is_derived)
    manifest = msgspec.structs.replace(held.manifest, notes=[note, *held.manifest.notes])
    held = HeldEvidence(manifest, held.records, held.first_sentinel, held.planned, held.written, held.beside)
    draft, smallest = folder / f".{SMALLEST}.unfinished", folder / SMALLEST
    shutil.rmtree(draft, ignore_errors=True)
    held.write(draft)
    shutil.rmtree(smallest, ignore_errors=True)
    draft.replace(smallest)
    held.write_trace(folder / TRACE, held.records[: held.first_sentinel], "stepped")
    contract = msgspec.json.format(msgspec.json.encode(held.manifest.contract), indent=2)
    write_atomically(folder / CONTRACT, contract + b"\n")
    return RunDirectory(smallest)


def _judged(red: RedEvidence, kept: EvidencePart, folder: Path) -> tuple[RunDirectory, HeldEvidence]:
    """The smallest as it is on disk, with its verdict and its page."""
    directory = write_smallest(red.whole, kept, folder)
    verdict, held = judged_verdict(directory), read_evidence(directory)
    if not red.same.is_in(verdict, held):
        raise TestbedError(
            f"the evidence in {str(directory.path)!r} does not show the finding",
            detail="it did while it was in memory: what is written is not what was judged",
            hint="please report it, with the run directory",
        )
    directory.write_json("verdict", verdict)
    report_beside(directory, verdict)
    return directory, held
