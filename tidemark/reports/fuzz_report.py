"""Many seeds as a document: what was generated, what became of it, and what does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tidemark.reports.campaign_facts import CampaignFacts, FactTable, FailedItem, place_in, shrunk_in
from tidemark.reports.markdown import table

if TYPE_CHECKING:
    from tidemark.campaigns.fuzz import Outcome

LABELS = {
    "verdict": "seeds by verdict",
    "mode": "by run mode",
    "sink": "by sink",
    "state": "by store and format of the state",
    "input": "by what is mean about their input",
    "defect": "by known defect of Spark that was named",
    "restarts": "by number of restarts",
    "total": "in all",
}
"""What the document calls the sorts of a summary (``campaigns.fuzz``); joins and bounds are a table."""


@dataclass(frozen=True)
class Fuzzed:
    """What a document is about: the seeds, their ``summary``, how long all of them took, on which ``versions``, and the
    ``command`` that does it again."""

    outcomes: Sequence[Outcome]
    summary: Mapping[str, Mapping[str, int]]
    seconds: float
    versions: Mapping[str, str]
    command: str


def markdown(fuzzed: Fuzzed) -> str:
    """The document."""
    done = sorted(fuzzed.outcomes, key=lambda one: one.seed)
    return "\n".join([*_opening(done, fuzzed), *_joins(done), *_sorts(fuzzed), *_failures(done)])


def _opening(done: Sequence[Outcome], fuzzed: Fuzzed) -> Iterator[str]:
    versions = fuzzed.versions
    held = f"**{sum(one.holds for one in done):,} of {len(done):,} seeds hold**"
    range_of = f"{done[0].seed} to {done[-1].seed}" if done else "none was run"
    seconds = [one.seconds for one in done] or [0.0]
    low, middle, high = min(seconds), median(seconds), max(seconds)
    yield from (
        "# Random joins, judged",
        "",
        f"Made by `{fuzzed.command}`:",
        "each seed generates a join, a trace and restarts, which run on a real broker and a real cluster; output,",
        "state and metrics are compared with the oracle's. A seed holds if nothing is found but known defects of",
        "Spark.",
        "",
        f"Spark {versions.get('spark', '?')}, Kafka {versions.get('kafka', '?')}: {held} ({range_of}).",
        f"A seed took {low:.1f} s at least, {middle:.1f} s in the median, {high:.1f} s at most; all of them took",
        f"{fuzzed.seconds / 60:.1f} minutes.",
        "",
    )


def _joins(done: Sequence[Outcome]) -> Iterator[str]:
    """Seeds by join and bound."""
    kinds, rows = _join_rows(done)
    yield from (*table(("bound", *(f"{kind}:" for kind in kinds)), rows), "")


def _join_rows(done: Sequence[Outcome]) -> tuple[list[str], list[tuple[object, ...]]]:
    """The kinds of joins, and for each bound how many seeds of each there were."""
    kinds, bounds = sorted({one.kind for one in done}), sorted({one.bound for one in done})
    counted = Counter((one.bound, one.kind) for one in done)
    return kinds, [(bound, *(counted[bound, kind] or "-" for kind in kinds)) for bound in bounds]


def _sorts(fuzzed: Fuzzed) -> Iterator[str]:
    for label, counts in _counted(fuzzed):
        yield f"- {label}: {counts}"


def _counted(fuzzed: Fuzzed) -> Iterator[tuple[str, str]]:
    """Each sort of a summary that has counts, and its counts."""
    for sort, label in LABELS.items():
        if counts := fuzzed.summary[sort]:
            yield label, ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _failures(done: Sequence[Outcome]) -> Iterator[str]:
    yield ""
    failures = [one for one in done if not one.holds]
    for one in failures:
        yield f"- seed {one.seed} ({one.kind}, {one.bound}) is {one.verdict}: {one.problem}"
    if not failures:
        yield "No false alarm, and no disagreement that is not a known defect."
    yield ""


def facts(fuzzed: Fuzzed, folder: Path, asked: int, resume: str = "") -> CampaignFacts:
    """What the page of a fuzz says at its head; ``asked`` is the number of seeds that were asked for."""
    done = sorted(fuzzed.outcomes, key=lambda one: one.seed)
    failures = [one for one in done if not one.holds]
    seconds = [one.seconds for one in done] or [0.0]
    kinds, rows = _join_rows(done)
    other = " --spark PYTHON" if "--spark" in fuzzed.command else ""
    said = f"{len(done) - len(failures):,} of {len(done):,} seeds hold"
    return CampaignFacts(
        name="fuzz",
        said=said + (f"; {asked - len(done):,} of {asked:,} were not run." if len(done) < asked else "."),
        command=fuzzed.command,
        resume=resume,
        asked=[
            ("seeds", f"{asked:,}"),
            (
                "ran on",
                f"Spark {fuzzed.versions.get('spark', '?')}, Kafka {fuzzed.versions.get('kafka', '?')}",
            ),
        ],
        came=[
            *_counted(fuzzed),
            (
                "seconds for a seed",
                f"min {min(seconds):.1f}, median {median(seconds):.1f}, max {max(seconds):.1f}",
            ),
            ("minutes in all", f"{fuzzed.seconds / 60:.1f}"),
        ],
        failed=[
            FailedItem(
                name=f"seed {one.seed}: {one.kind}, {one.bound}, {one.verdict}",
                why=one.problem,
                run_dir=place_in(folder, one.run_dir),
                command=f"tidemark fuzz --first {one.seed} --seeds 1{other}",
                shrunk=shrunk_in(folder, one.run_dir),
            )
            for one in failures
        ],
        tables=[
            FactTable(
                title="Seeds by bound and join",
                head=["bound", *kinds],
                rows=[[str(cell) for cell in row] for row in rows],
            )
        ],
        runs=[place for one in failures if (place := place_in(folder, one.run_dir))],
    )
