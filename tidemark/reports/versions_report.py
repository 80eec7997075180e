"""The table of known defects by Spark version: for a terminal, as Markdown, as JSON.

Free of work: it shows what runs have shown. A cell is *right* or *wrong* by the telling row of its case, and *unclear*
where that and the judge do not say the same, or the run did not show anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.table import Table as RichTable
from rich.text import Text

from tidemark.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from tidemark.oracle.spark.known_defects import DEFECTS, Defect, DefectCase
from tidemark.oracle.spark.spark_versions import Version
from tidemark.reports.campaign_facts import CampaignFacts, FactTable, FailedItem, place_in
from tidemark.reports.markdown import table

Answer = Literal["right", "wrong", "unclear"]
COLOURS = {"right": "green", "wrong": "bold red", "unclear": "bold yellow"}
COMMAND = "tidemark versions --markdown FILE"


class Cell(msgspec.Struct, kw_only=True, frozen=True):
    """One case on one Spark. ``came``: whether the telling row is in the output; ``None``: the run failed.

    ``said`` is an example of what the judge found, ``inconclusive`` are the reasons that make a cell unclear.
    """

    defect: str
    case: str
    spark: str
    answer: Answer
    came: bool | None = None
    verdict: str = ""
    findings: dict[str, int] = {}
    said: str = ""
    inconclusive: list[str] = []
    run_dir: str = ""


class Results(msgspec.Struct, kw_only=True):
    """``versions``: for each Spark, in the order of the columns, the versions of all that ran."""

    versions: dict[str, dict[str, str]]
    cells: list[Cell]

    def cell(self, case: DefectCase, spark: str) -> Cell | None:
        """The cell of a case and a Spark; ``None`` if it was not run."""
        return next((one for one in self.cells if (one.case, one.spark) == (case.name, spark)), None)

    @property
    def surprises(self) -> list[Cell]:
        """Cells that are clear and not what is known: a defect that is gone, or is where none was known."""
        known = {defect.name: defect for defect in DEFECTS}
        controls = {case.name for defect in DEFECTS for case in defect.cases if case.control}
        return [
            cell
            for cell in self.cells
            if cell.answer != "unclear"
            and (cell.answer == "wrong")
            != (cell.case not in controls and known[cell.defect].affects(cell.spark))
        ]

    @property
    def exit_code(self) -> int:
        """``INVALID`` where a cell is not what is known of its version, ``UNKNOWN`` where one is unclear."""
        if self.surprises:
            return EXIT_INVALID
        return EXIT_UNKNOWN if any(cell.answer == "unclear" for cell in self.cells) else EXIT_VALID

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, with ``surprises`` and ``exit_code``."""
        surprises = [{"case": cell.case, "spark": cell.spark} for cell in self.surprises]
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {**plain, "surprises": surprises, "exit_code": self.exit_code}


def answer_of(case: DefectCase, came: bool) -> Answer:
    """Whether it is right that the telling row came, or did not."""
    return "right" if came == case.is_right else "wrong"


def cell_text(cell: Cell | None) -> str:
    """``yes`` or ``no``, as the heading of the row asks; ``wrong`` is added where SQL says otherwise."""
    if cell is None:
        return ""
    if cell.came is None or cell.answer == "unclear":
        return "?"
    said = "yes" if cell.came else "no"
    return f"{said}, wrong" if cell.answer == "wrong" else said


def terminal_table(results: Results) -> RichTable:
    """Cases down, Spark versions across."""
    shown = RichTable(title="Known defects by Spark version")
    shown.add_column("case")
    for spark in results.versions:
        shown.add_column(spark, no_wrap=True)
    for defect in DEFECTS:
        for case in defect.cases:
            cells = [results.cell(case, spark) for spark in results.versions]
            texts = [Text(cell_text(cell), style=COLOURS[cell.answer] if cell else "") for cell in cells]
            shown.add_row(case.says, *texts, end_section=case is defect.cases[-1])
    return shown


def notes(results: Results) -> Iterator[str]:
    """A line for each cell that is unclear, or not what is known."""
    for cell in results.cells:
        if cell.answer == "unclear":
            yield f"unclear: {cell.case} on Spark {cell.spark}: {'; '.join(cell.inconclusive)}"
    for cell in results.surprises:
        what = "has the defect" if cell.answer == "wrong" else "does not have the defect"
        yield f"not as known: {cell.case} on Spark {cell.spark} {what} {cell.defect}: {cell.run_dir}"


def markdown(results: Results) -> str:
    """The document: the table, and a section for each defect."""
    return "\n".join([*_opening(results), *_rows(results), *_sections(results)])


