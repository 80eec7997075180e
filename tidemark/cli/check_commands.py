"""``tidemark check DIR``: judge a run directory again, without a stack.

Free of Kafka and Spark. Writes ``verdict.json`` into the directory; the exit code is the verdict's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.shared_options import Accept


def register(app: typer.Typer) -> None:
    """Add ``check`` to the command line."""
    app.command("check")(check)


def check(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.", show_default=False)],
    batches: Annotated[bool, typer.Option("--batches", help="Show the run batch by batch.")] = False,
    accept: Accept = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON object.")] = False,
) -> None:
    """Judge a run directory again, offline: exit code 0 (VALID), 1 (INVALID) or 3 (UNKNOWN)."""
    import msgspec

    from tidemark import public_api
    from tidemark.formats.evidence import open_run
    from tidemark.report import print_verdict
    from tidemark.report.timeline import timeline

    verdict = public_api.check(directory, accept=accept or (), save=True)
    run = open_run(directory)
    if as_json:
        typer.echo(msgspec.json.encode(verdict).decode())
    else:
        if batches:
            for line in timeline(run):
                typer.echo(line)
        manifest = run.manifest
        print_verdict(
            verdict,
            directory,
            run.faults(),
            trace_sha256=manifest.trace_sha256 or "",
            command=manifest.command or "",
        )
    raise typer.Exit(verdict.exit_code)
