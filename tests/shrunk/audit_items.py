"""Audits of a plain PySpark program whose evidence the campaign makes smaller, by the judge alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from tests.e2e.foreign_query import ForeignQuery
from tests.shrunk.shrunk_table import NONE, ShrunkLine
from tidemark.campaigns.shrink.offline.evidence_search import (
    RedEvidence,
    ShrunkEvidence,
    read_red_evidence,
    shrink_evidence,
)
from tidemark.campaigns.shrink.offline.held_evidence import HeldEvidence
from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions
from tidemark.reports.kept_verdict import judged_verdict
from tidemark.stack import Stack


@dataclass(frozen=True)
class AuditItem:
    """A program that is killed in the middle of a batch and started again, audited as exactly-once: at most so many
    input ``rows`` must be left of it in so many ``seconds``.
    """

    name: str
    rows: int
    seconds: float
    seed: int = 7

    def shrunk(self, stack: Stack, folder: Path, times_as_slow: float) -> ShrunkLine:
        """Run the program, audit it, and make the evidence smaller. Raises ``TidemarkError`` if nothing is found."""
        folder.mkdir(parents=True)
        query = ForeignQuery(stack.bootstrap_servers, folder, seed=self.seed)
        try:
            query.run_with_a_kill()
            query.audit(folder / "first", delivery="exactly-once")
        finally:
            query.drop()
        red = read_red_evidence(folder / "first")
        found = shrink_evidence(red, ShrinkOptions(folder / "small", say=partial(print, flush=True)))
        line = self._line(red, found, stack)
        slow = [f"it took {found.seconds:.0f} s"] if found.seconds > self.seconds * times_as_slow else []
        return msgspec.structs.replace(line, times_as_slow=times_as_slow, problems=[*line.problems, *slow])

    def _line(self, red: RedEvidence, found: ShrunkEvidence, stack: Stack) -> ShrunkLine:
        verdict, before, after = judged_verdict(found.smallest), found.before, found.after
        is_red = red.same.is_in(verdict, found.held)
        problems = [] if is_red else ["what is left does not show the finding"]
        problems += [f"{after.rows} rows are left"] if after.rows > self.rows else []
        return ShrunkLine(
            name=self.name,
            finding=f"{found.signature.property} of {found.signature.about}",
            rows=(before.rows, after.rows),
            faults=(0, 0),
            slices=(before.batches, after.batches),
            bytes=(_bytes(red.whole.held), _bytes(found.held)),
            at_most=(self.rows, self.seconds),
            trials=found.trials,
            told=0,
            seconds=found.seconds,
            red=(int(is_red), 1),
            test=NONE,
            repaired=NONE,
            repro=NONE,
            versions=dict(stack.versions),
            problems=problems,
        )


def audit_items() -> Iterator[AuditItem]:
    """All of them."""
    yield AuditItem("audit of a program that was killed in a batch", 2, 60)


def _bytes(held: HeldEvidence) -> int:
    return sum(len((record.value or "").encode()) for record in held.records)