def _opening(results: Results) -> Iterator[str]:
    yield from (
        "# Known defects of Spark's stream-stream join, by version",
        "",
        f"Made by `{COMMAND}` from real runs: Kafka, a Spark cluster and Spark's own Kafka sink, one stack for each",
        "version. Each row asks for one row of the output of a small join; *wrong* says that SQL gives another answer.",
        "The judge, which compares the whole output with that of SQL, agrees with every cell that is not `?`.",
        "An empty cell: that Spark does not know what the case is about.",
        "For each case there is a [ticket ready to file](tickets/README.md), with a program of plain PySpark.",
        "",
    )
    programs = ("connector", "kafka", "python", "java")
    rows = ((name, *(known.get(name, "?") for known in results.versions.values())) for name in programs)
    yield from (*table(("Spark", *results.versions), rows), "")


def _rows(results: Results) -> Iterator[str]:
    rows = []
    for case in (case for defect in DEFECTS for case in defect.cases):
        texts = [cell_text(results.cell(case, spark)) for spark in results.versions]
        rows.append((case.says, *(f"**{text}**" if "wrong" in text else text for text in texts)))
    yield from (*table(("case", *results.versions), rows), "")


def _sections(results: Results) -> Iterator[str]:
    for defect in DEFECTS:
        yield from (
            f"## `{defect.name}`",
            "",
            defect.text,
            "",
            f"Versions: {affected(defect)}. {_ticket(defect)}",
            "",
        )
        for case in defect.cases:
            role = "does not have it" if case.control else "shows it"
            conf = "".join(f" --conf {pair}" for pair in case.conf)
            command = (
                f"tidemark run spark_bugs/{case.pipeline} --trace spark_bugs/{case.trace} --sink spark{conf}"
            )
            yield f"- `{command}` {role}"
        said = _said(defect, results)
        if said is not None:
            yield from ("", f"Of the run on Spark {said.spark} the judge says:", "", f"> {said.said}")
        yield ""


def affected(defect: Defect) -> str:
    """The versions that have a defect, in words."""
    if defect.first is None and defect.last is None:
        return "all that were tried"
    since = f"since {_name(defect.first)}" if defect.first else ""
    until = f"until {_name(defect.last)}" if defect.last else ""
    return " ".join(part for part in (since, until) if part)


def _name(version: Version) -> str:
    return ".".join(map(str, version))


def _ticket(defect: Defect) -> str:
    return f"In Spark's JIRA: {defect.ticket}." if defect.ticket else "In Spark's JIRA: none known."


def _said(defect: Defect, results: Results) -> Cell | None:
    """A wrong cell of the newest Spark."""
    for spark in reversed(results.versions):
        for cell in results.cells:
            if (cell.defect, cell.spark, cell.answer) == (defect.name, spark, "wrong"):
                return cell
    return None


def of_versions(versions: Mapping[str, Mapping[str, str]], cells: Sequence[Cell]) -> Results:
    """Results with their columns in the order of the versions, oldest first."""
    ordered = sorted(
        versions, key=lambda name: [int(part) if part.isdecimal() else 0 for part in name.split(".")]
    )
    return Results(versions={name: dict(versions[name]) for name in ordered}, cells=list(cells))


def facts(results: Results, folder: Path, command: str, resume: str = "") -> CampaignFacts:
    """What the page of the versions says at its head."""
    surprises, cells = results.surprises, results.cells
    unclear = [cell for cell in cells if cell.answer == "unclear"]
    known = len(cells) - len(surprises) - len(unclear)
    said = f"{known:,} of {len(cells):,} cells are as they are known"
    if surprises or unclear:
        said += f"; {len(surprises):,} are not, and {len(unclear):,} are unclear"
    cases = [
        case for defect in DEFECTS for case in defect.cases if any(case.name == one.case for one in cells)
    ]
    return CampaignFacts(
        name="versions",
        said=f"{said}.",
        command=command,
        resume=resume,
        asked=[(f"Spark {spark}", _programs(found)) for spark, found in results.versions.items()],
        failed=[_failed(cell, folder) for cell in cells if cell in surprises or cell in unclear],
        tables=[
            FactTable(
                title="Cases by Spark version",
                head=["case", *results.versions],
                rows=[[case.says, *(cell_text(results.cell(case, one)) for one in results.versions)] for case in cases],
            )
        ],
        runs=[place for cell in cells if (place := place_in(folder, cell.run_dir))],
    )  # fmt: skip


def _programs(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if name != "spark")


def _failed(cell: Cell, folder: Path) -> FailedItem:
    why = "; ".join(cell.inconclusive)
    if cell.answer != "unclear":
        why = f"not as known: it {'has' if cell.answer == 'wrong' else 'does not have'} the defect {cell.defect}"
    return FailedItem(
        name=f"{cell.case} on Spark {cell.spark}: {cell.answer}",
        why=why,
        run_dir=place_in(folder, cell.run_dir),
        command=f"tidemark versions --release {cell.spark} --case {cell.case}",
    )
