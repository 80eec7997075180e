"""The tickets in ``spark_bugs/tickets``: each has its program and its text, and says what the table says."""

from __future__ import annotations

import ast
import re
import sys

import pytest

from tests import spark_tickets
from tests.repository import tree
from tests.spark_tickets import AFFECTED, PRINTED, replaced_section, tickets
from tidemark.oracle.spark.known_defects import DEFECTS
from tidemark.runner.pyspark_environments import RELEASES

SECTIONS = ["What is wrong", AFFECTED, "Steps", PRINTED, "Why", "Workaround", "Related tickets"]
FOREIGN = {"Spark": {"pyspark"}, "Kafka": {"confluent_kafka"}}
"""What a program may import besides Python's own modules."""
SHARED = ("write", "rows_of", "main")
"""Functions that the programs of joins have in common, word for word."""
TICKETS = [pytest.param(one, id=one.name) for one in tickets()]


def section(text: str, name: str) -> str:
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]


def table_rows() -> dict[str, dict[str, str]]:
    """What the table says, by ticket and version."""
    rows, head = {}, ()
    for line in spark_tickets.DOCUMENT.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and cells[0].startswith("ticket"):
            head = cells[2:]
        elif cells and cells[0].startswith("["):
            name = re.search(r"`(\w+)`", cells[1])[1]
            rows[name] = dict(zip(head, cells[2:], strict=True))
    return rows


def test_each_case_of_a_known_defect_has_a_ticket_and_each_folder_is_one():
    cases = {case.name for defect in DEFECTS for case in defect.cases if not case.control}
    names = {one.name for one in tickets()}

    assert cases <= names
    assert names == {path.name for path in spark_tickets.TICKETS.iterdir() if path.is_dir()}


@pytest.mark.parametrize("ticket", TICKETS)
def test_its_program_needs_nothing_of_this_project(ticket):
    module = ast.parse((ticket.path / "repro.py").read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(module)
        for name in (
            [one.name for one in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip

    assert imported - set(sys.stdlib_module_names) <= FOREIGN[ticket.of]


@pytest.mark.parametrize("ticket", TICKETS)
def test_its_text_has_every_section_and_says_of_versions_what_the_table_says(ticket):
    text = (ticket.path / "ticket.md").read_text(encoding="utf-8")
    cells = table_rows()[ticket.name]
    red = [release for release, cell in cells.items() if cell == "**red**"]
    green = [release for release, cell in cells.items() if cell == "green"]

    assert text.startswith(f"# {ticket.title}\n\n- Project: {ticket.of.upper()}; ")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert red, "a ticket that no version shows"
    said = " ".join(section(text, AFFECTED).split())
    assert said.startswith(f"Shown on {ticket.of} {', '.join(red)}."), "fix: python -m tests.spark_tickets"
    assert ("Not on" in said) == bool(green)
    assert not green or f"Not on {', '.join(green)}." in said
    assert "expected" in section(text, PRINTED)


@pytest.mark.parametrize("ticket", TICKETS)
def test_the_table_has_every_version_and_what_is_known_of_it(ticket):
    cells = table_rows()[ticket.name]

    assert tuple(cells) == (RELEASES if ticket.of == "Spark" else spark_tickets.KAFKAS)
    for release, cell in cells.items():
        known = ("**red**" if ticket.is_affected(release) else "green") if ticket.is_for(release) else ""
        assert cell in (known, "?" if known else ""), release


def test_the_programs_of_joins_differ_in_their_cases_only():
    found: dict[str, set[str]] = {name: set() for name in SHARED}
    for name, module in tree.modules("spark_bugs"):
        functions = {
            node.name: ast.unparse(node) for node in module.body if isinstance(node, ast.FunctionDef)
        }
        if name.endswith("/repro.py") and "join" in functions:
            for shared in SHARED:
                found[shared].add(functions[shared])

    assert {name: len(texts) for name, texts in found.items()} == dict.fromkeys(SHARED, 1)


def test_a_section_is_replaced_and_nothing_else():
    text = "# T\n\n## A\n\nold\n\n## B\n\nkept\n"

    assert replaced_section(text, "A", "new") == "# T\n\n## A\n\nnew\n\n## B\n\nkept\n"
    assert replaced_section(text, "B", "new") == "# T\n\n## A\n\nold\n\n## B\n\nnew\n"
    with pytest.raises(ValueError, match="no section"):
        replaced_section(text, "C", "new")
