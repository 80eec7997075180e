"""Many seeds as a document: what was drawn, what became of it, and what does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemark.cases.fuzz import Outcome, Progress

COMMAND = "tidemark fuzz --seeds N --keep-going --markdown FILE"


def markdown(progress: Progress, versions: Mapping[str, str]) -> str:
    """The document; ``versions`` are those of the stack."""
    done = sorted(progress.outcomes, key=lambda one: one.seed)
    return "\n".join([*_opening(done, versions), *_joins(done), *_sorts(progress), *_failures(progress)])


def _opening(done: Sequence[Outcome], versions: Mapping[str, str]) -> Iterator[str]:
    held = f"**{sum(one.holds for one in done):,} of {len(done):,} seeds hold**"
    range_of = f"{done[0].seed} to {done[-1].seed}" if done else "none was run"
    seconds = [one.seconds for one in done] or [0.0]
    low, middle, high = min(seconds), median(seconds), max(seconds)
    yield from (
        "# Random joins, judged",
        "",
        f"Made by `{COMMAND}`: each seed draws a join, a trace and restarts, which run on a real broker and a real",
        "cluster; output, state and metrics are compared with the oracle's. A seed holds if nothing is found but known",
        "defects of Spark.",
        "",
        f"Spark {versions.get('spark', '?')}, Kafka {versions.get('kafka', '?')}: {held} ({range_of}). A seed took",
        f"{low:.1f} s at least, {middle:.1f} s in the median, {high:.1f} s at most.",
        "",
    )


def _joins(done: Sequence[Outcome]) -> Iterator[str]:
    """Seeds by join and bound."""
    kinds, bounds = sorted({one.kind for one in done}), sorted({one.bound for one in done})
    counted = Counter((one.bound, one.kind) for one in done)
    yield f"| bound | {' | '.join(kinds)} |"
    yield f"|---|{'---:|' * len(kinds)}"
    for bound in bounds:
        yield f"| {bound} | {' | '.join(str(counted[bound, kind] or '-') for kind in kinds)} |"
    yield ""


def _sorts(progress: Progress) -> Iterator[str]:
    for sort, counts in progress.summary().items():
        if sort not in ("kind", "bound") and counts:
            yield f"- {sort}: {', '.join(f'{name} {count:,}' for name, count in counts.items())}"


def _failures(progress: Progress) -> Iterator[str]:
    yield ""
    for one in progress.failures:
        yield f"- seed {one.seed} ({one.kind}, {one.bound}) is {one.verdict}: {one.problem}"
    if not progress.failures:
        yield "No false alarm, and no disagreement that is not a known defect."
    yield ""
