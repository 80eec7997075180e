"""``tidemark fuzz``: random joins over random traces with random restarts, each judged."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.run_commands import progress_shown, say_index
from tidemark.cli.shared_options import AsJson, Log, Resume, Summary, resumed
from tidemark.cli.shrunk_failures import RedItem, ShrinkTime, shrink_budget, shrink_items
from tidemark.cli.stack_commands import SparkOption
from tidemark.errors import TidemarkError

if TYPE_CHECKING:
    from tidemark.campaigns.fuzz import Fuzz
    from tidemark.campaigns.shrink.red_run import RedRun


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

    kept, budget_s = folder or paths.runs_dir() / "fuzz", shrink_budget(shrink)
    seeded = campaign(journal=log, resume=resume, keep_going=keep_going)
    command = _typed(first, seeds, workers, keep_going=keep_going, spark=spark)
    more = resumed(_on_this_machine(command, spark, folder), log)
    page, versions = FactsWriter(kept), dict[str, str]()

    def so_far() -> fuzz_report.Fuzzed:
        outcomes = [*seeded.outcomes.values()]
        return fuzz_report.Fuzzed(outcomes, summary(outcomes), seeded.seconds, versions, command)

    seeded.ended = lambda _: page.note(lambda: fuzz_report.facts(so_far(), kept, seeds, more))
    with _index_of_what_ended(seeded, kept), lease(spec_to_lease(spark)) as stack:
        versions.update(stack.versions)
        with progress_shown(quiet=as_json) as (seeded.report, seeded.say):
            fuzz(range(first, first + seeds), WarmWorkers(stack, kept, workers), seeded)
            shrink_items(_found(seeded), stack, budget_s, seeded.say)
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
    """The command of a fuzz, with what decides which seeds are run; a document names no path of this machine."""
    command = f"tidemark fuzz --first {first} --seeds {seeds} --workers {workers}"
    command += " --keep-going" if keep_going else ""
    return command + (" --spark PYTHON" if spark is not None else "")


def _on_this_machine(command: str, spark: Path | None, folder: Path | None) -> str:
    """The same command with its paths."""
    if spark is not None:
        command = command.replace("--spark PYTHON", f"--spark {shlex.quote(str(spark))}")
    return command if folder is None else f"{command} --folder {shlex.quote(str(folder))}"


def _found(seeded: Fuzz) -> Iterator[RedItem]:
    """The seeds of a fuzz that was not interrupted that are INVALID, without those of an earlier process."""
    from tidemark.campaigns.random_cases import generate
    from tidemark.campaigns.shrink.red_run import red_run_of_case
    from tidemark.formats.evidence import RunDirectory

    def read(path: Path, seed: int) -> RedRun:
        return red_run_of_case(RunDirectory(path), generate(seed))

    for one in [] if seeded.interrupted else seeded.failures:
        if one.verdict == "INVALID" and one.run_dir is not None and str(one.seed) not in seeded.earlier:
            yield RedItem(f"seed {one.seed}", Path(one.run_dir), partial(read, seed=one.seed))


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
