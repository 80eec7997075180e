"""What a report is exported as, for other programs: Markdown and JUnit XML, each into a file or on standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tidemark.reports.html_report import write_file
from tidemark.reports.reported_runs import ReportedRun

STDOUT = "-"


def write_exports(
    runs: Sequence[ReportedRun],
    *,
    markdown: str | Path | None = None,
    junit: str | Path | None = None,
    is_folder: bool = False,
) -> list[Path]:
    """Write what is asked for; gives the files. Raises ``UsageError`` for one that cannot be written."""
    from tidemark.reports.verdict_junit import junit_of
    from tidemark.reports.verdict_markdown import markdown_of

    written = []
    if markdown is not None:
        text = markdown_of(runs, is_folder=is_folder).encode("utf-8", "backslashreplace")
        written += _write(markdown, text, "Markdown", "--markdown")
    if junit is not None:
        written += _write(junit, junit_of(runs, is_folder=is_folder), "JUnit XML", "--junit")
    return written


def _write(to: str | Path, data: bytes, what: str, option: str) -> list[Path]:
    if str(to) == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return []
    return [write_file(Path(to), data, what, option)]
