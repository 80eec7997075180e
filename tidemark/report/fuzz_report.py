"""Many seeds as a document: what was drawn, what became of it, and what does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from tidemark.report.markdown import table

if TYPE_CHECKING:
    from tidemark.campaigns.fuzz import Outcome, Progress

LABELS = {
    "verdict": "seeds by verdict",
    "way": "by way of running",
    "sink": "by sink",
    "state": "by store and format of the state",
    "defect": "by known defect of Spark that was named",
    "restarts": "by number of restarts",
    "total": "in all",
}
"""What the document calls the sorts of ``Progress.summary``; joins and bounds are a table."""


def markdown(progress: Progress, versions: Mapping[str, str], command: str) -> str:
    """The document; ``versions`` are those of the stack, ``command`` does it again."""
    done = sorted(progress.outcomes, key=lambda one: one.seed)
    opening = _opening(done, versions, command, progress.seconds)
    return "\n".join([*opening, *_joins(done), *_sorts(progress), *_failures(progress)])


def _opening(
    done: Sequence[Outcome], versions: Mapping[str, str], command: str, all_s: float
) -> Iterator[str]:
    held = f"**{sum(one.holds for one in done):,} of {len(done):,} seeds hold**"
    range_of = f"{done[0].seed} to {done[-1].seed}" if done else "none was run"
    seconds = [one.seconds for one in done] or [0.0]
    low, middle, high = min(seconds), median(seconds), max(seconds)
    yield from (
        "# Random joins, judged",
        "",
        f"Made by `{command}`:",
        "each seed draws a join, a trace and restarts, which run on a real broker and a real cluster; output, state",
        "and metrics are compared with the oracle's. A seed holds if nothing is found but known defects of Spark.",
        "",
        f"Spark {versions.get('spark', '?')}, Kafka {versions.get('kafka', '?')}: {held} ({range_of}).",
        f"A seed took {low:.1f} s at least, {middle:.1f} s in the median, {high:.1f} s at most; all of them took",
        f"{all_s / 60:.1f} minutes.",
        "",
    )


def _joins(done: Sequence[Outcome]) -> Iterator[str]:
    """Seeds by join and bound."""
    kinds, bounds = sorted({one.kind for one in done}), sorted({one.bound for one in done})
    counted = Counter((one.bound, one.kind) for one in done)
    rows = ((bound, *(counted[bound, kind] or "-" for kind in kinds)) for bound in bounds)
    yield from (*table(("bound", *(f"{kind}:" for kind in kinds)), rows), "")


def _sorts(progress: Progress) -> Iterator[str]:
    summary = progress.summary()
    for sort, label in LABELS.items():
        if counts := summary[sort]:
            yield f"- {label}: {', '.join(f'{name} {count:,}' for name, count in counts.items())}"


def _failures(progress: Progress) -> Iterator[str]:
    yield ""
    for one in progress.failures:
        yield f"- seed {one.seed} ({one.kind}, {one.bound}) is {one.verdict}: {one.problem}"
    if not progress.failures:
        yield "No false alarm, and no disagreement that is not a known defect."
    yield ""
