"""``tidemark fuzz``: random joins over random traces with random restarts, each judged."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.shared_options import AsJson, Summary
from tidemark.errors import EXIT_INVALID, EXIT_VALID

if TYPE_CHECKING:
    from tidemark.campaigns.fuzz import Outcome, Progress


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("fuzz")(fuzz_command)


def fuzz_command(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 20,
    first: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    lanes: Annotated[int, typer.Option(min=1, max=8, help="How many run at once, on one driver.")] = 2,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Do not stop at the first one that fails.")
    ] = False,
    log: Annotated[Path | None, typer.Option(help="A JSON line for each seed goes there.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where evidence of failures stays; default: runs/fuzz.")
    ] = None,
    markdown: Summary = None,
    as_json: AsJson = False,
) -> None:
    """Draw a join, a trace and restarts from each seed, run it on a real stack, and judge every row.

    A seed fails if anything is found that is no known defect of Spark. Its evidence is kept, and the command that runs
    it again is printed.
    """
    from tidemark import paths
    from tidemark.campaigns.fuzz import fuzz
    from tidemark.campaigns.warm_workers import Lanes
    from tidemark.report import fuzz_report as summary
    from tidemark.stack import lease, spec_to_lease

    chosen = folder or paths.runs_dir() / "fuzz"
    with lease(spec_to_lease()) as stack, _telling(seeds, log, quiet=as_json) as say:
        ways = Lanes(stack, chosen, lanes)
        progress = fuzz(range(first, first + seeds), ways, keep_going=keep_going, say=say)
    if markdown is not None:
        command = f"tidemark fuzz --first {first} --seeds {seeds} --lanes {lanes}"
        command += " --keep-going" if keep_going else ""
        markdown.write_text(summary.markdown(progress, stack.versions, command), encoding="utf-8")
    if as_json:
        import msgspec

        failures = msgspec.to_builtins(progress.failures)
        shown = {
            "seeds": len(progress.outcomes),
            "seconds": progress.seconds,
            "summary": progress.summary(),
            "failures": failures,
        }
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
    else:
        _print(progress)
    raise typer.Exit(EXIT_INVALID if progress.failures else EXIT_VALID)


def _print(progress: Progress) -> None:
    for sort, counts in progress.summary().items():
        typer.echo(f"{sort:8} " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    times = sorted(one.seconds for one in progress.outcomes)
    if times:
        middle = times[len(times) // 2]
        typer.echo(
            f"seconds  min {times[0]:.1f}, median {middle:.1f}, max {times[-1]:.1f}, all {progress.seconds:.1f}"
        )
    for outcome in progress.failures:
        typer.echo(f"\nseed {outcome.seed} ({outcome.kind}, {outcome.bound}): {outcome.verdict}")
        typer.echo(f"  {outcome.problem}\n  evidence: {outcome.run_dir}")
        typer.echo(f"  reproduce: tidemark fuzz --first {outcome.seed} --seeds 1")
    holding = sum(one.holds for one in progress.outcomes)
    typer.echo(f"\n{holding} of {len(progress.outcomes)} seeds hold")


@contextmanager
def _telling(seeds: int, log: Path | None, *, quiet: bool) -> Iterator[Callable[[Outcome], None]]:
    """A bar on a terminal, and a line for each seed in the log."""
    import msgspec
    from rich.console import Console
    from rich.progress import Progress as Bar

    encode = msgspec.json.Encoder().encode
    is_quiet = quiet or not sys.stderr.isatty()
    with Bar(console=Console(stderr=True), disable=is_quiet) as bar:
        task = bar.add_task("seeds judged", total=seeds)

        def say(outcome: Outcome) -> None:
            bar.advance(task)
            if log is not None:
                with log.open("ab") as file:
                    file.write(encode(outcome) + b"\n")

        yield say
