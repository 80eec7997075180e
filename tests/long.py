"""Runs what is too long for every day, part after part, and writes down how it went: ``python -m tests.long``.

The tests that are marked ``long``; those of them that need the machine to themselves, because a rate is what they show;
the mutants, and the matrix. What a part prints goes to the screen and, with what it counted, to ``build/long``.
A part that fails does not stop the next; ``tests/results/LONG.md`` is written only if all were run and held.
``--resume`` does
not repeat a part that held with the code of today. Exit code 0 if they held, 1 if one did not, 130 after Ctrl-C, which
ends the running part in order. Words after ``--`` are handed to pytest: they say how tests are run (``-n 3``), never
which; those that need the machine to themselves are run one after the other.
"""

from __future__ import annotations

import argparse
import ast
import functools
import os
import platform
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO
from xml.etree import ElementTree as ET

import msgspec
import psutil

from tests.matrix.cells import cells
from tests.matrix.running import Outcome
from tests.mutants.__main__ import SELECTING
from tests.mutants.score import PROPERTY, Line, summary
from tidemark import paths
from tidemark.campaigns.campaign import Campaign, read_journal
from tidemark.errors import UsageError
from tidemark.reports.markdown import table

DOCUMENT = Path(__file__).parent / "results" / "LONG.md"
AIM_MINUTES = 90
END_S = 120.0
"""Calibration: an interrupted pytest ends its workers and its stack within 30 s on a busy machine."""
REST_S = 5.0
"""Calibration: what a part printed last is read in milliseconds; longer only if it left somebody who holds its pipe."""


class Tally(msgspec.Struct, frozen=True):
    """What a part counted, by name; ``problem`` says why that does not show that the part held."""

    counts: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Part:
    """One part: the program, the file in which it counts, and how that is read."""

    name: str
    what: str
    argv: tuple[str, ...]
    counted: Path
    read: Callable[[Path], Tally]

    @property
    def command(self) -> str:
        """As it is typed in the project's folder."""
        return shlex.join(["python", *self.argv[1:]])


class Done(msgspec.Struct, frozen=True):
    """What became of a part; ``date`` and ``machine`` where they are not the same for all."""

    name: str
    seconds: float
    tally: Tally
    date: str = ""
    machine: str = ""

    @property
    def problem(self) -> str:
        """Why it did not hold; empty if it did."""
        return self.tally.problem

    @property
    def counted(self) -> str:
        """Its counts in a line."""
        return ", ".join(f"{count:,} {name}" for name, count in self.tally.counts.items())


def campaign(name: str, journal: Path, *, resume: bool, keep_going: bool = True) -> Campaign[Part, Done]:
    """The campaign of parts, of which one that failed is run again by ``resume``."""
    return Campaign(
        name, Done, lambda done: not done.problem, lambda part: part.name, journal=journal, resume=resume,
        keep_going=keep_going, keep_failures=False, say=print,
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the parts that are asked for; all, if none is named."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=[part.name for part in parts(Path())],
        help="this part; writes no document",
    )
    parser.add_argument("--resume", action="store_true", help="leave out what held with the same code")
    parser.add_argument("words", nargs="*", metavar="-- WORDS", help="how pytest runs the tests")
    args = parser.parse_args(arguments)
    must_select_nothing(parser, args.words)
    logs = Path("build", "long")
    chosen = [part for part in parts(logs, args.words) if part.name in (args.only or part.name)]
    os.chdir(paths.root())
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends this ends the part, too
    try:
        return carry_out(chosen, logs, None if args.only else DOCUMENT, resume=args.resume)
    except UsageError as error:
        parser.error(str(error))


