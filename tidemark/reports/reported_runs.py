"""The runs that a report is about: each with its verdict, or why its evidence is refused.

A verdict is that of ``verdict.json``, if the evidence has a seal and is as it was sealed before; else it is a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import TidemarkError
from tidemark.formats.evidence import RunDirectory, open_run
from tidemark.oracle import Verdict
from tidemark.reports.campaign_facts import read_facts
from tidemark.reports.html_report import NAME, write_report
from tidemark.reports.kept_verdict import judged_verdict, kept_verdict
from tidemark.reports.run_index import RunLine, refused_line, run_line, runs_below, write_index


@dataclass(frozen=True)
class ReportedRun:
    """A run: its ``name`` in the report, its directory, and its verdict; without one it says why it was ``refused``."""

    name: str
    path: Path
    verdict: Verdict | None = None
    refused: str = ""

    @property
    def run(self) -> RunDirectory:
        """Its evidence."""
        return RunDirectory(self.path)

    def line(self) -> RunLine:
        """Its line in an index."""
        if self.verdict is None:
            return refused_line(self.run, self.name, self.refused)
        return run_line(self.run, self.verdict, self.name, self.path / NAME)


def report_one(path: Path, to: Path | None = None) -> tuple[ReportedRun, Path]:
    """Write the page of a run, and give its path, too; raises ``TidemarkError`` for evidence that is refused."""
    directory = open_run(path)
    verdict = kept_verdict(path) or judged_verdict(directory)
    return ReportedRun(path.absolute().name, path, verdict), write_report(directory, verdict, to)


def is_folder_of_runs(path: Path) -> bool:
    """Whether there are runs below a folder, or a campaign was there; not if it is a run directory itself."""
    return path.is_dir() and bool(runs_below(path) or read_facts(path) is not None)


def report_folder(folder: Path, to: Path | None = None) -> tuple[list[ReportedRun], Path]:
    """The runs of a folder and the path of its index, which is written; a page that is not there is made.

    Evidence that is refused is a run, too. Of the folder of a campaign these are the runs that the campaign names.
    """
    facts = read_facts(folder)
    names = {path.relative_to(folder).as_posix(): path for path in runs_below(folder)}
    mine = names if facts is None or facts.runs is None else {*facts.runs}
    found = [_reported(path, name) for name, path in names.items() if name in mine]
    others = [name for name in names if name not in mine]
    return found, write_index(folder, [one.line() for one in found], to, others)


def index_of_campaign(folder: Path) -> Path | None:
    """Write the index of the runs that a campaign has left, and pages that are missing; ``None`` without any.

    An index that cannot be written is not there, and hides no result.
    """
    try:
        return report_folder(folder)[1] if is_folder_of_runs(folder) else None
    except Exception:  # noqa: BLE001 (the result is what was asked for; `tidemark report` says what is wrong)
        return None


def _reported(path: Path, name: str) -> ReportedRun:
    try:
        directory = open_run(path)
        verdict = kept_verdict(path)
        if verdict is None or not (path / NAME).is_file():
            verdict = verdict or judged_verdict(directory)
            write_report(directory, verdict)
        return ReportedRun(name, path, verdict)
    except TidemarkError as error:
        return ReportedRun(name, path, refused=str(error).splitlines()[0])
