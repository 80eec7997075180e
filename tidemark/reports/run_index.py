"""``index.html`` of a folder of runs: a line for each, by pipeline, with its verdict and a link to its page.

Free of judgement. It is read and filtered by verdict without scripts; a few lines of script find text in it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from tidemark.errors import TidemarkError
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import Fault
from tidemark.oracle import Verdict
from tidemark.reports.campaign_facts import NAME as CAMPAIGN
from tidemark.reports.campaign_facts import CampaignFacts, read_facts
from tidemark.reports.collected_tests import RUNNING, CollectedTest, tests_below
from tidemark.reports.component_tracks import time_ms
from tidemark.reports.html_report import PAGE, rendered, write_file
from tidemark.reports.run_statistics import (
    HEIGHT,
    WIDTH,
    Dot,
    course,
    fault_statistics,
    median_recovery_s,
)
from tidemark.reports.verdict_page import headlines
from tidemark.reports.viewed_run import WHOLE_DURATION

INDEX = "index.html"
REFUSED = "evidence that is refused"
LATEST = 100
"""So many runs of a pipeline are drawn."""
DEEPEST = 3
"""Runs are looked for so many folders below."""


@dataclass(frozen=True)
class RunLine:
    """A run in words. ``link`` is its page, ``said`` what is wrong with it, or why its evidence is refused.

    ``test`` is the test that ran it, if ``pytest --tidemark-report`` collected it. ``rate`` is input rows a second,
    ``recovery_s`` the median of the run's recoveries, ``journal`` its faults.
    """

    name: str
    link: str
    verdict: str
    pipeline: str
    said: str = ""
    sink: str = ""
    seed: str = ""
    faults: str = ""
    spark: str = ""
    started: str = ""
    took: str = ""
    target: str = ""
    test: str = ""
    rows: int | None = None
    rate: float | None = None
    recovery_s: float | None = None
    journal: Sequence[Fault] = ()
    number: int = 0


@dataclass(frozen=True)
class PipelineHistory:
    """The runs of one pipeline, in the order in which they were started."""

    pipeline: str
    runs: Sequence[RunLine]

    @property
    def rates(self) -> list[Dot]:
        """Input rows a second of the latest runs."""
        return course([(run.number, run.name, run.rate) for run in self.runs[-LATEST:]], "rows/s")

    @property
    def recoveries(self) -> list[Dot]:
        """The median recovery of the latest runs."""
        return course([(run.number, run.name, run.recovery_s) for run in self.runs[-LATEST:]], "s")

    def count(self, verdict: str) -> int:
        """How many have this verdict."""
        return sum(run.verdict == verdict for run in self.runs)


@dataclass(frozen=True)
class TestLine:
    """A test with its outcome in pytest's words, and its runs."""

    __test__ = False  # for pytest, which takes what is called so for a test
    test: str
    outcome: str
    runs: Sequence[RunLine]


@dataclass(frozen=True)
class CampaignLine:
    """A campaign in a folder below the index: its name, its folder, what came of it, and its page if there is one."""

    name: str
    folder: str
    said: str
    link: str
    complete: bool
    wrong: bool


@dataclass(frozen=True)
class FolderFacts:
    """What a folder says beside its runs: the tests and the campaign that ran there, and campaigns in folders of it.

    ``others`` are run directories that are not of the campaign, and are not listed.
    """

    tests: Sequence[CollectedTest] = ()
    campaign: CampaignFacts | None = None
    others: Sequence[str] = ()
    below: Sequence[CampaignLine] = ()


NOTHING_ELSE = FolderFacts()


def runs_below(folder: Path) -> list[Path]:
    """The run directories in a folder, and in folders of it; none if it is one itself."""
    if (folder / "manifest.json").is_file():
        return []
    return sorted(_runs(folder, DEEPEST))


def _runs(folder: Path, depth: int) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        inside = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for path in inside:
        if (path / "manifest.json").is_file():
            yield path
        elif depth > 1:
            yield from _runs(path, depth - 1)


def run_line(run: RunDirectory, verdict: Verdict, name: str, page: Path) -> RunLine:
    """The line of a run that was judged."""
    manifest, faults, seconds = run.manifest, run.faults(), took_s(run)
    rows = verdict.counts.get("rows_in")
    return RunLine(
        name=name,
        link=page.absolute().as_posix(),
        verdict=verdict.verdict,
        pipeline=verdict.pipeline,
        said="; ".join(headlines(verdict)[:2]),
        sink=manifest.sink or "",
        seed="" if manifest.seed is None else str(manifest.seed),
        faults=", ".join(fault.label for fault in faults if fault.injected),
        spark=manifest.versions.get("spark", ""),
        started=(manifest.started_utc or "")[:19].replace("T", " "),
        took="" if seconds is None else f"{seconds:,.0f} s",
        rows=rows,
        rate=rows / seconds if rows is not None and seconds else None,
        recovery_s=median_recovery_s(faults),
        journal=faults,
    )


