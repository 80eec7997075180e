"""Which judge kills which mutant: collected from the tests' reports, printed at the end of a session, and written down.

A test leaves one :class:`Line` in its report (``line_of``), which also crosses from a worker of ``pytest -n``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tidemark import paths
from tidemark.campaigns.campaign import Campaign
from tidemark.reports.markdown import read_table, table

PROPERTY = "mutant"
EVIDENCE = "evidence of a mutant"
"""Where its evidence is: place, name, join, folder. ``python -m tests.diagnoses --record`` keeps it."""
DOCUMENT = Path(__file__).parents[1] / "results" / "SCORE.md"
JOURNAL = paths.root() / "build" / "mutants.jsonl"
PLACES = ("pipeline", "sink", "state", "recovery", "evidence", "engine")
NAIVE = ("equality", "count")
HEAD = """\
# Mutation score

Written by `make mutants`. Each line is a pipeline, a sink, a checkpoint or the evidence of a real run with one thing
broken, or what an engine with an old bug would have written; *killed by* is the property that was named beforehand and
is asserted by the test. The same runs were shown to two judges as most tests have them: *equality* compares the sorted
ids with a batch join of all input, *count* polls the output topic for as many records as that join has rows
(`tests/mutants/naive.py`). *false positive*: that judge rejects a sound pipeline on this input, too, because some
of its rows are late. *not run*: the last score has no run of it.

"""
NOT_RUN = "not run"


class Line(NamedTuple):
    """One mutant on one join."""

    place: str
    name: str
    join: str
    killed_by: str
    tidemark: str
    equality: str
    count: str


def lines_of(reports: Iterable[pytest.TestReport]) -> list[Line]:
    """The lines that tests left in their reports, by place and name."""
    found = {
        Line(*value)
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == PROPERTY
    }
    return in_order(found)


def in_order(lines: Iterable[Line]) -> list[Line]:
    """Lines by place and name."""
    return sorted(lines, key=lambda line: (PLACES.index(line.place), line))


def summary(lines: Sequence[Line]) -> list[str]:
    """How many each judge killed."""
    told = []
    for judge in ("tidemark", *NAIVE):
        said = [getattr(line, judge) for line in lines if getattr(line, judge) != NOT_RUN]
        told.append(
            f"{judge}: {said.count('killed')} of {len(said)} killed, {said.count('survived')} survived,"
            f" {said.count('false positive')} false positives"
        )
    return told


def document(lines: Sequence[Line]) -> str:
    """The whole of ``SCORE.md``."""
    mutants = len({(line.place, line.name) for line in lines})
    not_run = sum(line.tidemark == NOT_RUN for line in lines)
    head = [
        f"{mutants} mutants, {len(lines)} lines, {not_run} of them not run.",
        "",
        *(f"- {text}" for text in summary(lines)),
        "",
    ]
    columns = ("place", "mutant", "join", "killed by", "tidemark", "equality", "count")
    return HEAD + "\n".join([*head, *table(columns, lines)]) + "\n"


def read_document(text: str) -> list[Line]:
    """The lines of a document; the reverse of :func:`document`."""
    return [Line(*row) for row in read_table(text)[1:]]


def print_score(reporter: pytest.TerminalReporter) -> None:
    """Print the score of this session, if it has one."""
    if lines := lines_of(_reports(reporter)):
        reporter.section("mutants")
        for text in (*(" · ".join(line) for line in lines), *summary(lines)):
            reporter.write_line(text)


class Tested(msgspec.Struct, frozen=True):
    """A test that passed, and the lines that it left."""

    lines: tuple[Line, ...]


class Writer:
    """A plugin that journals each test that passed, and writes the document if nothing failed."""

    def __init__(self, *, resume: bool) -> None:
        self._done: Campaign[str, Tested] = Campaign(
            "mutants", Tested, lambda _: True, journal=JOURNAL, resume=resume
        )

    @property
    def deselecting(self) -> list[str]:
        """pytest's options that leave out the tests that are journalled."""
        return [f"--deselect={test}" for test in self._done.earlier]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._done.record(report.nodeid, Tested(tuple(lines_of([report]))))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        tested = {**self._done.earlier, **self._done.outcomes}.values()
        lines = {line for one in tested for line in one.lines}
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and lines:
            DOCUMENT.write_text(document(in_order(lines)))
            terminalreporter.write_line(f"written: {DOCUMENT}")


def _reports(reporter: pytest.TerminalReporter) -> Iterator[pytest.TestReport]:
    for reports in reporter.stats.values():
        yield from (report for report in reports if isinstance(report, pytest.TestReport))
