"""A soak for people: a line for each run while it lasts, and a document of what was done at which point."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemark.errors import EXIT_INVALID, EXIT_VALID
from tidemark.reports.campaign_facts import CampaignFacts, FactTable, FailedItem, place_in, shrunk_in
from tidemark.reports.markdown import table

if TYPE_CHECKING:
    from tidemark.campaigns.soak import Soak, SoakRun


TIMES = ("least", "median", "worst")


def run_line(one: SoakRun) -> str:
    """What became of a run, in a line."""
    done = sum(fault.injected for fault in one.faults)
    said = _why(one)
    known = f" ({', '.join(one.known_defects)})" if one.known_defects else ""
    head = f"run {one.number:>3}  {one.pipeline:<12} {one.sink:<13} {one.verdict}{known}"
    tail = f"{done} of {len(one.faults)} faults, {one.rows:,} rows, {one.seconds:.0f} s"
    return f"{head}  {tail}{f': {said}' if said else ''}"


def so_far(soak: Soak) -> str:
    """What the runs add up to, in a line."""
    said = soak.summary()
    found = _list(said["findings"]) or "nothing found"
    return (
        f"{said['minutes']} of {soak.options.minutes:g} minutes: {said['faults']} faults, {said['missed']} not"
        f" injected, {said['rows_judged']:,} rows judged, {found}"
    )


def lines(soak: Soak) -> Iterator[str]:
    """The summary."""
    for name, value in soak.summary().items():
        yield f"{_label(name):<22} {_shown(value)}"
    for name, found in soak.recovery().items():
        if " at " in name:
            spread = ", ".join(f"{which} {found[which]:.1f}" for which in TIMES)
            yield f"recovery of {name}, in seconds: {spread} ({found['faults']:,} faults)"
    for one in soak.runs:
        if one.findings or one.failed:
            yield run_line(one)
            yield f"  evidence: {one.run_dir}; reproduce: {one.command}"


def _shown(value: object) -> str:
    return (_list(value) or "none") if isinstance(value, Mapping) else f"{value:,}"


def _list(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


@dataclass(frozen=True)
class Asked:
    """What was typed, and what could be drawn: faults (label, point), and pairs that overlap (``FAULT at POINT``).

    ``impossible`` are the labels of faults that the stack cannot have; ``inputs`` has for the name of each input the
    words that make the generator give it. ``stack`` is the backend, and how many brokers there are.
    """

    command: str
    faults: Sequence[tuple[str, str]]
    pairs: Sequence[tuple[str, str]] = ()
    impossible: Sequence[str] = ()
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    stack: str = ""


def markdown(soak: Soak, versions: Mapping[str, str], asked: Asked) -> str:
    """The document."""
    sections = (
        _opening(soak, versions, asked), _points(soak, asked), _pairs(soak, asked.pairs),
        _recovery(soak), _joins(soak), _inputs(soak, asked), _runs(soak),
    )  # fmt: skip
    return "\n".join([line for section in sections for line in section])


def _opening(soak: Soak, versions: Mapping[str, str], asked: Asked) -> Iterator[str]:
    said = soak.summary()
    outcome = {0: "it holds", 1: "something was found"}.get(soak.exit_code, "too much missed or failed")
    yield from (
        "# Joins under faults",
        "",
        f"Made by `{asked.command}`:",
        "run after run on one stack, each with a join, a sink, a trace and a schedule of faults of its seed; every",
        "fault is proved in the journal of its run, every row is judged. A soak holds if nothing is found that is no",
        "known defect of Spark, no run fails, and at most one fault in twenty is not injected. A run in which one was",
        "not is `UNKNOWN`; all its rows are judged.",
        "",
        f"{_ran_on(versions, asked)}, {said['minutes']} minutes: **{outcome}**.",
        "",
    )
    for name, value in said.items():
        if name not in ("minutes", "kinds", "recovery_s"):
            yield f"- {_label(name)}: {_shown(value)}"
    yield ""


def _ran_on(versions: Mapping[str, str], asked: Asked) -> str:
    of = f"Spark {versions.get('spark', '?')}, Kafka {versions.get('kafka', '?')}"
    return f"{of}, {asked.stack}" if asked.stack else of


def _points(soak: Soak, asked: Asked) -> Iterator[str]:
    """Faults that were done, by point and join; what never was has a line, too."""
    faults = asked.faults
    pipelines = sorted({one.pipeline for one in soak.runs})
    yield from (f"## {POINTS_TITLE}", "")
    rows = _point_rows(soak, faults, pipelines)
    yield from table(("fault", "commit point", *(f"{name}:" for name in (*pipelines, *POINTS_TAIL))), rows)
    done = {(met["fault"], met["point"], met["join"]) for met in soak.coverage() if met["done"]}
    each = [[(fault, point, name) in done for name in pipelines] for fault, point in faults]
    yield ""
    yield (
        f"Of {len(faults)} combinations of a fault and a commit point {sum(map(any, each))} were injected;"
        f" counted with each join, {sum(map(sum, each))} of {len(faults) * len(pipelines)}."
    )
    if asked.impossible:
        yield f"Not possible on this stack: {', '.join(asked.impossible)}."
    yield ""


def _point_rows(
    soak: Soak, faults: Sequence[tuple[str, str]], pipelines: Sequence[str]
) -> list[tuple[object, ...]]:
    """Fault, point, how often it was done in each pipeline and in all, and how often it missed; ``-`` for never."""
    done, missed = Counter[tuple[str, str, str]](), Counter[tuple[str, str]]()
    for met in soak.coverage():
        done[met["fault"], met["point"], met["join"]] += met["done"]
        missed[met["fault"], met["point"]] += met["missed"]
    rows: list[tuple[object, ...]] = []
    for fault, point in sorted({*faults, *missed}):
        counts = [done[fault, point, name] for name in pipelines]
        rows.append((fault, point, *(count or "-" for count in (*counts, sum(counts), missed[fault, point]))))
    return rows


POINTS_TITLE = "Faults injected, by commit point and join"
POINTS_TAIL = ("injected", "not injected")
PAIR_HEAD = ("first", "then", "overlapped:", "did not:", "joins")
NEVER_HEAD = ("first", "can be second:", "never were:", "second ones that never were")


def _pairs(soak: Soak, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Faults that overlapped, or were to; of those that can, how many never did, by their first fault."""
    yield from (
        "## What overlapped",
        "",
        "The second was injected while the first was in effect.",
        "",
        *table(PAIR_HEAD, _pair_rows(soak)),
        "",
        f"{_pairs_met(soak, pairs)} Of those that never were, by the first fault, the second ones:",
        "",
        *table(NEVER_HEAD, _never_met(soak, pairs)),
        "",
    )


