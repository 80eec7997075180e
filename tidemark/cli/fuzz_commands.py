"""``tidemark fuzz``: random joins over random traces with random restarts, each judged."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.run_commands import progress_shown, say_index
from tidemark.cli.shared_options import AsJson, Log, Resume, Summary, resumed
from tidemark.cli.shrink_commands import seconds_of, shrink_on
from tidemark.cli.stack_commands import SparkOption
from tidemark.errors import TidemarkError

if TYPE_CHECKING:
    from tidemark.campaigns.fuzz import Fuzz
    from tidemark.stack import Stack


ShrinkTime = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="How long to make each INVALID seed smaller, as `tidemark shrink`: 90s, 2m; 0: not.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("fuzz")(fuzz_command)


def fuzz_command(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 20,
    first: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    workers: Annotated[int, typer.Option(min=1, max=8, help="How many run at once, on one driver.")] = 2,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Do not stop at the first one that fails.")
    ] = False,
    spark: SparkOption = None,
    log: Log = None,
    resume: Resume = False,
    folder: Annotated[
        Path | None, typer.Option(help="Where evidence of failures stays; default: runs/fuzz.")
    ] = None,
    shrink: ShrinkTime = "2m",
    markdown: Summary = None,
    as_json: AsJson = False,
) -> None:
    """Generate a join, a trace and restarts from each seed, run it on a real stack, and judge every row.

    A seed fails if anything is found that is no known defect of Spark. Its evidence is kept, and the command that runs
    it again is printed; an INVALID one is made smaller, in a folder beside its evidence. With the PySpark of another
    interpreter (--spark) seeds are run without state formats that it has not, and with Spark's own sink.
    """
    from tidemark import paths
    from tidemark.campaigns.fuzz import campaign, fuzz, summary
    from tidemark.campaigns.warm_workers import WarmWorkers
    from tidemark.reports import fuzz_report
    from tidemark.reports.campaign_facts import FactsWriter
    from tidemark.stack import lease, spec_to_lease

    kept = folder or paths.runs_dir() / "fuzz"
    budget_s = 0.0 if shrink == "0" else seconds_of(shrink, "--shrink")
    seeded = campaign(journal=log, resume=resume, keep_going=keep_going)
    command = _typed(first, seeds, workers, keep_going=keep_going, spark=spark)
    more = resumed(command if folder is None else f"{command} --folder {shlex.quote(str(folder))}", log)
    page, versions = FactsWriter(kept), dict[str, str]()

    def so_far() -> fuzz_report.Fuzzed:
        outcomes = [*seeded.outcomes.values()]
        return fuzz_report.Fuzzed(outcomes, summary(outcomes), seeded.seconds, versions, command)

    seeded.ended = lambda _: page.note(lambda: fuzz_report.facts(so_far(), kept, seeds, more))
    with _index_of_what_ended(seeded, kept), lease(spec_to_lease(spark)) as stack:
        versions.update(stack.versions)
        with progress_shown(quiet=as_json) as (seeded.report, seeded.say):
            fuzz(range(first, first + seeds), WarmWorkers(stack, kept, workers), seeded)
            if budget_s and not seeded.interrupted:
                _shrink_failures(seeded, stack, budget_s)
    shown = so_far()
    page.end(fuzz_report.facts(shown, kept, seeds, more), complete=not seeded.interrupted)
    if markdown is not None and not seeded.interrupted:
        markdown.write_text(fuzz_report.markdown(shown), encoding="utf-8")
    (_print_json if as_json else _print)(seeded, shown.summary)
    say_index(kept)
    raise typer.Exit(seeded.exit_code)


@contextmanager
def _index_of_what_ended(seeded: Fuzz, folder: Path) -> Iterator[None]:
    """Write the index also if a worker cannot go on."""
    try:
        yield
    except TidemarkError:
        if seeded.outcomes:
            say_index(folder)
        raise


def _typed(first: int, seeds: int, workers: int, *, keep_going: bool, spark: Path | None) -> str:
    """The command of a fuzz, with what decides which seeds are run."""
    command = f"tidemark fuzz --first {first} --seeds {seeds} --workers {workers}"
    command += " --keep-going" if keep_going else ""
    return command + (" --spark PYTHON" if spark is not None else "")


def _shrink_failures(seeded: Fuzz, stack: Stack, budget_s: float) -> None:
    """Make what failed in this process smaller; what cannot be is said, and changes no outcome."""
    from tidemark.campaigns.random_cases import generate
    from tidemark.campaigns.shrink.red_run import red_run_of_case
    from tidemark.campaigns.shrink.shrink_campaign import ShrinkOptions
    from tidemark.formats.evidence import RunDirectory

    for outcome in seeded.failures:
        if outcome.verdict != "INVALID" or outcome.run_dir is None or str(outcome.seed) in seeded.earlier:
            continue
        run = RunDirectory(Path(outcome.run_dir))
        folder = run.path.with_name(f"{run.path.name}-shrunk")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            red = red_run_of_case(run, generate(outcome.seed))
            found, _ = shrink_on(stack, red, ShrinkOptions(folder, budget_s, say=seeded.say))
            seeded.say(f"seed {outcome.seed}: {found.before}; made smaller: {found.after}; {folder}")
        except KeyboardInterrupt:
            seeded.say(f"interrupted; the best so far of seed {outcome.seed} is in {folder}")
            return
        except TidemarkError as error:
            seeded.say(f"seed {outcome.seed} was not made smaller: {error}")


def _print_json(seeded: Fuzz, summary: Mapping[str, Mapping[str, int]]) -> None:
    import msgspec

    told = {
        "seeds": len(seeded.outcomes),
        "seconds": round(seeded.seconds, 3),
        "summary": summary,
        "failures": msgspec.to_builtins(seeded.failures),
    }
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")


def _print(seeded: Fuzz, summary: Mapping[str, Mapping[str, int]]) -> None:
    for sort, counts in summary.items():
        typer.echo(f"{sort:8} " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    times = sorted(one.seconds for one in seeded.outcomes.values())
    if times:
        middle = times[len(times) // 2]
        typer.echo(
            f"seconds  min {times[0]:.1f}, median {middle:.1f}, max {times[-1]:.1f}, all {seeded.seconds:.1f}"
        )
    for outcome in sorted(seeded.failures, key=lambda one: one.seed):
        typer.echo(f"\nseed {outcome.seed} ({outcome.kind}, {outcome.bound}): {outcome.verdict}")
        typer.echo(f"  {outcome.problem}\n  evidence: {outcome.run_dir}")
        typer.echo(f"  reproduce: tidemark fuzz --first {outcome.seed} --seeds 1")
    typer.echo(f"\n{len(seeded.outcomes) - len(seeded.failures)} of {len(seeded.outcomes)} seeds hold")
