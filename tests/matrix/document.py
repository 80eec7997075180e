"""The matrix as a document: how many runs held in each cell, and Spark's reason where there can be none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.matrix.cells import BOUNDS
from tests.matrix.running import CELLS, NUMBER, Outcome
from tidemark.campaigns.state_stores import STATES
from tidemark.formats.contract import JoinKind
from tidemark.reports.campaign_facts import CampaignFacts, FactTable, FailedItem, place_in, shrunk_in
from tidemark.reports.markdown import table

PATH = Path(__file__).parents[1] / "results" / "JOINS.md"
HEAD = """# Joins that were run and judged

Made by `make matrix`: every join under every bound, on every state store and format, with no-data batches on and off,
each over a trace of its own, in one of three run modes (backlog, a slice at a time, interrupted in the middle) and with
one of the two sinks; output, state and metrics compared with the oracle's.
"""


def write(outcomes: Sequence[Outcome], spark: str) -> str:
    """The whole document."""
    said = Counter(one.said for one in outcomes)
    runs = sum(one.said != "unsupported" for one in outcomes)
    lines = [
        HEAD,
        f"Spark {spark}: {runs} runs, of which {said['VALID']} are `VALID` and {said['known defect']} are",
    ]
    lines += [
        f"`INVALID` by a known defect only; {said['FAILED']} failed; {said['unsupported']} cells unsupported.",
        "",
    ]
    lines += [
        "A cell says how many of its runs (no-data batches on, off) held; `d`: a known defect was named;"
    ]
    lines += ["`-`: unsupported.", ""]
    lines += table(("join", "bound", *STATES), _rows(outcomes))
    lines += ["", "## The known defects that were named", ""]
    lines += _grouped(outcomes, "known defect", lambda one: ("join", one.cell[0]))
    lines += ["", "## Why cells are unsupported", ""]
    lines += _grouped(outcomes, "unsupported", lambda one: ("state", one.cell[2]))
    return "\n".join(lines) + "\n"


def _rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Join, bound, and how many runs held on each state store and format."""
    return [
        (str(kind), bound, *(_cell(outcomes, (str(kind), bound, state)) for state in STATES))
        for kind in JoinKind
        for bound in BOUNDS
    ]


def facts(outcomes: Sequence[Outcome], folder: Path, command: str, resume: str = "") -> CampaignFacts:
    """What the page of the matrix says at its head."""
    said = Counter(one.said for one in outcomes)
    failures = [one for one in outcomes if one.said == "FAILED"]
    return CampaignFacts(
        name="matrix",
        said=f"{len(outcomes) - len(failures):,} of {len(outcomes):,} cells hold or are unsupported.",
        command=command,
        resume=resume,
        came=[(name, f"{count:,}") for name, count in sorted(said.items())],
        failed=[
            FailedItem(
                name=", ".join((*one.cell[:3], f"no-data batches {'on' if one.cell[3] else 'off'}")),
                why=one.why,
                run_dir=place_in(folder, one.run_dir),
                command=f"python -m tests.matrix --cell {NUMBER[CELLS[one.cell]]}",
                shrunk=shrunk_in(folder, one.run_dir),
            )
            for one in failures
        ],
        tables=[
            FactTable(
                title="Runs that hold, by join, bound and state store",
                head=["join", "bound", *STATES],
                rows=[[*row] for row in _rows(outcomes) if any(row[2:])],
            )
        ],
        runs=[place for one in failures if (place := place_in(folder, one.run_dir))],
    )


def _grouped(
    outcomes: Sequence[Outcome], said: str, of: Callable[[Outcome], tuple[str, str]]
) -> Iterator[str]:
    """Each reason with the number of runs that it was said of, and of how many there are of those joins or states."""
    runs = Counter(of(one) for one in outcomes)
    told = Counter((one.why, of(one)) for one in outcomes if one.said == said)
    for (why, group), count in sorted(told.items()):
        yield f"- {group[0]} {group[1]!r}, {count} of {runs[group]} runs: {why}"


def _cell(outcomes: Sequence[Outcome], wanted: tuple[str, str, str]) -> str:
    mine = [one for one in outcomes if one.cell[:3] == wanted]
    if not mine:
        return ""
    if all(one.said == "unsupported" for one in mine):
        return "-"
    holding = sum(one.said in ("VALID", "known defect") for one in mine)
    return f"{holding}{' d' if any(one.said == 'known defect' for one in mine) else ''}"
