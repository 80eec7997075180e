"""Run after run under faults, until the time is over: each with a join, a sink, a trace and a schedule of its seed.

A soak holds if no run has a finding that is no known defect of Spark, none failed, and at most one fault in twenty
missed its point. A run in which a fault missed is UNKNOWN by itself; all of its rows are judged nevertheless. One that
is UNKNOWN for another reason counts as failed. A fault that was not injected yet is drawn first.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tidemark.campaigns.campaign import Campaign, free_directory
from tidemark.campaigns.soak_faults import drawable, must_be_possible, schedule
from tidemark.campaigns.state_stores import SPARKS_OWN, STATES
from tidemark.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, TidemarkError, UsageError
from tidemark.faults.overlaps import FaultPart, every_fault
from tidemark.faults.schedule import read_schedule, write_schedule
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.faults import (
    LINK_FAULTS,
    CommitPoint,
    Fault,
    FaultAction,
    FaultComponent,
    overlaps,
)
from tidemark.formats.liveness import HUNG
from tidemark.oracle import Verdict
from tidemark.reports.liveness_lines import availability
from tidemark.runner import RunOptions, describe, new_run_directory, run
from tidemark.runner.cleanup import Cleanup
from tidemark.runner.possible_faults import SNAPSHOTS_OFTEN, possible_link_faults
from tidemark.runner.run_options import SINKS, Report, Say, Watch, report_nothing, say_nothing, watch_nothing
from tidemark.stack import DRIVER, POWERS, Stack

JOINS = ("left_outer", "inner", "full_outer", "left_semi", "right_outer")
MISSES = 0.05
"""The share of faults that may miss."""
MOST_TRIES = 2
"""In so many runs a fault that was not injected is drawn before others."""
MISSED = "'every_fault_done'"
"""In the reason that such a fault leaves: the name of the coverage goal."""

INPUTS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "payloads": ("--changed-duplicates", "0.05", "--moved-duplicates", "0.05"),
    "one key": ("--key-skew", "one:0.02"),
    "transactions": ("--transactions", "0.02", "--aborted", "0.01"),
    "bursts": ("--bursts", "0.3"),
    "clock": ("--lateness", "on_time+uniform:0.2*1+skewed_producer:0.1*1"),
}
"""What the input of a run has, in turn: name -> options of the generator. In each the watermark moves with every slice:
or else there would be no batch without data to inject a fault into. Calibration: a transaction takes 50 to 100 ms on
three brokers, and ten times as many took ten minutes of a run."""
KEPT_IN = (SPARKS_OWN, "RocksDB, 2", "RocksDB, 2, changelog")
"""Where the state of a run is, in turn: those in which each point of a batch can be met."""


@dataclass(frozen=True)
class SoakOptions:
    """``pipelines`` and ``sinks`` are taken in turn; ``faults`` are so many in each run; ``log`` is the journal.

    ``only`` are faults as in a schedule, ``broker:cut`` at all points or ``driver@written``: no others are drawn.
    ``in_time`` are options of each run: what it demands in time, and after how long it has hung. ``keep_checkpoint``
    has each run keep its checkpoint.
    """

    folder: Path
    minutes: float = 30.0
    seed: int = 1
    impressions: int = 20_000
    faults: int = 12
    pipelines: Sequence[str] = JOINS
    sinks: Sequence[str] = SINKS
    only: Sequence[str] = ()
    log: Path | None = None
    resume: bool = False
    keep_checkpoint: bool = False
    in_time: Mapping[str, Any] = field(default_factory=dict)
    report: Report = field(default=report_nothing, compare=False)
    say: Say = field(default=say_nothing, compare=False)
    watch: Watch = field(default=watch_nothing, compare=False)

    @property
    def words_of_time(self) -> list[str]:
        """The words of the command that demand something in time."""
        return RunOptions("", **self.in_time).words_of_time()


class SoakRun(msgspec.Struct, kw_only=True):
    """One run. ``findings`` are those that are no known defect; ``problem`` says why there is no verdict.

    ``input`` and ``state`` are names in ``INPUTS`` and ``STATES``.
    """

    number: int
    pipeline: str
    sink: str
    input: str
    state: str
    schedule: str
    run_dir: str
    verdict: str = "FAILED"
    rows: int = 0
    rows_judged: int = 0
    batches_again: int = 0
    duplicates: int = 0
    findings: dict[str, int] = {}
    known_defects: list[str] = []
    inconclusive: list[str] = []
    problem: str = ""
    command: str = ""
    seconds: float = 0.0
    faults: list[Fault] = []
    availability: float | None = None

    @property
    def failed(self) -> bool:
        """Whether it has no verdict, or is in reason of something else than a fault that missed."""
        return bool(self.problem) or any(MISSED not in reason for reason in self.inconclusive)


@dataclass
class Soak:
    """All runs so far; ``over`` once the time is, not after Ctrl-C, nor where its stack is ``gone``."""

    options: SoakOptions
    runs: list[SoakRun] = field(default_factory=list)
    seconds: float = 0.0
    over: bool = False
    gone: bool = False

    @property
    def faults(self) -> Iterator[tuple[SoakRun, Fault]]:
        """Every fault, with its run."""
        return ((one, fault) for one in self.runs for fault in one.faults)

    def unmet(self) -> set[FaultPart]:
        """The faults that were not injected yet, but for those that were tried in vain in ``MOST_TRIES`` runs."""
        met: set[FaultPart] = set()
        in_vain: Counter[FaultPart] = Counter()
        for _, fault in self.faults:
            part = FaultPart(fault.component, fault.action, fault.point)
            if fault.injected:
                met.add(part)
            # One that was not tried came behind another, which was tried until the run was over.
            elif fault.proof.get("tried"):
                in_vain[part] += 1
        return {part for part in every_fault() if part not in met and in_vain[part] < MOST_TRIES}

    @property
    def exit_code(self) -> int:
        """0 if the soak holds, 1 if something was found, 3 if too much missed or a run failed."""
        if any(one.findings for one in self.runs):
            return EXIT_INVALID
        failed = any(one.failed for one in self.runs)
        too_many = self.missed > MISSES * self.asked
        return EXIT_UNKNOWN if failed or too_many or not self.asked else EXIT_VALID

    @property
    def missed(self) -> int:
        """How many faults were not injected."""
        return sum(not fault.injected for _, fault in self.faults)

    @property
    def asked(self) -> int:
        """How many faults the schedules of the runs have."""
        return sum(len(one.parts) * one.count for run in self.runs for one in read_schedule(run.schedule))

    def coverage(self) -> list[dict[str, Any]]:
        """For each fault, point and join that came: how often it was done, and how often missed."""
        counted: dict[tuple[str, str, str], Counter[bool]] = {}
        for one, fault in self.faults:
            counted.setdefault((fault.label, fault.point, one.pipeline), Counter())[fault.injected] += 1
        return [
            {"fault": name, "point": point, "join": join, "done": found[True], "missed": found[False]}
            for (name, point, join), found in sorted(counted.items())
        ]

    def overlapping(self) -> list[dict[str, Any]]:
        """For each pair of faults that was to overlap, and join: how often it did, and how often not."""
        counted: dict[tuple[str, str, str], Counter[bool]] = {}
        for one in self.runs:
            # A pair that was not injected has a line for each of its two faults.
            missed = [fault.together for fault in one.faults if fault.together and not fault.injected][::2]
            done = [group[0].together or "" for group in overlaps(one.faults)]
            for is_done, typed in [*((True, text) for text in done), *((False, text) for text in missed)]:
                first, then = (part.label for part in read_schedule(typed)[0].as_parts)
                counted.setdefault((first, then, one.pipeline), Counter())[is_done] += 1
        return [
            {"first": first, "then": then, "join": join, "done": found[True], "missed": found[False]}
            for (first, then, join), found in sorted(counted.items())
        ]

    def recovery(self) -> dict[str, dict[str, float]]:
        """From an injection to the commit of its batch, in seconds: in all, by component, by fault, by its point."""
        times: dict[str, list[float]] = {}
        for _, fault in self.faults:
            if fault.injected and fault.recovery_s is not None:
                for name in ("all", fault.component, fault.label, f"{fault.label} at {fault.point}"):
                    times.setdefault(name, []).append(fault.recovery_s)
        return {
            name: {"faults": len(found), "least": min(found), "median": median(found), "worst": max(found)}
            for name, found in sorted(times.items(), key=lambda item: _all_components_faults(item[0]))
        }

    def availability(self) -> dict[str, float]:
        """The least, the median and the best of the runs in which it is known (``reports.liveness_lines``)."""
        known = [one.availability for one in self.runs if one.availability is not None]
        found = {"least": min(known), "median": median(known), "best": max(known)} if known else {}
        return {name: round(share, 4) for name, share in found.items()}

    def summary(self) -> dict[str, Any]:
        """Counts and times as JSON values."""
        done = [(one, fault) for one, fault in self.faults if fault.injected]
        times = self.recovery().get("all", {})
        kinds = Counter(f"{fault.label} at {fault.point}" for _, fault in done)
        return {
            "minutes": round(self.seconds / 60, 1),
            "runs": len(self.runs),
            "verdicts": dict(Counter(one.verdict for one in self.runs)),
            "faults": len(done),
            "missed": self.missed,
            "beside_the_schedule": max(0, len(done) + self.missed - self.asked),
            "overlaps": sum(met["done"] for met in self.overlapping()),
            "faults_a_minute": round(60 * len(done) / self.seconds, 1) if self.seconds else 0.0,
            "kinds": dict(sorted(kinds.items())),
            "recovery_s": {name: round(times[name], 1) for name in ("least", "median", "worst") if times},
            "availability": self.availability(),
            "rows_in": sum(one.rows for one in self.runs),
            "rows_judged": sum(one.rows_judged for one in self.runs),
            "batches_run_again": sum(one.batches_again for one in self.runs),
            "duplicates_permitted": sum(one.duplicates for one in self.runs),
            "findings": dict(sum((Counter(one.findings) for one in self.runs), Counter())),
            "known_defects": dict(Counter(name for one in self.runs for name in one.known_defects)),
        }


def _all_components_faults(name: str) -> tuple[bool, bool, str]:
    return name != "all", name not in list(FaultComponent), name


def soak(options: SoakOptions, stack: Stack, say: Callable[[Soak, SoakRun], None]) -> Soak:
    """Run until the time is over; what has begun is ended. ``say`` hears of each run that is done.

    Ctrl-C ends the soak before its time, and so does the end of its stack. The runs that were done are kept.
    """
    must_be_possible(
        options.only, options.sinks, possible_link_faults(stack.spec.backend), stack.spec.brokers
    )
    done = Soak(options)
    runs: Campaign[int, SoakRun] = Campaign(
        _name(options, stack), SoakRun, lambda one: not one.findings and not one.failed,
        journal=options.log, resume=options.resume, say=options.say,
    )  # fmt: skip

    def ended(one: SoakRun) -> None:
        done.runs.append(one)
        done.seconds = runs.seconds
        say(done, one)

    def until_over() -> Iterator[int]:
        for number in itertools.count():
            if str(number) in runs.earlier:
                yield number
                continue
            # Not begun: a run that would end past the time by more than it would fall short of it.
            if number and done.seconds + done.seconds / number / 2 > 60 * options.minutes:
                done.over = True
                return
            if number and not stack.components():
                done.gone = True
                return
            yield number

    runs.ended = ended
    try:
        runs.run(until_over(), lambda number: _run(options, stack, number, done.unmet()))
    except _StackGone:
        done.gone = True
    return done


class _StackGone(Exception):
    """The stack was stopped during a run, which says nothing then: a soak that goes on runs it again."""


def _name(options: SoakOptions, stack: Stack) -> str:
    """Of the campaign in its journal: a soak that goes on has to be the same, on such a stack."""
    on = [f"{stack.spec.brokers} brokers", *(" ".join(one) for one in stack.versions.items())]
    return (
        f"soak: seed {options.seed}, {options.impressions} impressions, {options.faults} faults,"
        f" {', '.join((*options.pipelines, *options.sinks, *options.only))}"
        f"{' '.join(['', *options.words_of_time])} on {stack.spec.backend}, {', '.join(on)}"
    )


def run_options(
    options: SoakOptions,
    number: int,
    *,
    links: Collection[tuple[FaultComponent, FaultAction]] = LINK_FAULTS,
    brokers: int = 1,
    unmet: Collection[FaultPart] = (),
) -> RunOptions:
    """What the seed makes of a soak's run of that number. Its directory is a free one, ``run-NUMBER`` if that is.

    ``unmet`` are faults that are drawn first.
    """
    rng = random.Random(f"soak-{options.seed}-{number}")
    around, turn = divmod(number, len(options.pipelines))
    pipeline, sink = options.pipelines[turn], options.sinks[(around + turn) % len(options.sinks)]
    seed = rng.randrange(1_000_000)
    can = drawable(options.only, sink, links, brokers).__contains__
    faults = schedule(rng, options.faults, can, unmet)
    makes_snapshots = any(part.point is CommitPoint.SNAPSHOT for one in faults for part in one.parts)
    given, state = _input_and_state(options, number)
    settings = tuple(f"{name}={value}" for name, value in STATES[state].items())
    return RunOptions(
        pipeline, seed=seed, impressions=options.impressions, generator=INPUTS[given], sink=sink,
        faults=write_schedule(faults), driver="" if makes_snapshots else DRIVER,
        conf=(*settings, *(SNAPSHOTS_OFTEN if makes_snapshots else ())),
        run_dir=free_directory(options.folder / f"run-{number}"), keep_checkpoint=options.keep_checkpoint,
        report=options.report, say=options.say, watch=options.watch, **options.in_time,
    )  # fmt: skip


def _input_and_state(options: SoakOptions, number: int) -> tuple[str, str]:
    """The names of a run's input and state: an input comes with one sink after the other, which take turns.

    In three such rounds each comes with each state.
    """
    around, turn = divmod(number, len(INPUTS) * len(options.sinks))
    return [*INPUTS][turn // len(options.sinks)], KEPT_IN[(around + turn) % len(KEPT_IN)]


def _run(options: SoakOptions, stack: Stack, number: int, unmet: Collection[FaultPart] = ()) -> SoakRun:
    links = possible_link_faults(stack.spec.backend)
    asked = run_options(options, number, links=links, brokers=stack.spec.brokers, unmet=unmet)
    given, state = _input_and_state(options, number)
    one = SoakRun(
        number=number, pipeline=asked.pipeline, sink=asked.sink, input=given, state=state, schedule=asked.faults,
        run_dir=str(asked.run_dir), command=asked.command(),
    )  # fmt: skip
    start_s = time.monotonic()
    try:
        contract = describe(asked.pipeline)
        directory = new_run_directory(asked, contract)
        with Cleanup() as cleanup:
            cleanup.callback(_take_faults, one, directory)
            verdict = run(asked, contract, directory, stack=stack).verdict
        _take(one, verdict)
        if any(reason.startswith(HUNG) for reason in verdict.inconclusive):
            _end_hung_driver(stack)
    except TidemarkError as error:
        if number == 0 and isinstance(error, UsageError):
            raise  # what was asked for: every run would be refused
        one.problem = str(error)
    except Exception as error:  # noqa: BLE001 (a run that breaks our own code must not cost the ones before it)
        one.problem = f"{type(error).__name__}: {error}"
    if one.problem:
        if not stack.components():
            raise _StackGone
        one.problem += _repair(stack)
    one.seconds = round(time.monotonic() - start_s, 1)
    return one


def _take_faults(one: SoakRun, directory: RunDirectory) -> None:
    one.faults = directory.faults()


def _end_hung_driver(stack: Stack) -> None:
    """Start the driver again on which a query hung: it may still run it, or answer no more, in the runs to come."""
    if "processes" in POWERS[stack.spec.backend]:
        stack.kill(DRIVER)
        stack.start(DRIVER)


def _repair(stack: Stack) -> str:
    """Start what a run that failed has left dead, for the runs to come; says what does not start."""
    try:
        stack.repair()
    except TidemarkError as error:
        return f"; and afterwards: {error}"
    return ""


def _take(one: SoakRun, verdict: Verdict) -> None:
    counts = verdict.counts
    one.verdict, one.inconclusive = verdict.verdict, list(verdict.inconclusive)
    one.availability = availability(counts)
    # Where the judge could not count, its doubts say why.
    one.rows = counts.get("rows_in", 0)
    one.rows_judged = one.rows + counts.get("output_records", 0)
    one.batches_again = counts.get("batches_run_again", 0)
    one.duplicates = counts.get("duplicates_permitted", 0)
    one.findings = dict(verdict.unexplained_total)
    one.known_defects = list(verdict.known_defects)