def refused_line(run: RunDirectory, name: str, why: str) -> RunLine:
    """The line of a run whose evidence was refused; the journal of its faults counts where it can be read."""
    journal: list[Fault] = []
    with suppress(TidemarkError):
        journal = run.faults()
    faults = ", ".join(fault.label for fault in journal if fault.injected)
    return RunLine(
        name=name, link="", verdict="refused", pipeline=REFUSED, said=why, faults=faults, journal=journal
    )


def write_index(
    folder: Path, lines: Sequence[RunLine], to: Path | None = None, others: Sequence[str] = ()
) -> Path:
    """Write the page of these runs, by default as ``index.html`` of their folder; gives its path.

    Of the folder of a campaign it says what the campaign says of itself; ``others`` are runs there that are not of it.
    """
    path = folder / INDEX if to is None else to
    tests = tests_below(folder)
    linked = [_linked(line, path.absolute().parent) for line in lines]
    named = [replace(line, test=_test_of(line, tests)) for line in linked]
    facts = FolderFacts([*tests.values()], read_facts(folder), others, campaigns_below(folder, path.parent))
    return write_file(path, index_page(named, facts), "index")


def campaigns_below(folder: Path, page_folder: Path) -> list[CampaignLine]:
    """The campaigns in folders of a folder, with links from a page in ``page_folder``."""
    found = []
    for depth in range(1, DEEPEST + 1):
        for path in sorted(folder.glob(f"{'*/' * depth}{CAMPAIGN}")):
            if (facts := read_facts(path.parent)) is None:
                continue
            index, name = path.parent / INDEX, path.parent.relative_to(folder).as_posix()
            line = CampaignLine(
                facts.name, name, facts.said, _relative(index, page_folder) if index.is_file() else "",
                facts.complete, bool(facts.failed),
            )  # fmt: skip
            found.append(line)
    return found


def _test_of(line: RunLine, tests: Mapping[str, CollectedTest]) -> str:
    found = tests.get(line.name.partition("/")[0])
    return "" if found is None else found.test


def index_page(lines: Sequence[RunLine], facts: FolderFacts = NOTHING_ELSE) -> bytes:
    """The page in UTF-8."""
    ordered = sorted(lines, key=lambda line: (line.started, line.name))
    ordered = [replace(line, target=f"run-{at + 1}", number=at) for at, line in enumerate(ordered)]
    by_pipeline: defaultdict[str, list[RunLine]] = defaultdict(list)
    for line in ordered:
        by_pipeline[line.pipeline].append(line)
    by_component, by_point = fault_statistics([(line.name, line.journal) for line in ordered])
    names = sorted(by_pipeline, key=lambda name: (name == REFUSED, name))
    histories = [PipelineHistory(name, by_pipeline[name]) for name in names]
    return rendered(
        INDEX,
        (PAGE / "index.js").read_text(encoding="utf-8").strip(),
        histories=histories,
        tests=_test_lines(ordered, facts.tests),
        campaign=facts.campaign,
        others=facts.others,
        campaigns=facts.below,
        lines=ordered,
        line_of={line.name: line for line in ordered},
        by_component=by_component,
        by_point=by_point,
        width=WIDTH,
        height=HEIGHT,
        total=PipelineHistory("", lines),
        verdicts=[
            name
            for name in ("INVALID", "UNKNOWN", "VALID", "refused")
            if any(one.verdict == name for one in lines)
        ],
    )


def _test_lines(lines: Sequence[RunLine], tests: Iterable[CollectedTest]) -> list[TestLine]:
    """Tests that failed, or never ended, before the others."""
    by_test: defaultdict[str, list[RunLine]] = defaultdict(list)
    for line in lines:
        by_test[line.test].append(line)
    found = [TestLine(one.test, one.outcome, by_test[one.test]) for one in tests]
    return sorted(found, key=lambda one: (one.outcome not in ("failed", RUNNING), one.test))


def _linked(line: RunLine, folder: Path) -> RunLine:
    """A line whose link is relative to the folder of the index, as the path of a URL."""
    return replace(line, link=_relative(Path(line.link), folder) if line.link else "")


def _relative(path: Path, folder: Path) -> str:
    """A file seen from a folder, as the path of a URL."""
    return quote(Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix())


def took_s(run: RunDirectory) -> float | None:
    """From the begin of the first batch to the end of the last, in seconds, as Spark reports them."""
    times = []
    for report in run.progress():
        begin, durations = time_ms(report.get("timestamp")), report.get("durationMs") or {}
        if begin is not None:
            times += [begin, begin + int(durations.get(WHOLE_DURATION, 0))]
    return (max(times) - min(times)) / 1000 if times else None