def _pairs_met(soak: Soak, pairs: Sequence[tuple[str, str]]) -> str:
    met = {(one["first"], one["then"]) for one in soak.overlapping() if one["done"]}
    return (
        "Drawn are pairs that can overlap and mostly do: steps of the sink, snapshots, and brokers in a role are drawn"
        f" alone. Of {len(pairs)} pairs {len(met)} overlapped, {len(set(pairs) - met)} never."
    )


def _pair_rows(soak: Soak) -> list[tuple[object, ...]]:
    """A pair that was drawn: how often its faults overlapped, how often not, and in which joins they did."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    joins: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in soak.overlapping():
        pair = one["first"], one["then"]
        counts[pair].update(done=one["done"], missed=one["missed"])
        joins[pair] += [one["join"]] if one["done"] else []
    return [
        (*pair, found["done"] or "-", found["missed"] or "-", ", ".join(joins[pair]) or "-")
        for pair, found in sorted(counts.items())
    ]


def _never_met(soak: Soak, pairs: Sequence[tuple[str, str]]) -> list[tuple[object, ...]]:
    """The first of a pair, how many can be the second, how many of them never were, and which."""
    met = {(one["first"], one["then"]) for one in soak.overlapping() if one["done"]}
    every = Counter(first for first, _ in pairs)
    never: dict[str, list[str]] = defaultdict(list)
    for first, then in sorted(set(pairs) - met):
        never[first].append(then)
    return [(first, every[first], len(names), ", ".join(names)) for first, names in sorted(never.items())]


def _recovery(soak: Soak) -> Iterator[str]:
    """From an injection to the commit of the batch that it hit, in seconds: in all, by component, fault and point."""
    yield from (
        "## Recovery",
        "",
        "In seconds: from the injection to the commit of its batch, an outage included.",
        "",
    )
    rows = (
        (name, found["faults"], *(f"{found[which]:.1f}" for which in TIMES))
        for name, found in soak.recovery().items()
    )
    yield from (*table(("of", "faults:", *(f"{name}:" for name in TIMES)), rows), "")


RUNS_HEAD = ("runs:", "verdicts", "rows judged:", "batches run again:", "permitted duplicates:")
JOIN_HEAD = ("join", "sink", *RUNS_HEAD)
INPUT_HEAD = ("input", "state", *RUNS_HEAD)


def _joins(soak: Soak) -> Iterator[str]:
    """Runs by join and sink, with what came of them."""
    yield from ("## Joins and sinks", "")
    yield from (*table(JOIN_HEAD, _run_rows(soak, "pipeline", "sink")), "")


def _inputs(soak: Soak, asked: Asked) -> Iterator[str]:
    """Runs by what their input had and where their state was, with what came of them."""
    yield from ("## Inputs and states", "")
    for name, words in asked.inputs.items():
        yield f"- {name}: {f'`{shlex.join(words)}`' if words else 'the generator as it is'}"
    yield from ("", *table(INPUT_HEAD, _run_rows(soak, "input", "state")), "")


def _run_rows(soak: Soak, first: str, second: str) -> list[tuple[object, ...]]:
    """What came of the runs that have two things in common, in the order of ``RUNS_HEAD`` behind them."""
    groups: dict[tuple[str, str], list[SoakRun]] = defaultdict(list)
    for one in soak.runs:
        groups[getattr(one, first), getattr(one, second)].append(one)
    rows: list[tuple[object, ...]] = []
    for names, runs in sorted(groups.items()):
        verdicts = _list(Counter(one.verdict for one in runs))
        counts = ("rows_judged", "batches_again", "duplicates")
        numbers = [f"{sum(getattr(one, name) for one in runs):,}" for name in counts]
        rows.append((*names, len(runs), verdicts, *numbers))
    return rows


def _runs(soak: Soak) -> Iterator[str]:
    """Why runs are ``UNKNOWN``, with how many, and the runs that failed or in which something was found."""
    inconclusive = Counter(reason for one in soak.runs for reason in one.inconclusive)
    lines = [f"- {count} run{'s' * (count != 1)}: {reason}" for reason, count in sorted(inconclusive.items())]
    yield from (f"## {REASONS_TITLE}", "", *(lines or ["None."]), "")
    failed = [
        f"- {run_line(one)}; reproduce: `{one.command}`" for one in soak.runs if one.findings or one.failed
    ]
    if failed:
        yield from ("## What does not hold", "", *failed, "")


LABELS = {"missed": "faults not injected", "duplicates_permitted": "permitted duplicates"}
"""What document and page call a count of ``Soak.summary``, if not by its own name."""
REASONS_TITLE = "Inconclusive because"


def _label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " "))


def facts(soak: Soak, versions: Mapping[str, str], asked: Asked, resume: str = "") -> CampaignFacts:
    """What the page of a soak says at its head; ``resume`` is the command that goes on with it."""
    options, said = soak.options, soak.summary()
    shown = [
        (_label(name), _shown(value)) for name, value in said.items() if name not in ("kinds", "recovery_s")
    ]
    tried = {(fault.label, str(fault.point)) for _, fault in soak.faults}
    never = [f"{fault} at {point}" for fault, point in asked.faults if (fault, point) not in tried]
    shown.append((f"never drawn, of {len(asked.faults)}", ", ".join(never) or "none"))
    shown.append(("faults that overlapped", _pairs_met(soak, asked.pairs)))
    return CampaignFacts(
        name=f"soak of seed {options.seed}",
        said=_result(soak),
        command=asked.command,
        resume=resume,
        asked=[
            ("minutes", f"{options.minutes:g}"),
            ("in each run", f"{options.impressions:,} impressions, {options.faults:,} faults"),
            ("pipelines, in turn", ", ".join(options.pipelines)),
            ("sinks, in turn", ", ".join(options.sinks)),
            ("ran on", _ran_on(versions, asked)),
        ],
        came=shown,
        failed=[
            FailedItem(
                name=f"run {one.number}: {one.pipeline}, {one.sink}, {one.verdict}",
                why=_why(one),
                run_dir=place_in(options.folder, one.run_dir),
                command=one.command,
                shrunk=shrunk_in(options.folder, one.run_dir),
            )
            for one in soak.runs
            if one.findings or one.failed
        ],
        tables=[one for one in _fact_tables(soak, asked) if one.rows],
        runs=[place for one in soak.runs if (place := place_in(options.folder, one.run_dir))],
    )


def _fact_tables(soak: Soak, asked: Asked) -> list[FactTable]:
    """The tables of the page: joins and sinks, inputs and states, faults and points, overlaps, reasons."""
    pipelines = sorted({one.pipeline for one in soak.runs})
    inconclusive = Counter(reason for one in soak.runs for reason in one.inconclusive)
    return [
        _fact_table("Joins and sinks", JOIN_HEAD, _run_rows(soak, "pipeline", "sink")),
        _fact_table("Inputs and states", INPUT_HEAD, _run_rows(soak, "input", "state")),
        _fact_table(
            POINTS_TITLE,
            ("fault", "commit point", *pipelines, *POINTS_TAIL),
            _point_rows(soak, asked.faults, pipelines),
        ),
        _fact_table("Faults that overlapped", PAIR_HEAD, _pair_rows(soak)),
        _fact_table("Faults that never overlapped", NEVER_HEAD, _never_met(soak, asked.pairs)),
        _fact_table(REASONS_TITLE, ("reason", "runs"), sorted(inconclusive.items())),
    ]


def _result(soak: Soak) -> str:
    """What came of it, in a sentence."""
    said = soak.summary()
    every, missed = said["faults"] + said["missed"], said["missed"]
    failed = sum(one.failed for one in soak.runs)
    points = f"{missed:,} of {every:,} faults were not injected"
    if not every and not failed:
        return "It shows nothing: no fault was tried."
    if soak.exit_code == EXIT_VALID:
        tried = (
            f"{points}, where one in twenty may not be" if missed else f"all {every:,} faults were injected"
        )
        return f"It holds: nothing was found that is no known defect of Spark, no run failed, and {tried}."
    if soak.exit_code == EXIT_INVALID:
        wrong = sum(bool(one.findings) for one in soak.runs)
        return f"Something was found in {wrong:,} of {len(soak.runs):,} runs: {_list(said['findings'])}."
    return f"It does not hold: nothing was found, but {failed:,} of {len(soak.runs):,} runs failed, and {points}."


def _why(one: SoakRun) -> str:
    return one.problem or _list(one.findings) or "; ".join(one.inconclusive)


def _fact_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> FactTable:
    names = [name.rstrip(":") for name in head]
    return FactTable(title=title, head=names, rows=[[str(cell) for cell in row] for row in rows])
