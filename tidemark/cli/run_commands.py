"""``tidemark run``: one join on a real stack, judged."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.live_view import is_live, run_shown
from tidemark.cli.shared_options import (
    Accept,
    AsJson,
    Conf,
    Evidence,
    Functions,
    Generate,
    HungAfter,
    Jars,
    KafkaConf,
    KeepCheckpoint,
    NoDiagnosis,
    Packages,
    Pipeline,
    Progress,
    Project,
    PyFiles,
    RecoverWithin,
    Redact,
    RedactSalt,
    Sink,
    Standby,
    StateRows,
    Trace,
    Waive,
    WatermarkStands,
    in_time,
)
from tidemark.errors import EXIT_INTERRUPTED
from tidemark.formats.trace import PACES

if TYPE_CHECKING:
    from tidemark.runner import RunOptions, RunResult
    from tidemark.runner.run_options import Report, Say

STEPS = {
    "trace": "trace made",
    "stack": "stack ready",
    "driver": "driver ready",
    "publish": "slices published",
    "flush": "flushed with sentinels",
    "drain": "output drained",
    "inputs": "input records read",
    "output": "output records read",
    "decode": "records decoded",
    "state": "state read",
    "judge": "judged",
}


KillDrivers = Annotated[
    int,
    typer.Option(
        min=0, help="The same as --faults driver@written*N: SIGKILL, with a batch written and not committed."
    ),
]
Faults = Annotated[
    str,
    typer.Option(
        help="What to inject, and where: COMPONENT[:ACTION[=AMOUNT]]\\[@POINT][~SECONDS][*COUNT or *until=30s], "
        "joined by commas, or by + if they overlap: driver@written*2,executor@half-written,broker~1.5+driver@planned."
    ),
]


App = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="Run this job with its own driver in the place of the pipeline, of which the contract is taken:"
        " python -m adteam.job --brokers {bootstrap} --orders {topic:orders} --out {output} --checkpoint {checkpoint}."
        " {table}, a folder, in the place of {output} if the job writes a table.",
    ),
]
Registry = Annotated[
    bool,
    typer.Option(
        "--registry",
        help="Start a schema registry on the stack, if it has none: {registry} of --app, `io.registry`,"
        " TIDEMARK_REGISTRY.",
    ),
]
Pace = Annotated[str | None, typer.Option(help=f"One of {', '.join(PACES)}; default: the trace's own.")]
EvidenceFormat = Annotated[
    str,
    typer.Option(
        metavar="FORMAT",
        help="How trace, output and state are stored: jsonl, parquet, or auto:"
        " Parquet for a file of more than 500,000 records.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("run")(run_command)


def run_command(
    pipeline: Pipeline,
    seed: Annotated[int, typer.Option(help="What is generated, and when faults are injected.")] = 1,
    impressions: Annotated[int, typer.Option(min=1, help="How many impressions to generate.")] = 2_000,
    trace: Trace = None,
    pace: Pace = None,
    speed: Annotated[float, typer.Option(min=0.001, help="How many times real time, at pace timed.")] = 1.0,
    kill_executors: Annotated[
        int, typer.Option(min=0, help="The same as --faults executor*N: SIGKILL, while a batch runs.")
    ] = 0,
    kill_drivers: KillDrivers = 0,
    faults: Faults = "",
    sink: Sink = "exactly-once",
    spark: Annotated[Path | None, typer.Option(help="Interpreter with another PySpark to run on.")] = None,
    conf: Conf = None,
    app: App = "",
    functions: Functions = "",
    project: Project = None,
    py_files: PyFiles = None,
    jars: Jars = None,
    packages: Packages = None,
    registry: Registry = False,
    kafka_conf: KafkaConf = None,
    generate: Generate = "",
    accept: Accept = None,
    waive: Waive = None,
    run_dir: Evidence = None,
    evidence_format: EvidenceFormat = "auto",
    redact: Redact = False,
    redact_salt: RedactSalt = None,
    keep_checkpoint: KeepCheckpoint = False, standby: Standby = False,
    no_diagnosis: NoDiagnosis = False,
    recover_within: RecoverWithin = "", progress: Progress = "", watermark_stands: WatermarkStands = "",
    state_rows: StateRows = None, hung_after: HungAfter = "300s", as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run one join on a real stack, with late events and killed executors, and judge every row."""
    from tidemark.runner import RunOptions

    check_choice("--pace", pace, (None, *PACES))
    options = RunOptions(
        pipeline=pipeline, seed=seed, impressions=impressions, trace=trace, pace=pace, speed=speed,
        faults=with_kills(faults, kill_executors, kill_drivers), sink=sink, python=spark,
        conf=tuple(conf or ()), generator=tuple(shlex.split(generate)), run_dir=run_dir,
        accept=tuple(accept or ()), waive=tuple(waive or ()), evidence_format=evidence_format,
        app=app, functions=functions, project=project, py_files=tuple(py_files or ()),
        jars=tuple(jars or ()), packages=tuple(packages or ()), registry=registry,
        kafka_conf=kafka_conf, redact=redact, redact_salt=redact_salt, keep_checkpoint=keep_checkpoint, standby=standby,
        diagnosis=not no_diagnosis, **in_time(recover_within, progress, watermark_stands, state_rows, hung_after),
    )  # fmt: skip
    run_and_show(options, as_json=as_json)


