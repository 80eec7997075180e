"""Runs the chaos tests of every day so many times in a row: ``python -m tests.chaos --times 20``.

One that fails ends it; so does anything that a run has left: a process of a stack, frozen or not, or a folder with its
ports and leases. ``AGAIN.md`` is written only if all runs held. Those that held so far are in ``again.jsonl``, where
``--resume`` goes on if nothing of the code has changed, on this machine or another; one that fails removes it, for the
row is broken. Logs and counts are in ``build/chaos``. With ``--long`` those of ``make long`` run, too, and the
document is written there. Exit code 0 if they held, 1 if not, 130 after Ctrl-C. Words after ``--`` are handed to
pytest: they say how tests are run (``-n 3``), never which.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import median

import psutil
from msgspec.structs import replace

from tests.long import Done, Part, campaign, duration, machine, must_select_nothing, read_junit, run
from tidemark import paths
from tidemark.errors import DeadlineExceeded, UsageError
from tidemark.reports.markdown import table
from tidemark.waiting import wait_until

DOCUMENT = Path(__file__).parents[1] / "results" / "AGAIN.md"
KEPT = Path(__file__).with_name("again.jsonl")
MARK = "TIDEMARK_CHAOS_TESTS"
"""In the environment of what a run starts, but for stacks: those run in their folders."""
MADE = (
    "Made by `make chaos`: those of every day, so many times in a row; written only if none failed and nothing was "
    "left of any: no process, frozen or not, no port, no lease."
)
GONE_S = 60.0
"""Calibration: what pytest leaves behind ends with it; a worker of a killed executor within 1 s."""


def main(arguments: list[str]) -> int:
    """Run them, print what became of each run, and write the document if all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how many runs in a row (default: 20)")
    parser.add_argument("--resume", action="store_true", help=f"go on after the runs in {KEPT.name}")
    parser.add_argument("--long", action="store_true", help="also the chaos tests of `make long`")
    parser.add_argument("words", nargs="*", metavar="-- WORDS", help="how pytest runs the tests")
    args = parser.parse_args(arguments)
    if args.times < 1:
        parser.error(f"--times {args.times}: there is nothing to run")
    must_select_nothing(parser, args.words)
    if there := list(left()):
        parser.error(f"{there[0]} is there before the first run; end it: `make down`")
    os.chdir(paths.root())
    os.environ[MARK] = str(os.getpid())
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends this ends the run, too
    logs = Path("build", "chaos")
    logs.mkdir(parents=True, exist_ok=True)
    marked = "chaos" if args.long else "chaos and not long"
    where, runs = machine(), [run_of(number, marked, args.words, logs) for number in range(1, args.times + 1)]
    kept = logs / KEPT.name if args.long else KEPT
    try:
        held = campaign(marked, kept, resume=args.resume, keep_going=False)
    except UsageError as error:
        parser.error(str(error))
    held.run(runs, lambda part: once(part, args.times, where))
    if held.failures:
        kept.unlink(missing_ok=True)
    elif held.interrupted:
        print(f"interrupted after {len(held.outcomes)} of {args.times} runs, which held; go on with --resume")
    document = logs / DOCUMENT.name if args.long else DOCUMENT
    return held.finish(document, lambda: text([*held.outcomes.values()]))


def run_of(number: int, marked: str, words: Sequence[str], logs: Path) -> Part:
    """A run of the chaos tests that are so marked; words are pytest's."""
    counted = logs / f"{number}.xml"
    argv = (sys.executable, "-m", "pytest", *words, "-m", marked, f"--junit-xml={counted}")
    return Part(f"run {number}", "the chaos tests", argv, counted, read_junit)


def once(part: Part, times: int, where: str) -> Done:
    """Run them once; a run that leaves something behind does not hold."""
    part.counted.unlink(missing_ok=True)
    print(f"== {part.name} of {times}: {part.command}", flush=True)
    done = run(part, part.counted.with_suffix(".log"))
    if not done.problem and (problem := must_be_gone()):
        done = replace(done, tally=replace(done.tally, problem=problem))
    said = f"{done.problem or 'held'}; {duration(done.seconds)}; {done.counted}"
    print(f"== {part.name} of {times}: {said}", flush=True)
    return replace(done, date=datetime.now(UTC).date().isoformat(), machine=where)


def must_be_gone() -> str:
    """Wait until nothing is left of a run; says what is, if something is."""
    found: list[str] = []

    def nothing() -> bool:
        found[:] = left()
        return not found

    try:
        wait_until(nothing, GONE_S, lambda: "an end of all that the run started", poll_s=1.0)
    except DeadlineExceeded:
        return f"left behind: {'; '.join(found)}"
    return ""


def left() -> Iterator[str]:
    """What there is of stacks, whose folders say who leases them, and of other processes that a run started.

    A process that listens at a port is one of these.
    """
    for record in sorted(paths.state_dir().glob("**/stack/stack.json")):
        yield f"stack {record.parent}"
    own = os.getpid()
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            is_marked = process.pid != own and process.environ().get(MARK) == str(own)
            if is_marked or Path(process.cwd()).is_relative_to(paths.state_dir()):
                yield f"process {process.pid}, {process.status()}: {' '.join(process.cmdline())[:120]}"


def text(held: Sequence[Done]) -> str:
    """The document."""
    seconds = [run.seconds for run in held]
    least, middle, most = (duration(figure(seconds)) for figure in (min, median, max))
    rows = [(number, duration(run.seconds), run.counted) for number, run in enumerate(held, 1)]
    lines = [
        "# The chaos tests, again and again",
        "",
        MADE,
        "",
        f"**{len(held)} runs**, {least} to {most} each, median {middle}.",
        "",
        *_sittings(held),
        "",
        *table(("run:", "time:", "counted"), rows),
    ]
    return "\n".join(lines) + "\n"


def _sittings(held: Sequence[Done]) -> Iterator[str]:
    """Which runs were on what machine, and when."""
    number = 1
    for (date, where), runs in groupby(held, lambda run: (run.date, run.machine)):
        last = number + len(list(runs)) - 1
        yield (
            f"- Runs {number} to {last}: {date}, {where}."
            if last > number
            else f"- Run {number}: {date}, {where}."
        )
        number = last + 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
