"""Runs the program of each ticket in ``spark_bugs/tickets`` on each Spark and Kafka, and writes how that went.

    python -m tests.spark_tickets [NAME ...] [--release VERSION ...] [--resume]

A ticket is a folder: ``repro.py``, a program of plain PySpark (or of Kafka alone), and ``ticket.md``, a text to file.
A program that ends with 1 has shown its bug, with 0 it has not; anything else is a failure. Each Spark has an
environment of its own (``tidemark versions`` makes the same); a Kafka is the jars of a stack. Outcomes are journalled
as they come; ``--resume`` runs only what is not there yet, and ``--so-far`` runs nothing. Once all are run and each is
as it is known to be (with ``--so-far``: of what is there), the table ``spark_bugs/tickets/README.md`` is written, and
in each ticket the sections of affected versions and of what its program prints. Exit code 0 if so, 1 if something is
not as it is known, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.plain_programs import answer_of
from tidemark import paths
from tidemark.campaigns.campaign import Campaign, read_journal
from tidemark.cli.run_commands import progress_shown
from tidemark.errors import EXIT_VALID
from tidemark.oracle.spark.known_defects import DEFECTS
from tidemark.oracle.spark.spark_versions import Version, minor_version
from tidemark.reports.markdown import table
from tidemark.runner.pyspark_environments import RELEASES, folder, provide
from tidemark.runner.run_options import Say
from tidemark.stack.install import jars
from tidemark.stack.install.toolchain import check_java, find_java, find_spark

TICKETS = paths.root() / "spark_bugs" / "tickets"
DOCUMENT = TICKETS / "README.md"
KAFKAS = ("3.9.2", "4.1.1", "4.3.1")
"""The brokers that a stack can have."""
AFFECTED, PRINTED = "Affected versions", "What it prints"
"""The sections of a ticket that are written from its runs."""
PROGRAM_S = 900.0
"""Calibration: a program of PySpark takes 10 to 20 s; that of Kafka ten restarts of a broker, a minute or two."""
HEAD = """# Tickets ready to file

Made by `python -m tests.spark_tickets` from real runs: the program of each ticket on each version. Each folder has
`repro.py`, which needs PySpark and nothing else (or a Kafka and its Python client), and `ticket.md`, a text to file.
A program prints what is right, what came, and the versions, and ends with exit code 1 where they differ, else 0:
`pip install pyspark==4.2.0`, then `python repro.py`. What is right is what the same query gives as a batch query.

*red*: the bug was shown, on Python {python} and Java {java}; *green*: it was not; an empty cell: that version does not
know what the ticket is about; *?*: it was not run.
"""
TAIL = """
[Spark bugs](../../docs/spark-bugs.md) explains each; [the cases by version](../README.md) are the same, run through
Kafka and judged.
"""


@dataclass(frozen=True)
class Ticket:
    """A folder of tickets.

    ``first`` and ``last``: the versions that have the bug; ``since``: that know what it is about. ``of`` is
    the program: ``Spark`` or ``Kafka``. ``None``: no such end.
    """

    name: str
    of: str = "Spark"
    first: Version | None = None
    last: Version | None = None
    since: Version | None = None

    @property
    def path(self) -> Path:
        """Its folder."""
        return TICKETS / self.name

    @property
    def title(self) -> str:
        """The first line of its text."""
        return (self.path / "ticket.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")

    def is_for(self, release: str) -> bool:
        """Whether a version knows what it is about."""
        return (minor_version(release) or (0, 0)) >= (self.since or (0, 0))

    def is_affected(self, release: str) -> bool:
        """Whether a version is known to have the bug."""
        version = minor_version(release) or (0, 0)
        return (self.first or version) <= version <= (self.last or version)


OTHERS = (
    Ticket("null_double_keys", first=(4, 2), last=(4, 2)),
    Ticket("checkpoint_manager_keeps_old_state"),
    Ticket("kafka_lost_markers", of="Kafka", first=(4, 3)),
)
"""Bugs that are no known defect of a judged run: such a join is refused, or it is no join."""


def tickets() -> tuple[Ticket, ...]:
    """All: of each case of a known defect, and the others."""
    known = [
        Ticket(case.name, first=defect.first, last=defect.last, since=case.since)
        for defect in DEFECTS
        for case in defect.cases
        if not case.control
    ]
    return (*known, *OTHERS)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a program did on a version: ``answer`` is red, green or failed; ``said`` is what it printed."""

    ticket: str
    release: str
    answer: str
    known: str
    said: str
    python: str
    java: str


