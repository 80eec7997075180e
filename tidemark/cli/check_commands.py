"""``tidemark check DIR``: judge a run directory again, without a stack; ``report DIR``: a page of it; ``seal DIR``.

Free of Kafka, and of Spark but for ``--engine spark``. Writes ``verdict.json`` into the directory; the exit code is the
verdict's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.run_commands import check_salt
from tidemark.cli.shared_options import Accept, JUnitTo, MarkdownTo, NoDiagnosis, Redact, RedactSalt

if TYPE_CHECKING:
    from tidemark.oracle import Verdict

Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What reads a run of more than 300,000 input records: duckdb, or spark for evidence in Parquet that one"
        " machine does not hold.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="How much DuckDB may hold in memory (500MB, 8GB); the rest is in temporary files. Default: as much"
        " as the run needs, at most 2,500 MB.",
    ),
]
SparkMaster = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The Spark of --engine spark: local[N], spark://HOST:PORT, yarn, k8s://…, or sc://HOST:PORT. Default: the"
        " driver of the stack that is up, else local[*].",
    ),
]
SparkConf = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of that Spark; repeatable.")
]

ReportBeside = Annotated[
    bool,
    typer.Option(
        "--report", help="Write report.html into the directory, too; one that is there is made anew anyway."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("check")(check)
    app.command("seal")(seal_command)
    app.command("report")(report_command)


def check(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.", show_default=False)],
    batches: Annotated[bool, typer.Option("--batches", help="Show the run batch by batch.")] = False,
    accept: Accept = None,
    redact: Redact = False,
    redact_salt: RedactSalt = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as one JSON object.")] = False,
    report: ReportBeside = False,
    markdown: MarkdownTo = None,
    junit: JUnitTo = None,
    no_diagnosis: NoDiagnosis = False,
    engine: Engine = "duckdb",
    memory: Memory = None,
    spark_master: SparkMaster = None,
    spark_conf: SparkConf = None,
) -> None:
    """Judge a run directory again, offline: exit code 0 (VALID), 1 (INVALID) or 3 (UNKNOWN).

    Exit code 2: the evidence is refused, because files were changed since it was sealed, or contradict each other. With
    --redact a redacted copy is judged and shown, and deleted; the directory stays as it is.
    """
    from tidemark import public_api
    from tidemark.reports.exports import write_exports
    from tidemark.reports.reported_runs import ReportedRun

    check_salt(redact=redact, salt=redact_salt)
    _check_report(report=report, redact=redact)
    is_said = _on_stdout(as_json=as_json, markdown=markdown, junit=junit)
    with _redacted_copy(directory, redact_salt) if redact else nullcontext(directory) as judged:
        verdict = public_api.check(
            judged,
            accept=accept or (),
            save=not redact,
            diagnosis=not no_diagnosis,
            engine=engine,
            memory=memory,
            spark_master=spark_master,
            spark_conf=spark_conf or (),
        )
        is_there = not redact and (directory / "report.html").is_file()
        if report or is_there:  # one that is there must not contradict the verdict
            _write_report(judged, verdict)
        write_exports(
            [ReportedRun(directory.absolute().name, judged, verdict)], markdown=markdown, junit=junit
        )
        if not is_said:
            _show(verdict, judged, batches=batches, as_json=as_json)
    raise typer.Exit(verdict.exit_code)


def _check_report(*, report: bool, redact: bool) -> None:
    """Wrong usage, if a page is to be beside evidence of which a redacted copy is judged."""
    if report and redact:
        raise typer.BadParameter(
            "it is given with --redact, which leaves the directory as it is; make redacted evidence with"
            " `tidemark redact DIR --to DIR2`, then `tidemark report DIR2`",
            param_hint="--report",
        )


def _on_stdout(*, as_json: bool, markdown: Path | None, junit: Path | None) -> bool:
    """Whether an export goes to standard output, where it is then alone; wrong usage, if two things do."""
    asked = ("--json", as_json), ("--markdown -", str(markdown) == "-"), ("--junit -", str(junit) == "-")
    names = [name for name, is_there in asked if is_there]
    if len(names) > 1:
        raise typer.BadParameter(
            f"{' and '.join(names)} both write to standard output; name a file for one of them",
            param_hint=names[1].split()[0],
        )
    return names not in ([], ["--json"])


def _write_report(directory: Path, verdict: Verdict) -> None:
    from tidemark.formats.evidence import open_run
    from tidemark.reports.html_report import write_report

    write_report(open_run(directory), verdict)


def _show(verdict: Verdict, directory: Path, *, batches: bool, as_json: bool) -> None:
    import msgspec

    from tidemark.formats.evidence import open_run
    from tidemark.reports import print_verdict
    from tidemark.reports.timeline import timeline

    run = open_run(directory)
    if as_json:
        typer.echo(msgspec.json.encode(verdict).decode())
        return
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


@contextmanager
def _redacted_copy(directory: Path, salt: Path | None) -> Iterator[Path]:
    """A redacted copy of a run directory, for as long as it is judged and shown; one that is redacted is its own."""
    from tidemark.formats.evidence import open_run
    from tidemark.redaction import Redactor

    if open_run(directory).manifest.redacted is not None:
        yield directory
        return
    with TemporaryDirectory(prefix="tidemark-redacted-") as folder:
        yield Redactor(salt).redact(directory, Path(folder) / "evidence").path


def report_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run directory, or a folder of them.", show_default=False)
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            help="Where the page goes; default: DIR/report.html, of a folder DIR/index.html.",
        ),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Also write the timeline for ui.perfetto.dev or chrome://tracing.",
        ),
    ] = None,
    markdown: MarkdownTo = None,
    junit: JUnitTo = None,
) -> None:
    """Make a page of a run or an audit to look at, from its evidence alone: verdict, findings, and the run in one view.

    One file, which opens in a browser without a network. Of a folder of runs: an index with a line for each, and pages
    of those that have none. Exit code 0, whatever the verdict; 2: the evidence is refused.
    """
    from tidemark import public_api

    is_said = _on_stdout(as_json=False, markdown=markdown, junit=junit)
    typer.echo(public_api.report(directory, to=to, markdown=markdown, junit=junit), err=is_said)
    for path in (markdown, junit):
        if path is not None and str(path) != "-":
            typer.echo(path, err=is_said)
    if perfetto is not None:
        typer.echo(_perfetto(directory, perfetto), err=is_said)


def _perfetto(directory: Path, to: Path) -> Path:
    """Write the timeline of a run as a trace file."""
    from tidemark import public_api
    from tidemark.formats.evidence import open_run
    from tidemark.reports.html_report import write_file
    from tidemark.reports.kept_verdict import kept_verdict
    from tidemark.reports.perfetto_trace import perfetto_trace
    from tidemark.reports.viewed_run import run_view

    run = open_run(directory)
    view = run_view(run, kept_verdict(run.path) or public_api.check(directory))
    return write_file(to, perfetto_trace(view), "trace", "--perfetto")


def seal_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.", show_default=False)],
) -> None:
    """Seal a run directory: `tidemark check` then refuses it once a file of evidence is changed, missing or added.

    A run seals its directory itself. This is for one that was typed, or whose files were compressed or shortened on
    purpose. A seal says what is there now: that of a run is proof of what the run wrote, so make a copy first.
    Evidence that cannot be read is not sealed (exit code 2).
    """
    from tidemark.formats.evidence import open_run
    from tidemark.formats.seal import seal

    run = open_run(directory)
    deque(chain(run.inputs(), run.batches(), run.output()), maxlen=0)
    made = seal(run.path)
    typer.echo(f"{directory}: {len(made.files):,} files sealed")
