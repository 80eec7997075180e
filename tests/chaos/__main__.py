"""Runs the chaos tests of every day so many times in a row: ``python -m tests.chaos --times 20``.

One that fails ends it; so does anything that a run has left: a process of a stack, frozen or not, or a folder with its
ports and leases. ``AGAIN.md`` is written only if all runs held. Those that held so far are in ``again.jsonl``, where
``--resume`` goes on if nothing of the code has changed, on this machine or another; one that fails removes it, for the
row is broken. Logs and counts are in ``build/chaos``. Exit code 0 if they held, 1 if not, 130 after Ctrl-C. Words after
``--`` are handed to pytest: they say how tests are run (``-n 3``), never which.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import median

import msgspec
import psutil

from tests.long import Done, Part, duration, machine, must_select_nothing, read_junit, run
from tidemark import paths
from tidemark.errors import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_VALID, DeadlineExceeded
from tidemark.waiting import wait_until

DOCUMENT = Path(__file__).parents[1] / "results" / "AGAIN.md"
KEPT = Path(__file__).with_name("again.jsonl")
MARK = "TIDEMARK_CHAOS_TESTS"
"""In the environment of what a run starts, but for stacks: those run in their folders."""
GONE_S = 60.0
"""Calibration: what pytest leaves behind ends with it; a worker of a killed executor within 1 s."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A line of ``again.jsonl``: a run that held; the digest is of code, tests and lock."""

    date: str
    machine: str
    code_sha256: str
    seconds: float
    counted: str


def main(arguments: list[str]) -> int:
    """Run them, print what became of each run, and write the document if all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how many runs in a row (default: 20)")
    parser.add_argument("--resume", action="store_true", help=f"go on after the runs in {KEPT.name}")
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
    code, where = digest(), machine()
    held = earlier(parser, code) if args.resume else []
    if not args.resume:
        KEPT.unlink(missing_ok=True)
    with suppress(KeyboardInterrupt):
        for number in range(len(held) + 1, args.times + 1):
            done = _once(number, args.times, args.words, logs)
            if done.problem:
                KEPT.unlink(missing_ok=True)
                return EXIT_INVALID
            held.append(_keep(done, code, where))
    if len(held) < args.times:
        print(f"interrupted after {len(held)} of {args.times} runs, which held; go on with --resume")
        return EXIT_INTERRUPTED
    DOCUMENT.write_text(text(held), encoding="utf-8")
    print(f"written: {DOCUMENT}")
    return EXIT_VALID


def digest() -> str:
    """The SHA-256 of the code, its tests, and the lock of what they run with."""
    known, root = hashlib.sha256(paths.code_sha256().encode()), paths.root()
    for path in (root / "requirements.lock", *sorted(root.glob("tests/**/*.py"))):
        known.update(f"{path.relative_to(root)}\0".encode())
        known.update(path.read_bytes())
    return known.hexdigest()


def earlier(parser: argparse.ArgumentParser, code: str) -> list[Held]:
    """The runs that held before, with this very code."""
    try:
        held = msgspec.json.Decoder(Held).decode_lines(KEPT.read_bytes())
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as error:
        parser.error(f"{KEPT} cannot be read ({error}); begin a new row without --resume")
    if changed := [number for number, run in enumerate(held, 1) if run.code_sha256 != code]:
        parser.error(f"run {changed[0]} in {KEPT} was of other code; begin a new row without --resume")
    return held


def _keep(done: Done, code: str, where: str) -> Held:
    held = Held(
        date=datetime.now(UTC).date().isoformat(),
        machine=where,
        code_sha256=code,
        seconds=round(done.seconds, 1),
        counted=done.counted,
    )
    with KEPT.open("ab") as file:
        file.write(msgspec.json.encode(held) + b"\n")
    return held


def _once(number: int, times: int, words: Sequence[str], logs: Path) -> Done:
    counted = logs / f"{number}.xml"
    counted.unlink(missing_ok=True)
    argv = (sys.executable, "-m", "pytest", *words, "-m", "chaos and not long", f"--junit-xml={counted}")
    print(f"== run {number} of {times}: {' '.join(argv[1:])}", flush=True)
    done = run(Part(f"run {number}", "the chaos tests", argv, counted, read_junit), logs / f"{number}.log")
    problem = done.problem or must_be_gone()
    print(
        f"== run {number} of {times}: {problem or 'held'}; {duration(done.seconds)}; {done.counted}",
        flush=True,
    )
    return done if done.problem or not problem else _failed(done, problem)


def _failed(done: Done, problem: str) -> Done:
    return replace(done, tally=replace(done.tally, problem=problem))


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


def text(held: Sequence[Held]) -> str:
    """The document."""
    seconds = [run.seconds for run in held]
    least, middle, most = (duration(figure(seconds)) for figure in (min, median, max))
    made = (
        "Made by `make chaos`: those of every day, so many times in a row; written only if none failed and nothing was "
        "left of any: no process, frozen or not, no port, no lease."
    )
    lines = [
        "# The chaos tests, again and again",
        "",
        made,
        "",
        f"**{len(held)} runs**, {least} to {most} each, median {middle}.",
        "",
        *_sittings(held),
        "",
        "| run | time | counted |",
        "|---:|---:|---|",
    ]
    lines += [f"| {number} | {duration(run.seconds)} | {run.counted} |" for number, run in enumerate(held, 1)]
    return "\n".join(lines) + "\n"


def _sittings(held: Sequence[Held]) -> Iterator[str]:
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