@dataclass(frozen=True)
class Item:
    """A ticket on a version; ``python`` runs the program, ``more`` are its arguments."""

    ticket: Ticket
    release: str
    python: Path
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.ticket.name} on {self.ticket.of} {self.release}"

    def run(self) -> Outcome:
        """Run the program."""
        found = answer_of(self.ticket.path / "repro.py", self.python, PROGRAM_S, self.more)
        return Outcome(
            ticket=self.ticket.name,
            release=self.release,
            answer=found.answer,
            known="red" if self.ticket.is_affected(self.release) else "green",
            said=found.said + found.end,
            python=_python_of(self.python),
            java=check_java(find_java()),
        )


def _python_of(python: Path) -> str:
    program = "import platform; print(platform.python_version())"
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def items(chosen: Sequence[Ticket], releases: Sequence[str], say: Say) -> Iterator[Item]:
    """Each ticket on each version of its program that knows what it is about; environments and jars are made first."""
    of_spark = [one for one in chosen if one.of == "Spark"]
    own = find_spark(Path(sys.executable)).version
    for release in (one for one in RELEASES if one in releases):
        if any(one.is_for(release) for one in of_spark):
            python = Path(sys.executable) if release == own else provide(release, folder(), say)
            yield from (Item(one, release, python) for one in of_spark if one.is_for(release))
    of_kafka = [one for one in chosen if one.of == "Kafka"]
    for release in (one for one in KAFKAS if one in releases and of_kafka):
        class_path = kafka_class_path(release, say)
        yield from (Item(one, release, Path(sys.executable), (class_path,)) for one in of_kafka)


def kafka_class_path(release: str, say: Say) -> str:
    """The jars of a broker, fetched if they are missing, as Java takes them."""
    group, lock = (
        ("broker", jars.LOCK) if release == jars.kafka_version() else (f"kafka-{release}", jars.BROKERS_LOCK)
    )
    found = jars.provide(find_java(), find_spark(Path(sys.executable)), [group], say, lock)
    return ":".join(map(str, found[group]))


def cell_text(ticket: Ticket, release: str, outcome: Outcome | None) -> str:
    """What the table says of a ticket on a version."""
    if outcome is None:
        return "?" if ticket.is_for(release) else ""
    return f"**{outcome.answer}**" if outcome.answer == "red" else outcome.answer


def document(outcomes: dict[str, Outcome]) -> str:
    """The table of all tickets: those of Spark, and that of Kafka."""
    python = sorted({one.python for one in outcomes.values()})
    java = sorted({one.java for one in outcomes.values()})
    lines = [HEAD.format(python=" and ".join(python), java=" and ".join(java))]
    for of, releases in (("Spark", RELEASES), ("Kafka", KAFKAS)):
        rows = []
        for one in (one for one in tickets() if one.of == of):
            found = {release: outcomes.get(str(Item(one, release, Path()))) for release in releases}
            cells = [cell_text(one, release, outcome) for release, outcome in found.items()]
            link = f"[{one.title}]({one.name}/ticket.md)"
            rows.append((link, f"[`{one.name}`]({one.name}/repro.py)", *cells))
        lines += [*table((f"ticket for {of}", "program", *releases), rows), ""]
    return "\n".join(lines).rstrip("\n") + "\n" + TAIL


def affected_text(ticket: Ticket, outcomes: Sequence[Outcome]) -> str:
    """The section of a ticket that says which versions its program was red on."""
    red = [one.release for one in outcomes if one.answer == "red"]
    green = [one.release for one in outcomes if one.answer == "green"]
    python, java = sorted({one.python for one in outcomes}), sorted({one.java for one in outcomes})
    lines = [f"Shown on {ticket.of} {', '.join(red)}." if red else "Not shown on any version that was tried."]
    lines += [f"Not on {', '.join(green)}."] if green else []
    return f"{' '.join(lines)} Each was run, on Python {', '.join(python)} and Java {', '.join(java)}."


