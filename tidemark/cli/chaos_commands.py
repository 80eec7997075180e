"""``tidemark chaos``: one run with a schedule of faults. ``tidemark soak``: one after the other for so many minutes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.live_view import run_shown
from tidemark.cli.run_commands import check_choice, run_and_show, say_index
from tidemark.cli.shared_options import (
    Accept,
    AsJson,
    Conf,
    Evidence,
    Generate,
    HungAfter,
    KeepCheckpoint,
    Log,
    NoDiagnosis,
    Pipeline,
    Progress,
    RecoverWithin,
    Redact,
    RedactSalt,
    Resume,
    Sink,
    Standby,
    StateRows,
    Summary,
    Trace,
    Waive,
    WatermarkStands,
    in_time,
    resumed,
)
from tidemark.cli.shrunk_failures import RedItem, ShrinkTime, shrink_budget, shrink_items
from tidemark.formats.faults import CommitPoint, FaultAction, FaultComponent, fault_label

if TYPE_CHECKING:
    from tidemark.campaigns.soak import Soak, SoakOptions, SoakRun
    from tidemark.reports.soak_report import Asked
    from tidemark.stack import StackSpec

EVERY_POINT = (
    "driver@planned,driver@half-written,driver@written,driver@no-data,executor@half-written,executor@no-data,"
    "worker,broker"
)
"""Each component, and each point that a batch comes to for long enough to be met in the first one that is tried."""

SHRINK = "10m"
"""How long each run with a finding is made smaller, if nothing is said."""

Schedule = Annotated[
    str,
    typer.Option(
        help="COMPONENT[:ACTION[=AMOUNT]]\\[@POINT][~SECONDS][*COUNT or *until=30s], joined by commas; "
        "faults that overlap by +. "
        f"Components: {', '.join(FaultComponent)}; actions: {', '.join(FaultAction)}; "
        f"points: {', '.join(CommitPoint)}."
    ),
]

InTurn = Annotated[
    list[str] | None, typer.Option(help="A pipeline, or FILE.py; repeatable. Default: the five joins.")
]
SinksInTurn = Annotated[
    list[str] | None, typer.Option(help="exactly-once or spark; repeatable. Default: both.")
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("chaos")(chaos_command)
    app.command("soak")(soak_command)


def chaos_command(
    pipeline: Pipeline,
    faults: Schedule = EVERY_POINT,
    seed: Annotated[int, typer.Option(help="What is generated, and which batches are hit.")] = 1,
    impressions: Annotated[int, typer.Option(min=1, help="How many impressions to generate.")] = 5_000,
    trace: Trace = None,
    sink: Sink = "exactly-once",
    conf: Conf = None,
    generate: Generate = "",
    accept: Accept = None,
    waive: Waive = None,
    run_dir: Evidence = None,
    redact: Redact = False,
    redact_salt: RedactSalt = None,
    keep_checkpoint: KeepCheckpoint = False,
    standby: Standby = False,
    no_diagnosis: NoDiagnosis = False,
    recover_within: RecoverWithin = "",
    progress: Progress = "",
    watermark_stands: WatermarkStands = "",
    state_rows: StateRows = None,
    hung_after: HungAfter = "300s",
    as_json: AsJson = False,
) -> None:
    """Run one join on a real stack, inject faults at named commit points, and judge every row.

    A process is paused, checkpoint, ledger and end offsets are read, and the fault is injected only if the batch is at
    its point; `faults.jsonl` in the run directory has the proof. A fault that was not injected makes the run UNKNOWN.
    """
    from tidemark.errors import UsageError
    from tidemark.faults.schedule import read_schedule
    from tidemark.runner import RunOptions

    if not read_schedule(faults):
        raise UsageError("--faults names no fault", hint=f"for example: --faults {EVERY_POINT}")
    options = RunOptions(
        pipeline=pipeline, seed=seed, impressions=impressions, trace=trace, faults=faults, sink=sink,
        conf=tuple(conf or ()), generator=tuple(shlex.split(generate)), run_dir=run_dir,
        accept=tuple(accept or ()), waive=tuple(waive or ()), redact=redact,
        redact_salt=redact_salt, keep_checkpoint=keep_checkpoint, standby=standby, diagnosis=not no_diagnosis,
        **in_time(recover_within, progress, watermark_stands, state_rows, hung_after),
    )  # fmt: skip
    run_and_show(options, as_json=as_json)


def soak_command(
    minutes: Annotated[float, typer.Option(min=0.1, help="For how long; a run that has begun is completed.")] = 30.0,
    seed: Annotated[int, typer.Option(help="What is generated, and which faults are injected.")] = 1,
    impressions: Annotated[int, typer.Option(min=1, help="Impressions of each run.")] = 20_000,
    faults: Annotated[int, typer.Option(min=1, help="Faults of each run.")] = 12,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this fault, COMPONENT[:ACTION][@POINT]: broker:cut, or driver@written; repeatable."),
    ] = None,
    pipeline: InTurn = None, sink: SinksInTurn = None, folder: Evidence = None, shrink: ShrinkTime = SHRINK,
    keep_checkpoint: KeepCheckpoint = False, recover_within: RecoverWithin = "", progress: Progress = "",
    watermark_stands: WatermarkStands = "", state_rows: StateRows = None, hung_after: HungAfter = "300s",
    markdown: Summary = None, log: Log = None, resume: Resume = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run after run under faults at named commit points, on one stack, until the time is over.

    Join, sink, input and state store change from run to run: docs/howto/inject-faults.md.
    Afterwards each run with a finding that is no known defect of Spark is made smaller, beside its evidence.
    Exit code 0 if nothing was found that is no known defect of Spark, no run failed and at most one fault in twenty
    was not injected; 1 if something was found; 3 if not, but more failed; 4 if the stack was stopped; 130 after Ctrl-C.
    """
    from tidemark.campaigns.soak import JOINS, SoakOptions, soak
    from tidemark.reports import soak_report as shown
    from tidemark.reports.campaign_facts import FactsWriter
    from tidemark.stack import lease, spec_to_lease

    budget_s = shrink_budget(shrink)
    options = SoakOptions(
        folder or _soak_folder(seed, log if resume else None), minutes, seed, impressions, faults,
        pipeline or JOINS, _known_sinks(sink), tuple(only or ()), log, resume, keep_checkpoint,
        in_time=in_time(recover_within, progress, watermark_stands, state_rows, hung_after),
    )  # fmt: skip
    command = _typed(options, pipeline or (), sink or (), markdown)
    with (
        lease(spec_to_lease()) as stack,
        run_shown("soak", quiet=False, names_runs=True) as (report, say, watch),
    ):
        versions, asked = dict(stack.versions), _asked(command, stack.spec, options.only)
        kept, more = FactsWriter(options.folder), resumed(command + _shrinking(shrink), log)

        def ended(every: Soak, one: SoakRun) -> None:
            say(f"{shown.run_line(one)}\n{shown.so_far(every)}")
            kept.note(lambda: shown.facts(every, versions, asked, more))

        done = soak(replace(options, report=report, say=say, watch=watch), stack, ended)
        try:
            shrink_items(_found(done), stack, budget_s, say)
        finally:
            kept.end(shown.facts(done, versions, asked, more), complete=done.over)
    if markdown is not None:
        _write(markdown, done, versions, asked)
    _print(done, options.folder, as_json=as_json)
    raise typer.Exit(_exit_code(done))


