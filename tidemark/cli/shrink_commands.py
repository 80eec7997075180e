"""``tidemark shrink DIR``: the smallest run, or the smallest evidence, that shows the same bug."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tidemark.cli.live_view import is_live
from tidemark.cli.shared_options import AsJson, seconds_of
from tidemark.errors import EXIT_INTERRUPTED, UsageError

if TYPE_CHECKING:
    from tidemark.campaigns.shrink.red_run import RedRun
    from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions, ShrunkRun
    from tidemark.stack import Stack


FindingNumber = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Which finding to show, from 1, in the order of verdict.json; default: the first that no known defect"
        " explains, else the first; those of the trace come before those of a sentinel, and last come those that"
        " nothing smaller shows.",
    ),
]
ExpectedToFail = Annotated[
    bool,
    typer.Option(
        "--xfail", help="Mark the test as one that is expected to fail (strict); offline there is no test."
    ),
]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Make the evidence smaller, not the run: the judge alone decides, and nothing is started. The only way"
        " for an audit, unless there is a --pipeline.",
    ),
]
OfAudit = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Of an audit: run its input through this pipeline on a stack, and make that run smaller.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("shrink")(shrink_command)


def shrink_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The run directory of an INVALID run.", show_default=False)
    ],
    finding: FindingNumber = None,
    budget: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long to search: 90s, 10m, 1h. The final runs come after it."),
    ] = "10m",
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the result goes; default: DIR-shrunk.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on where the same command was interrupted, or its time was over."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The order in which parts are left out.")] = 0,
    xfail: ExpectedToFail = False,
    offline: Offline = False,
    pipeline: OfAudit = None,
    as_json: AsJson = False,
) -> None:
    """Make a red run smaller: the smallest trace and settings that show the same finding, on a real stack.

    The run is repeated for the rate at which it shows the finding; then faults, slices, keys, rows, fields, times,
    settings and terms of the contract are left out or made simpler as long as real runs show it. The result is a folder
    with the trace, the contract, a test, a program of plain PySpark where one can show it, a text for a ticket, and the
    report of the smallest run. Of an audit, and of a run with --offline, rows, batches and fields of the evidence are
    left out as long as the judge finds the same, and nothing is started. Exit code 0: it was made smaller.
    """
    if offline and pipeline is not None:
        raise typer.BadParameter("with --offline nothing is run", param_hint="--pipeline")
    asked = _Asked(seconds_of(budget), seed, resume, xfail, as_json)
    folder = _free_folder(to or directory.with_name(f"{directory.resolve().name}-shrunk"), resume=resume)
    try:
        if offline or (pipeline is None and _is_audit(directory)):
            _shrink_offline(directory, finding, folder, asked)
            return
        found, notes = _shrink(_Red(directory, finding, pipeline), folder, asked)
    except KeyboardInterrupt:
        print(_interrupted(folder), file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        import json

        from tidemark.campaigns.shrink.shrunk_files import as_json as described

        typer.echo(json.dumps({**described(found), "folder": str(folder), "notes": notes}))
    else:
        _print(found, folder, notes)


@dataclass(frozen=True)
class _Asked:
    """The options of one search."""

    budget_s: float
    seed: int
    resume: bool
    xfail: bool
    quiet: bool


class _Red(NamedTuple):
    """What is made smaller: a directory, its finding, and the pipeline that runs in the place of an audited query."""

    directory: Path
    finding: int | None
    pipeline: Path | None

    def read(self) -> RedRun:
        """As a red run."""
        if self.pipeline is not None:
            from tidemark.campaigns.shrink.audited_case import red_run_of_audit

            return red_run_of_audit(self.directory, self.pipeline, self.finding)
        from tidemark.campaigns.shrink.red_run import read_red_run

        return read_red_run(self.directory, self.finding)


def _is_audit(directory: Path) -> bool:
    from tidemark.formats.evidence import open_run

    return open_run(directory).manifest.audit is not None


def _shrink_offline(directory: Path, finding: int | None, folder: Path, asked: _Asked) -> None:
    import json

    from tidemark.campaigns.shrink.offline.evidence_search import (
        NO_PROGRAMS,
        read_red_evidence,
        shrink_evidence,
    )
    from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions

    if asked.xfail:
        raise UsageError(
            "--xfail marks a test, and none is written offline",
            detail="evidence is made smaller there, not a run",
            hint="leave out --xfail; a run without --offline, or an audit with --pipeline FILE.py, has a test",
        )
    red = read_red_evidence(directory, finding)
    with _progress(quiet=asked.quiet) as (say, progress):
        options = ShrinkOptions(folder, asked.budget_s, asked.resume, asked.seed, say, progress)
        found = shrink_evidence(red, options)
    if asked.quiet:
        typer.echo(json.dumps({**found.as_json(), "folder": str(folder), "notes": [NO_PROGRAMS]}))
        return
    for line in found.lines():
        typer.echo(line)
    typer.echo(NO_PROGRAMS)
    typer.echo(f"written: {folder}")


def _shrink(one: _Red, folder: Path, asked: _Asked) -> tuple[ShrunkRun, list[str]]:
    from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions
    from tidemark.stack import lease, spec_to_lease

    red = one.read()
    with lease(spec_to_lease(red.python)) as stack, _progress(quiet=asked.quiet) as (say, progress):
        options = ShrinkOptions(folder, asked.budget_s, asked.resume, asked.seed, say, progress)
        return shrink_on(stack, red, options, xfail=asked.xfail)


def shrink_on(
    stack: Stack, red: RedRun, options: ShrinkOptions, *, xfail: bool = False
) -> tuple[ShrunkRun, list[str]]:
    """Make a red run smaller on a stack, and write what comes of it; returns that, and what was not written and why."""
    from tidemark.campaigns.shrink.shrink_campaign import shrink_red_run
    from tidemark.campaigns.shrink.shrunk_files import write_shrunk

    found = shrink_red_run(red, stack, options)
    return found, write_shrunk(found, options.folder, xfail=xfail)


def _interrupted(folder: Path) -> str:
    from tidemark.campaigns.shrink.trial_journal import TRIALS

    how = "; go on with --resume" if (folder / TRIALS).is_file() else ""
    return f"interrupted; {what_is_there(folder)}{how}"


def what_is_there(folder: Path) -> str:
    """What a search that was interrupted has left in its folder."""
    from tidemark.campaigns.shrink.case_files import TRACE

    return f"the best so far is in {folder}" if (folder / TRACE).is_file() else "nothing was made smaller yet"


def _free_folder(folder: Path, *, resume: bool) -> Path:
    """The folder, if nothing is in it, or it is gone on with."""
    if not resume and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{str(folder)!r} is there already",
            detail="what was made smaller before is not overwritten",
            hint="go on with it by --resume, or name a new folder: --to DIR",
        )
    return folder


@contextmanager
def _progress(*, quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """What says a line, and what shows where the search is: one line on a terminal, lines now and then elsewhere."""
    say = partial(print, file=sys.stderr, flush=True)
    if not is_live(quiet=quiet):
        yield say, (lambda _text: None) if quiet else _once_for_each_size(say)
        return
    from rich.console import Console
    from rich.status import Status

    with Status("", console=Console(stderr=True)) as status:
        yield status.console.print, status.update


def _once_for_each_size(say: Callable[[str], None]) -> Callable[[str], None]:
    """In a log, a line for each size of the best, which its text begins with."""
    said: list[str] = []

    def show(text: str) -> None:
        if said[-1:] != [text.partition(";")[0]]:
            said.append(text.partition(";")[0])
            say(text)

    return show


def _print(found: ShrunkRun, folder: Path, notes: list[str]) -> None:
    shrunk = found.shrunk
    typer.echo(f"{found.signature}")
    typer.echo(f"before   {found.before}, red in {shrunk.first}")
    typer.echo(f"after    {found.after}, red in {shrunk.final}")
    typer.echo(
        f"trials   {found.trials} in {found.seconds:g} s; {found.told} more told by Spark's rules without a run"
    )
    if shrunk.undone:
        typer.echo(f"undone   {shrunk.undone} that were accepted and hardly show it")
    if not shrunk.is_minimal:
        typer.echo("the time was over: it may become smaller with --resume and a longer --budget")
    free = [name for name, matters in found.matters.items() if not matters]
    if free:
        typer.echo(f"any value does: {', '.join(free)}")
    for note in notes:
        typer.echo(note)
    for record in shrunk.best.case.records:
        typer.echo(f"  slice {record.slice}  {record.topic}  {record.value}")
    typer.echo(f"written: {folder}")