def write_sections(ticket: Ticket, outcomes: Sequence[Outcome]) -> None:
    """Write the two sections of a ticket from its runs; what it prints is that of the newest version that is red."""
    shown = next((one for one in reversed(outcomes) if one.answer == "red"), outcomes[-1])
    path = ticket.path / "ticket.md"
    text = path.read_text(encoding="utf-8")
    printed = f"```text\n{shown.said.strip()}\n```"
    for name, body in ((AFFECTED, affected_text(ticket, outcomes)), (PRINTED, printed)):
        text = replaced_section(text, name, body)
    path.write_text(text, encoding="utf-8")


def write_all(outcomes: dict[str, Outcome], *, with_table: bool = True) -> None:
    """Write the sections of each ticket that was run, and the table."""
    for ticket in tickets():
        found = [
            outcomes[key]
            for release in (*RELEASES, *KAFKAS)
            if (key := str(Item(ticket, release, Path()))) in outcomes
        ]
        if found:
            write_sections(ticket, found)
    if with_table:
        DOCUMENT.write_text(document(outcomes), encoding="utf-8")
        print(f"written: {DOCUMENT}")


def replaced_section(text: str, name: str, body: str) -> str:
    """A text whose section of that name is ``body``; raises ``ValueError`` if there is no such section."""
    pattern = re.compile(rf"(?<=^## {re.escape(name)}\n).*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(text) is None:
        raise ValueError(f"no section '## {name}'")
    new = pattern.sub(lambda _: f"\n{body}\n\n", text, count=1)
    return new.rstrip("\n") + "\n"


def campaign(journal: Path, *, resume: bool) -> Campaign[Item, Outcome]:
    """The campaign; what is not as it is known is run again by ``resume``."""
    return Campaign(
        "spark_tickets", Outcome, lambda one: one.answer == one.known, journal=journal, resume=resume,
        keep_failures=False, what="tickets", every=1,
        line=lambda one: f"{one.ticket} on {one.release}: {one.answer}, known is {one.known}",
    )  # fmt: skip


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark_tickets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these tickets; without it: all")
    parser.add_argument(
        "--release", action="append", choices=(*RELEASES, *KAFKAS), metavar="VERSION",
        help=f"only this one; repeatable; without it: {', '.join((*RELEASES, *KAFKAS))}",
    )  # fmt: skip
    parser.add_argument(
        "--journal",
        type=Path,
        default=paths.root() / "build" / "spark_tickets.jsonl",
        help="outcomes go there",
    )
    parser.add_argument("--resume", action="store_true", help="run only what has no outcome in --journal")
    parser.add_argument("--so-far", action="store_true", help="run nothing, and write what --journal has")
    args = parser.parse_args()
    unknown = set(args.names) - {one.name for one in tickets()}
    if unknown:
        parser.error(
            f"no such ticket: {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in tickets())}"
        )
    return args


def main() -> int:
    """Run what is asked for."""
    args = _parsed()
    if args.so_far:
        write_all({entry.key: outcome for entry, outcome in read_journal(args.journal, Outcome)})
        return EXIT_VALID
    # Of a job in the background a shell may have SIGINT ignored; SIGTERM ends it all the same.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    trials = campaign(args.journal, resume=args.resume)
    chosen = [one for one in tickets() if one.name in (args.names or one.name)]
    with progress_shown(quiet=False) as (trials.report, trials.say):
        every = list(items(chosen, args.release or (*RELEASES, *KAFKAS), trials.say))
        trials.total = len(every)
        trials.run(every, Item.run)
    for one in trials.failures:
        print(f"not as known: {one.ticket} on {one.release} is {one.answer}, not {one.known}:\n{one.said}")
    if trials.exit_code or args.release:
        return trials.exit_code
    write_all(trials.outcomes, with_table=not args.names)
    return trials.exit_code


if __name__ == "__main__":
    sys.exit(main())