def _shrinking(shrink: str) -> str:
    return "" if shrink == SHRINK else f" --shrink {shlex.quote(shrink)}"


def _exit_code(done: Soak) -> int:
    """That of a soak; raises ``TestbedError`` if its stack was stopped, unless a run before had a finding."""
    from tidemark.errors import EXIT_INTERRUPTED, EXIT_INVALID, TestbedError

    if done.gone and done.exit_code != EXIT_INVALID:
        more = "go on with --resume" if done.options.log else "begin again, with --log so that it could go on"
        raise TestbedError(
            "the stack of the soak is gone",
            detail="it was stopped during the soak; the summary above has the runs that were done",
            hint=f"start another with `tidemark up`, and {more}",
        )
    return done.exit_code if done.over or done.exit_code == EXIT_INVALID else EXIT_INTERRUPTED


def _known_sinks(asked: Sequence[str] | None) -> Sequence[str]:
    """The sinks that are asked for, or all; raises ``BadParameter`` for one that there is not."""
    from tidemark.runner.run_options import SINKS

    for one in asked or ():
        check_choice("--sink", one, SINKS)
    return asked or SINKS


def _found(done: Soak) -> Iterator[RedItem]:
    """The runs of a soak that is over in which something was found that is no known defect."""
    from tidemark.campaigns.shrink.red_run import read_red_run

    for one in done.runs if done.over else ():
        if one.findings and Path(one.run_dir).is_dir():
            yield RedItem(f"run {one.number}", Path(one.run_dir), read_red_run)


