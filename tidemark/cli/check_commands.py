"""``tidemark check DIR``: judge a run directory again, without a stack.

Free of Kafka and Spark. Writes ``verdict.json`` into the directory and prints the verdict; the exit code is
the verdict's. :func:`print_verdict` is also how ``tidemark run`` ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tidemark.oracle import Verdict

EXAMPLES_PRINTED = 5
_COLOURS = {"VALID": "green", "INVALID": "red", "UNKNOWN": "yellow"}
_COUNTS = (
    ("rows_in", "rows in"),
    ("matched", "matched left rows"),
    ("joined_rows", "joined rows"),
    ("null_rows", "NULL rows"),
    ("semi_rows", "semi rows"),
    ("late", "late rows dropped"),
    ("unreadable", "unreadable, filtered out"),
    ("null_key", "events without a join key"),
    ("duplicate_events", "events sent twice"),
    ("output_records", "output records"),
    ("duplicates_excused", "duplicates excused"),
    ("batches", "batches"),
    ("no_data_batches", "of these without data"),
    ("batches_run_again", "of these run again"),
    ("failed_tasks", "tasks that failed"),
    ("faults_done", "faults"),
    ("recovery_ms", "longest recovery, ms"),
)


def register(app: typer.Typer) -> None:
    """Add ``check`` to the command line."""
    app.command("check")(check)


def check(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON object.")] = False,
) -> None:
    """Judge a run directory again, offline; exit with 0 (VALID), 1 (INVALID) or 3 (UNKNOWN)."""
    from tidemark.evidence import open_run
    from tidemark.oracle import judge

    run = open_run(directory)
    verdict = judge(run)
    run.write_json("verdict", verdict)
    if as_json:
        print_json(verdict)
    else:
        from rich.console import Console

        print_verdict(verdict, directory, Console())
    raise typer.Exit(verdict.exit_code)


def print_json(verdict: Verdict) -> None:
    """The whole verdict, as it is in ``verdict.json``, on one line."""
    import msgspec

    typer.echo(msgspec.json.encode(verdict).decode())


def print_verdict(verdict: Verdict, directory: Path, console: Console) -> None:
    """A table of what the run consisted of, what is wrong with it, and the verdict."""
    from rich.markup import escape

    console.print(_counts_table(verdict))
    for name, total in verdict.findings_total.items():
        examples = [finding for finding in verdict.findings if finding.property == name][:EXAMPLES_PRINTED]
        more = f", {len(examples)} of them shown" if total > len(examples) else ""
        console.print(f"[bold red]{name}[/] {total}{more}")
        for finding in examples:
            console.print(f"  • {escape(finding.message)}", soft_wrap=True, highlight=False)
    for defect, text in verdict.known_defects.items():
        console.print(f"[bold]known defect[/] {defect}: {escape(text)}", soft_wrap=True, highlight=False)
    for doubt in verdict.doubts:
        console.print(f"[yellow]in doubt[/]: {escape(doubt)}", soft_wrap=True, highlight=False)
    colour = _COLOURS[verdict.verdict]
    console.print(f"[bold {colour}]{verdict.verdict}[/]  {verdict.pipeline}, {verdict.delivery}")
    console.print(f"evidence: {escape(str(directory))}", soft_wrap=True, highlight=False)


def _counts_table(verdict: Verdict) -> Table:
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for name, title in _COUNTS:
        count = verdict.counts.get(name, 0)
        if count or name in ("rows_in", "late", "output_records", "batches"):
            table.add_row(title, f"{count:,}")
    return table
