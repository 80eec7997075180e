"""What a mutant is: a bundled pipeline with one thing changed, so that what is wrong with it can be read off.

What Spark refuses to run is none, nor is what a pipeline may do: another order of rows, no batches without data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PIPELINES = Path(__file__).parents[2] / "pipelines"

ON_TIME = ("--lateness", "on_time", "--edges", "0")
"""No row is late, and none lies on an edge: a trace with which a plain comparison accepts a sound pipeline."""
ON_EDGES = ("--lateness", "on_time")
NO_NULL_KEYS = (*ON_TIME, "--null-keys", "0")
"""For full outer joins, which join NULL keys (a known defect of Spark)."""
NULL_KEYS = (*ON_TIME, "--null-keys", "0.3")
SENT_TWICE = (*ON_TIME, "--duplicates", "0.2")

IMPRESSIONS = '.withWatermark("impression_time", "10 seconds")'
CLICKS = '.withWatermark("click_time", "20 seconds")'


@dataclass(frozen=True)
class Mutant:
    """``killed`` names for each join that it is run on the property that must kill it there.

    ``changes`` are texts of the pipeline's file, each there once, and what they become; ``after`` is done to the joined
    rows, ``added`` follows at the end of the file. ``delivery`` is the promise that it is judged by, if not its sink's.
    ``faults`` is a schedule of :mod:`tidemark.faults.schedule`, ``harmless`` one with which nothing is wrong; both on a
    stack of so many ``brokers``.
    ``every_day``: its first join is in the suite, all are in ``make mutants``.
    """

    killed: Mapping[str, str]
    changes: Mapping[str, str] = field(default_factory=dict)
    after: str = ""
    added: str = ""
    pace: str = "stepped"
    generator: tuple[str, ...] = ON_TIME
    conf: tuple[str, ...] = ()
    sink: str = "exactly-once"
    delivery: str | None = None
    faults: str = ""
    harmless: str = ""
    brokers: int = 1
    every_day: bool = False

    def source(self, join: str) -> str:
        """The pipeline's file with the damage done."""
        text = (PIPELINES / f"{join}.py").read_text()
        for old, new in self.changes.items():
            assert text.count(old) == 1, f"{join}.py no longer has {old!r} once: repair this mutant"
            text = text.replace(old, new)
        if self.after:
            text += (
                f"\n\nsound = build\n\n\ndef build(left, right):\n    return sound(left, right){self.after}\n"
            )
        return f"{text}\n\n{self.added}"
