"""A topic of which no record is an event was not judged, however right its output looks.

Free of I/O. A single unreadable record is filtered out by the pipeline and only counted. If all of them are, the
contract most likely names other fields than the records have, and a comparison of nothing with nothing holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.formats.events import TimedSource, why_unreadable
from tidemark.formats.evidence import InputRecord

NOTHING_READ = "nothing of topic"
"""How the reason begins that no record of a topic could be read."""
UNREADABLE_SHARE = 0.5
"""More unreadable records than this share of a topic make a run inconclusive: most of the topic was not judged."""


@dataclass
class Readable:
    """How many records of a topic there are, how many are no events, and the first of these; without sentinels."""

    source: TimedSource
    records: int = 0
    unreadable: int = 0
    first: InputRecord | None = None

    def add(self, records: int, unreadable: Sequence[InputRecord]) -> None:
        """Count more records, of which these are no events."""
        self.records += records
        self.unreadable += len(unreadable)
        if unreadable and self.first is None:
            self.first = unreadable[0]

    def too_many(self) -> str:
        """The topic, with its numbers, if most of its records are unreadable."""
        if self.unreadable <= UNREADABLE_SHARE * self.records:
            return ""
        return f"{self.unreadable:,} of {self.records:,} of {self.source.topic}"

    def reasons(self) -> list[str]:
        """Why a verdict on this topic would say nothing: one sentence, or none."""
        if self.first is None or self.unreadable < self.records:
            return []
        what = "its only record is" if self.records == 1 else f"all {self.records:,} records are"
        first = f"partition {self.first.partition}, offset {self.first.offset}"
        reason = (
            f"{NOTHING_READ} {self.source.topic!r} was judged: {what} unreadable by the contract;"
            f" the first ({first}): {why_unreadable(self.first.value, self.source)}"
        )
        return [reason]