def must_select_nothing(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Refuse words for pytest that choose tests: a document would tell of fewer than it says."""
    if any(word.startswith((*SELECTING, "tests")) for word in words):
        parser.error(f"{shlex.join(words)!r} selects tests; a part of them is `make test`'s, with ARGS=")


def parts(logs: Path, words: Sequence[str] = ()) -> tuple[Part, ...]:
    """The parts, in their order; what they count goes below ``logs``."""
    tests, exclusive = logs / "tests.xml", logs / "exclusive.xml"
    killed, outcomes = logs / "mutants.xml", logs / "matrix.jsonl"
    run = (sys.executable, "-m")
    marked = "long and {} and not mutants and not regressions".format
    return (
        Part(
            "tests", "the tests that are marked `long`",
            (*run, "pytest", *words, "-m", marked("not exclusive"), f"--junit-xml={tests}"), tests, read_rest,
        ),
        Part(
            "exclusive", "those that need the machine to themselves",
            (*run, "pytest", "-o", "faulthandler_timeout=900", "-m", marked("exclusive"), f"--junit-xml={exclusive}"),
            exclusive, read_junit,
        ),
        Part(
            "mutants", "every mutant, and bugs that Spark once had",
            (*run, "tests.mutants", *words, f"--junit-xml={killed}"), killed, read_mutants,
        ),
        Part(
            "matrix", "every join under every bound on every state",
            (*run, "tests.matrix", "--log", str(outcomes)), outcomes, read_matrix,
        ),
    )  # fmt: skip


def carry_out(chosen: Sequence[Part], logs: Path, document: Path | None, *, resume: bool = False) -> int:
    """Run the parts one after the other, print what became of them, and write the document if all held."""
    logs.mkdir(parents=True, exist_ok=True)
    done = campaign("long", logs / "parts.jsonl", resume=resume)

    def run_part(part: Part) -> Done:
        part.counted.unlink(missing_ok=True)  # old counts are no proof of this run
        number = chosen.index(part) + 1
        print(f"== {number} of {len(chosen)}: {part.what}: {part.command}", flush=True)
        return run(part, logs / f"{part.name}.log")

    done.run(chosen, run_part)
    for line in said(done, chosen, logs):
        print(line)
    return done.finish(document, lambda: text(done, chosen, machine(), datetime.now(UTC).date().isoformat()))


def run(part: Part, log: Path) -> Done:
    """Run one part to its end; what it prints goes to the screen and to ``log``.

    It has a process group of its own, so that an interrupt comes once, from here, and to everybody in it. A second
    Ctrl-C kills it; so does taking longer than ``END_S`` to end.
    """
    begun = time.monotonic()
    child = subprocess.Popen(
        part.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
    )
    assert child.stdout is not None
    reader = threading.Thread(target=_pass_on, args=(child.stdout, log), daemon=True)
    reader.start()
    try:
        child.wait()
    except KeyboardInterrupt:
        _end(child)
        raise
    finally:
        reader.join(REST_S)
    tally = _read(part)
    if child.returncode:
        tally = msgspec.structs.replace(tally, problem=f"exit code {child.returncode}")
    return Done(part.name, round(time.monotonic() - begun, 1), tally)


def _pass_on(source: IO[bytes], log: Path) -> None:
    with source, log.open("wb") as file:
        for chunk in iter(partial(os.read, source.fileno(), 65536), b""):
            file.write(chunk)
            file.flush()
            sys.stdout.buffer.write(chunk)
            sys.stdout.flush()


def _end(child: subprocess.Popen[bytes]) -> None:
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(END_S)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _read(part: Part) -> Tally:
    try:
        return part.read(part.counted)
    except FileNotFoundError:
        return Tally(problem=f"it left no {part.counted}")
    except (ET.ParseError, UsageError) as error:
        return Tally(problem=f"{part.counted} cannot be read: {error}")


def read_matrix(log: Path) -> Tally:
    """The journal of the matrix."""
    outcomes = [outcome for _, outcome in read_journal(log, Outcome)]
    said = Counter(one.said for one in outcomes)
    counts = {
        "runs": len(outcomes) - said["unsupported"],
        "`VALID`": said["VALID"],
        "`INVALID` by a known defect": said["known defect"],
        "failed": said["FAILED"],
        "cells unsupported": said["unsupported"],
    }
    missing = len(cells()) - len({one.cell for one in outcomes})
    problem = f"{missing} cells were not run" if missing else ""
    return Tally(counts, problem=f"{said['FAILED']} runs failed" if said["FAILED"] else problem)


def read_junit(path: Path) -> Tally:
    """Counts of tests, as pytest writes them with ``--junit-xml``; why tests were skipped is in the notes."""
    cases = list(ET.parse(path).getroot().iter("testcase"))
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = [found.get("message", "") for case in cases if (found := case.find("skipped")) is not None]
    counts = {"passed": len(cases) - failed - len(skipped), "failed": failed, "skipped": len(skipped)}
    notes = tuple(f"skipped, {count}: {why}" for why, count in sorted(Counter(skipped).items()))
    nothing = "no test passed" if not counts["passed"] else ""
    return Tally(counts, notes, f"{failed} tests failed" if failed else nothing)


def read_mutants(path: Path) -> Tally:
    """Counts of tests, and who killed how many mutants, which their tests leave as a property."""
    tally = read_junit(path)
    found = ET.parse(path).getroot().iter("property")
    lines = [Line(*ast.literal_eval(one.get("value", ""))) for one in found if one.get("name") == PROPERTY]
    killed = len({line[:2] for line in lines if line.tidemark == "killed"})
    counts = {"mutants killed": killed, **tally.counts}
    nothing = "" if killed else "no mutant was killed"
    return Tally(counts, (*summary(lines), *tally.notes), tally.problem or nothing)


def read_rest(path: Path) -> Tally:
    """Counts of tests, with those that this part leaves to the others and to every day."""
    tally = read_junit(path)
    deselected = collected() - sum(tally.counts.values())
    return Tally({**tally.counts, "deselected": deselected}, tally.notes, tally.problem)


def collected() -> int:
    """How many tests there are, whatever their markers."""
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", ""]
    listed = subprocess.run(asked, cwd=paths.root(), capture_output=True, text=True, check=True).stdout
    return sum(line.startswith("tests/") and "::" in line for line in listed.splitlines())


def said(done: Campaign[Part, Done], chosen: Sequence[Part], logs: Path) -> Iterator[str]:
    """What became of each part, for the screen."""
    yield "== summary"
    missing = "interrupted"
    for part in chosen:
        if one := done.outcomes.get(part.name):
            before = " in an earlier run" if part.name in done.earlier else ""
            outcome = f"FAILED: {one.problem}" if one.problem else f"held{before}"
            yield f"{part.name:<9} {duration(one.seconds):>12}  {outcome}; {one.counted or 'nothing counted'}"
        else:
            yield f"{part.name:<9} {'-':>12}  {missing}"
            missing = "not begun"
    yield f"logs in {logs}"


def text(done: Campaign[Part, Done], chosen: Sequence[Part], where: str, date: str) -> str:
    """The document."""
    ran = [(part, done.outcomes[part.name]) for part in chosen]
    total = duration(sum(one.seconds for _, one in ran))
    rows = [(part.name, part.what, duration(one.seconds), one.counted) for part, one in ran]
    notes = [f"- {one.name}: {note}" for _, one in ran for note in one.tally.notes]
    notes += [f"- {name}: held in an earlier run, with the same code" for name in done.earlier]
    lines = [
        "# The long run",
        "",
        "Made by `make long`: what is too long for every day, part after part; written only if all of them held.",
        "",
        f"{date}, {where}: **{total}**. The aim is {AIM_MINUTES} minutes on two cores.",
        "",
        *table(("part", "what", "time:", "counted"), rows),
        "",
        "What was run:",
        "",
        *(f"- {part.name}: `{part.command}`" for part in chosen),
        *(("", "What they said besides:", "", *notes) if notes else ()),
    ]
    return "\n".join(lines) + "\n"


@functools.cache
def machine() -> str:
    """Cores, memory and versions."""
    from tidemark.stack import spec_to_lease
    from tidemark.stack.install.jars import kafka_version
    from tidemark.stack.install.toolchain import check_java, find_java, find_spark

    memory_gib = psutil.virtual_memory().total / (1 << 30)
    return (
        f"{len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB of memory, Python {platform.python_version()},"
        f" Java {check_java(find_java())}, Spark {find_spark(Path(sys.executable)).version},"
        f" Kafka {kafka_version()}, backend {spec_to_lease().backend}"
    )


def duration(seconds: float) -> str:
    """``4 min 05 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