def with_kills(faults: str, executors: int, drivers: int) -> str:
    """The schedule that ``--kill-executors``, ``--kill-drivers`` and ``--faults`` ask for together."""
    kills = (f"executor*{executors}" if executors else "", f"driver@written*{drivers}" if drivers else "")
    return ",".join(filter(None, (*kills, faults)))


def run_and_show(options: RunOptions, *, as_json: bool) -> None:
    """Run, with a live view on a terminal; print what came of it, and leave with its exit code."""
    from tidemark import runner
    from tidemark.runner.run_options import EVIDENCE_FORMATS, SINKS

    check_choice("--sink", options.sink, SINKS)
    check_choice("--evidence-format", options.evidence_format, EVIDENCE_FORMATS)
    check_salt(redact=options.redact, salt=options.redact_salt)
    directory: list[Path] = []
    title = f"{Path(options.pipeline).name}, seed {options.seed}"
    with run_shown(title, quiet=as_json) as (report, say, watch):
        shown = replace(options, report=report, say=say, watch=watch)
        try:
            result = runner.run_pipeline(shown, made=directory.append)
        except BaseException as error:
            if options.redact and was_interrupted(error):
                print("interrupted: no evidence is kept, since it was not redacted yet", file=sys.stderr)
                raise typer.Exit(EXIT_INTERRUPTED) from None
            if not (directory and was_interrupted(error)):
                raise
            print(f"interrupted; the evidence so far is in {directory[0]}", file=sys.stderr)
            if not isinstance(error, KeyboardInterrupt):
                print(f"and on the way out: {type(error).__name__}: {error}", file=sys.stderr)
            else:
                for note in getattr(error, "__notes__", ()):
                    print(f"and on the way out: {note}", file=sys.stderr)
            raise typer.Exit(EXIT_INTERRUPTED) from None
    _show(options, result, as_json=as_json)


def say_index(folder: Path) -> None:
    """Write the index of the runs that a campaign has left in a folder, and say where it is, on standard error."""
    from tidemark.reports.reported_runs import index_of_campaign

    if (index := index_of_campaign(folder)) is not None:
        typer.echo(f"report: {index}", err=True)


def was_interrupted(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or came of it: what a run undoes on its way out may fail in its turn."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _show(options: RunOptions, result: RunResult, *, as_json: bool) -> None:
    from tidemark.formats.evidence import RunDirectory
    from tidemark.reports import print_verdict

    faults = RunDirectory(result.run_dir).faults()
    if as_json:
        import msgspec

        shown = {
            **msgspec.to_builtins(result.verdict),
            "pipeline": options.pipeline,
            "seed": options.seed,
            "trace_sha256": result.trace_sha256,
            "run_dir": str(result.run_dir),
            "faults": msgspec.to_builtins(faults),
            "command": result.command,
        }
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
    else:
        digest, command = result.trace_sha256, result.command
        print_verdict(result.verdict, result.run_dir, faults, trace_sha256=digest, command=command)
    warn_without_report(result.run_dir)
    raise typer.Exit(result.verdict.exit_code)


def warn_without_report(run_dir: Path) -> None:
    """Say so if there is no page beside the verdict, which is there by default."""
    if not (run_dir / "report.html").is_file():
        print(
            f"warning: report.html could not be made; `tidemark report {run_dir}` says why", file=sys.stderr
        )


def check_salt(*, redact: bool, salt: Path | None) -> None:
    """Wrong usage, if there is a salt and nothing is redacted."""
    if salt is not None and not redact:
        raise typer.BadParameter("it is given without --redact", param_hint="--redact-salt")


def check_choice(option: str, value: str | None, choices: tuple[str | None, ...]) -> None:
    """Wrong usage, unless it is one of the choices."""
    if value not in choices:
        names = ", ".join(choice for choice in choices if choice)
        raise typer.BadParameter(f"{value!r} is not one of {names}", param_hint=option)


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[tuple[Report, Say]]:
    """Bars on a terminal, nothing elsewhere; and what says something above them, always to standard error."""
    if not is_live(quiet=quiet):
        yield (lambda _what, _done, _total: None), partial(print, file=sys.stderr)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(STEPS.get(what, what), total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield report, partial(progress.console.print, markup=False, highlight=False, soft_wrap=True)