def _write(markdown: Path, done: Soak, versions: Mapping[str, str], asked: Asked) -> None:
    """Write the document of a soak that lasted its time."""
    from tidemark.reports import soak_report as shown

    if not done.over:
        typer.echo(f"{markdown} is left as it was: the time was not over", err=True)
        return
    markdown.write_text(shown.markdown(done, versions, asked), encoding="utf-8")


def _soak_folder(seed: int, journal: Path | None) -> Path:
    """A new folder below runs/; of a soak that goes on, the one of its journal, so that all its runs are together."""
    from tidemark import paths
    from tidemark.campaigns.campaign import journalled_folder
    from tidemark.campaigns.soak import SoakRun

    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return journalled_folder(journal, SoakRun) or paths.runs_dir() / f"soak-{stamp}-{seed}"


def _print(done: Soak, folder: Path, *, as_json: bool) -> None:
    from tidemark.reports import soak_report as shown

    if as_json:
        import msgspec

        details = {
            "coverage": done.coverage(),
            "overlapping": done.overlapping(),
            "recovery": done.recovery(),
            "runs": done.runs,
        }
        sys.stdout.write(msgspec.json.encode({**done.summary(), **details}).decode() + "\n")
    else:
        typer.echo("\n".join(shown.lines(done)))
    say_index(folder)


def _typed(
    options: SoakOptions, pipelines: Sequence[str], sinks: Sequence[str], markdown: Path | None = None
) -> str:
    """The command of a soak, with what has a default and decides what is run."""
    words = ["tidemark", "soak", "--minutes", f"{options.minutes:g}", "--seed", str(options.seed)]
    words += ["--impressions", str(options.impressions), "--faults", str(options.faults)]
    words += [word for one in pipelines for word in ("--pipeline", one)]
    words += [word for one in sinks for word in ("--sink", one)]
    words += [word for one in options.only for word in ("--only", one)]
    words += ["--keep-checkpoint"] if options.keep_checkpoint else []
    words += options.words_of_time
    return shlex.join([*words, *([] if markdown is None else ["--markdown", str(markdown)])])


def _asked(command: str, spec: StackSpec, only: Sequence[str]) -> Asked:
    """What was typed, every fault and every pair that a soak draws from on a stack, and what the stack cannot have."""
    from tidemark.campaigns.soak import INPUTS
    from tidemark.campaigns.soak_faults import can_be_drawn, chosen_faults
    from tidemark.faults.overlaps import drawn_pairs
    from tidemark.reports import soak_report as shown
    from tidemark.runner.possible_faults import possible_link_faults

    can = partial(can_be_drawn, links=possible_link_faults(spec.backend), brokers=spec.brokers)
    labels = {part: fault_label(part.component, part.action) for part in chosen_faults(only)}
    possible = {part: label for part, label in labels.items() if can(part)}
    pairs = [(first.label, then.label) for first, then in drawn_pairs() if {first, then} <= possible.keys()]
    known = [(label, part.point) for part, label in possible.items()]
    on = f"backend {spec.backend}, {spec.brokers} broker{'s' if spec.brokers > 1 else ''}"
    return shown.Asked(
        command, known, pairs, sorted({*labels.values()} - {*possible.values()}), INPUTS, stack=on
    )
