"""``tidemark versions``: the known defects of Spark, tried on several versions of it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.run_commands import progress_shown, say_index
from tidemark.cli.shared_options import AsJson, Log, Resume, resumed
from tidemark.errors import EXIT_INTERRUPTED, EXIT_INVALID

if TYPE_CHECKING:
    from tidemark.reports.versions_report import Results

Pythons = Annotated[
    list[Path] | None,
    typer.Option("--spark", metavar="PYTHON", help="An interpreter that has a PySpark; repeatable."),
]
Releases = Annotated[
    list[str] | None,
    typer.Option(
        "--release",
        metavar="VERSION",
        help="Make an environment with this PySpark through pip, and try it; repeatable. Without this and "
        "--spark: 3.5.7, 4.0.5, 4.1.4, 4.2.0 and 4.3.0, about 450 MB each, fetched once.",
    ),
]

Cases = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Only this case, a file of the folder `spark_bugs`; repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add ``versions`` to the command line."""
    app.command("versions")(versions_command)


def versions_command(
    spark: Pythons = None,
    release: Releases = None,
    case: Cases = None,
    install: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where environments are made and kept; default: the user's cache."),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table as a document, too.")
    ] = None,
    log: Log = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Try the known defects of Spark's joins on several versions of it, each on a stack of its own (local processes).

    Two to four minutes a version. Exit code 0 where every version is as it is known to be, 1 where a defect is gone or
    is where none was known, 3 where a run did not show it.
    """
    from tidemark.campaigns.campaign import journalled_folder
    from tidemark.campaigns.versions import campaign, cases, new_folder, sparks, try_all
    from tidemark.reports import versions_report as table
    from tidemark.reports.campaign_facts import FactsWriter
    from tidemark.reports.versions_report import Cell
    from tidemark.runner.pyspark_environments import RELEASES, folder, provide

    chosen = cases(case or ())
    releases = release or (() if spark else RELEASES)
    trials = campaign(journal=log, resume=resume)
    runs = (journalled_folder(log, Cell, depth=1) if resume else None) or new_folder()
    command = _typed(releases if release else (), spark or (), case or ())
    page, more = FactsWriter(runs), resumed(command, log)
    with progress_shown(quiet=as_json) as (trials.report, trials.say):
        made = [provide(one, install or folder(), trials.say) for one in releases]
        results = try_all(
            sparks([*(spark or ()), *made]), chosen, trials, runs,
            lambda so_far: page.note(lambda: table.facts(so_far, runs, command, more)),
        )  # fmt: skip
    page.end(table.facts(results, runs, command, more), complete=not trials.interrupted)
    if markdown is not None and not trials.interrupted:
        markdown.write_text(table.markdown(results), encoding="utf-8")
    _print(results, as_json=as_json)
    say_index(runs)
    interrupted = trials.interrupted and results.exit_code != EXIT_INVALID
    raise typer.Exit(EXIT_INTERRUPTED if interrupted else results.exit_code)


def _print(results: Results, *, as_json: bool) -> None:
    from rich.console import Console

    from tidemark.reports import versions_report as table

    if as_json:
        sys.stdout.write(json.dumps(results.to_json()) + "\n")
        return
    console = Console(highlight=False)
    console.print(table.terminal_table(results))
    for note in table.notes(results):
        console.print(note, markup=False, soft_wrap=True)


def _typed(releases: Sequence[str], sparks: Sequence[Path], cases: Sequence[str]) -> str:
    """The command of the versions, with what decides what is tried."""
    words = ["tidemark", "versions"]
    for option, values in (("--spark", sparks), ("--release", releases), ("--case", cases)):
        words += [word for value in values for word in (option, str(value))]
    return shlex.join(words)
