"""The upgrade table as a document, and its cells as JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.upgrades.cells import ENDS, PAIRS, groups
from tests.upgrades.running import Cell, GroupOutcome
from tidemark.formats.jsonlines import write_lines
from tidemark.reports.markdown import table

PATH = Path(__file__).parents[1] / "results" / "UPGRADES.md"
CELLS = PATH.with_name("upgrades.jsonl")
HEAD = """# Joins that went on under a newer Spark, judged

Made by `python -m tests.upgrades`: each query reads two slices of events on the older Spark and two more, on the same
checkpoint and with the same settings, on the newer one. The older Spark is *stopped* between two batches, or *killed*
in the middle of one, which the newer Spark then runs again. Input and output are on Kafka; each output record names the
query, the batch, and the version of the Spark that wrote it. All is judged row by row by `tidemark audit`, each batch
by the rules and the known defects of the Spark that ran it (`--spark-version OLD@:N,NEW@M:`). What each cell is made of
is in [`upgrades.jsonl`](upgrades.jsonl).
"""
LEGEND = """
A cell says what the judge says of both ends, or of each: `VALID`; `refused`: Spark does not run it, and why is below;
`-`: one of the two Sparks has no such state; `?`: not run.
"""
ENDED = ("refused", "failed")
"""What is said of cells that have no verdict."""


def write(outcomes: Sequence[GroupOutcome]) -> None:
    """Write both files of the cells that were run."""
    cells = sorted(
        (cell for outcome in outcomes for cell in outcome.cells),
        key=lambda one: (PAIRS.index((one.old, one.new)), ENDS.index(one.ended), one.state, one.kind),
    )
    PATH.write_text(text(cells), encoding="utf-8")
    write_lines(CELLS, (msgspec.json.encode(cell) for cell in cells))
    print(f"written: {PATH}")


def text(cells: Sequence[Cell]) -> str:
    """The whole document."""
    said = Counter(cell.said for cell in cells)
    wanted = sum(len(group.cells) for group in groups())
    ran = [cell for cell in cells if cell.said not in ENDED]
    lines = [HEAD]
    counted = ", ".join(f"{number} {name}" for name, number in said.most_common())
    lines.append(f"{len(cells)} of {wanted} cells were run: {counted}.")
    lines.append(
        f"{sum(cell.rows for cell in ran):,} rows came, {sum(cell.late for cell in ran):,} rows of the input were late;"
        f" {sum(cell.carried for cell in ran):,} rows were made by the newer Spark of a row that the older one had"
        f" read, at least {min((cell.carried for cell in ran), default=0)} in each cell. The newer Spark ran"
        f" {sum(cell.both is not None for cell in ran)} half-written batches again: what was written of them came"
        " again, which at-least-once permits."
    )
    lines += [LEGEND, *table(("state", "join", *(f"{old} to {new}" for old, new in PAIRS)), _rows(cells))]
    lines += ["", "## What Spark refuses", "", *_refusals(cells)]
    lines += ["", "## What did not hold", "", *_failures(cells)]
    return "\n".join(lines) + "\n"


def _rows(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    wanted = {
        (group.old, group.new, str(kind), state) for group in groups() for kind, state, _ in group.cells
    }
    order = dict.fromkeys((state, str(kind)) for group in groups() for kind, state, _ in group.cells)
    by_place: dict[tuple[str, str, str, str], dict[str, str]] = {}
    for cell in cells:
        by_place.setdefault((cell.old, cell.new, cell.kind, cell.state), {})[cell.ended] = _word(cell)
    for state, kind in order:
        found = []
        for old, new in PAIRS:
            said = by_place.get((old, new, kind, state), {})
            words = [said.get(ended, "?") for ended in ENDS]
            if (old, new, kind, state) not in wanted:
                found.append("-")
            elif len(set(words)) == 1:
                found.append(words[0])
            else:
                found.append(", ".join(f"{ended} {word}" for ended, word in zip(ENDS, words, strict=True)))
        yield (state, kind, *found)


def _word(cell: Cell) -> str:
    if cell.said == "INVALID" and cell.holds:
        return "`INVALID` by " + ", ".join(f"`{name}`" for name in cell.defects)
    if cell.said in ENDED:
        return cell.said if cell.holds else f"**{cell.said}**"
    return f"`{cell.said}`"


def _refusals(cells: Sequence[Cell]) -> list[str]:
    """Each refusal that is known once, with the cells that it is of; others are what did not hold."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if cell.said == "refused" and cell.holds:
            found.setdefault((cell.state, cell.words), []).append(cell)
    if not found:
        return ["Of the cells that were run nothing."]
    rows = [
        (
            state,
            ", ".join(dict.fromkeys(one.kind for one in some)),
            ", ".join(dict.fromkeys(f"{one.by} of {one.old} to {one.new}" for one in some)),
            words.replace("|", "\\|"),
        )
        for (state, words), some in found.items()
    ]
    return table(("state", "joins", "by", "in its words"), rows)


def _failures(cells: Sequence[Cell]) -> list[str]:
    failed = [
        f"- {cell.kind}, {cell.state}, {cell.old} to {cell.new}, {cell.ended}: {_said(cell)}: {cell.words}"
        for cell in cells
        if not cell.holds
    ]
    return failed or ["Of the cells that were run nothing."]


def failure(outcome: GroupOutcome) -> str:
    """What a group that does not hold says for itself."""
    wrong = [
        f"{_said(cell)}: {cell.kind}, {cell.state}: {cell.words}" for cell in outcome.cells if not cell.holds
    ]
    return "\n".join([outcome.problem, *wrong] if outcome.problem else wrong)


def _said(cell: Cell) -> str:
    return f"{cell.said} by {cell.by}" if cell.by else cell.said
