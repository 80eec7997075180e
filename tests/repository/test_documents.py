"""The documents: they exist, and every command, option and file that they name is real."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.pipeline_loader import names as pipelines
from tests.conftest import TIERS
from tests.repository import tree
from tests.repository.test_makefile import targets
from tests.support.document_blocks import SHELL, blocks
from tidemark.oracle import PROPERTIES

BIN = Path(sys.executable).parent
MADE_BY_HOURS = (
    "tests/results/LONG.md",
    "tests/results/FUZZ.md",
    "tests/results/SOAK.md",
    "tests/results/SOAK-CONTAINERS.md",
    "tests/results/AGAIN.md",
    "tests/results/SPARKS.md",
    "tests/results/UPGRADES.md",
    "tests/results/SHRUNK.md",
)
"""Written by a command that runs for half an hour or more; each is read if it is there."""
DOCUMENTS = (
    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md", "tidemark/sink/README.md",
    "tests/results/DIAGNOSES.md",
    "tests/results/EVIDENCE.md", "tests/results/HISTORIES.md", "tests/results/JOINS.md", "tests/results/SCORE.md",
    "tests/golden/README.md", "spark_bugs/README.md",
    *(name for name in MADE_BY_HOURS if (tree.ROOT / name).is_file()),
    *sorted(tree.name_of(path) for one in ("docs", "spark_bugs/tickets") for path in (tree.ROOT / one).rglob("*.md")),
)  # fmt: skip
README = tree.ROOT / "README.md"
LINES_OF_THE_README = 150
"""It says what this is and where the rest is."""
PROGRAMS = {
    "tidemark": [str(BIN / "tidemark")],
    "producers": [sys.executable, "-m", "producers"],
    "pipelines": [sys.executable, "-m", "pipelines"],
}
WORD = re.compile(r"[a-z][a-z_-]*")


def code_of(text: str) -> list[str]:
    """The lines of code of a document: of blocks (of a transcript: what is typed), and between backticks."""
    lines = []
    for block in blocks(text):
        if block.language not in (*SHELL, "text", ""):
            continue
        joined = [line.strip() for line in block.code.replace("\\\n", " ").splitlines()]
        typed = [line.removeprefix("$ ") for line in joined if line.startswith("$ ")]
        lines += typed or joined
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return lines + re.findall(r"`([^`\n]+)`", prose)


def commands(text: str) -> list[list[str]]:
    """Every call of make or of one of the project's programs, as its words; a comment or operator ends it."""
    calls = []
    for line in filter(str.isascii, code_of(text)):  # a picture is not
        for part in re.split(r"\s#|&&|\|\||[|;&>]", line):
            words = [word for word in part.split() if not re.fullmatch(r"[A-Z_]+=\S*", word)]
            words = ["tidemark" if word.endswith(".venv/bin/tidemark") else word for word in words]
            is_module = words[:2] in (["python", "-m"], [".venv/bin/python", "-m"])
            words = words[2:] if is_module else words
            if words and words[0] in (PROGRAMS if is_module else ("make", "tidemark")):
                calls.append(words)
    return calls


@functools.cache
def usage(program: str, command: str = "") -> str:
    """What ``--help`` prints, unwrapped by a wide terminal; empty if there is no such command."""
    arguments = [*PROGRAMS[program], *([command] if command else []), "--help"]
    environment = os.environ | {"COLUMNS": "200", "TERMINAL_WIDTH": "200", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(arguments, cwd=tree.ROOT, env=environment, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def problem_with(words: list[str]) -> str:
    """What is not real about a command; empty if it is."""
    program, *arguments = words
    said = " ".join(words)
    if program == "make":
        unknown = {word for word in arguments if WORD.fullmatch(word)} - targets()
        return f"{said}: no such target: {sorted(unknown)}" if unknown else ""
    if (program, arguments[:1]) == ("tidemark", ["producers"]):  # hands everything on
        program, *arguments = arguments
    command = arguments[0] if arguments and WORD.fullmatch(arguments[0]) else ""
    shown = usage(program, command)
    if not shown:
        return f"{said}: no such command"
    options = {word.split("=")[0] for word in arguments if word.startswith("--")}
    unknown = {option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", shown)} - {
        "--help"
    }
    return f"{said}: no such option: {sorted(unknown)}" if unknown else ""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_document_is_there(document):
    assert (tree.ROOT / document).is_file()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_in_it_is_real(document):
    found = [
        problem for words in commands((tree.ROOT / document).read_text()) if (problem := problem_with(words))
    ]
    assert not found, "\n".join([*found, f"fix: {document}, or the command"])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_in_it_leads_to_a_file(document):
    text = (tree.ROOT / document).read_text()
    links = [link for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) if "://" not in link]
    missing = [link for link in links if not (tree.ROOT / document).parent.joinpath(link).exists()]
    assert not missing, f"{missing}: no such file\nfix: the link in {document}"


def test_every_document_of_the_tree_is_read():
    there = {tree.name_of(path) for path in tree.files() if path.suffix == ".md"}
    assert there == set(DOCUMENTS), "fix: the table DOCUMENTS"


def test_the_readme_names_the_test_command_that_ci_runs():
    readme = (tree.ROOT / "README.md").read_text()
    assert any(line.startswith("make up && pytest ") for line in code_of(readme))
    assert ["make", "test"] in [words[:2] for words in commands(readme)]
    done = [line for line in (tree.ROOT / ".ci" / "run").read_text().splitlines() if not line.startswith("#")]
    for command in ("make up", ".venv/bin/pytest", "make test"):
        assert command in "\n".join(done)


def test_the_readme_is_short():
    lines = len(README.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES_OF_THE_README, f"{lines} lines\nfix: what is more belongs into docs/"


def test_the_reference_has_every_pipeline_and_what_of_it_is_checked():
    told = (tree.ROOT / "docs" / "reference" / "pipelines.md").read_text(encoding="utf-8")
    missing = [name for name in (*pipelines(), *PROPERTIES) if f"`{name}`" not in told]
    assert not missing, f"fix: docs/reference/pipelines.md lacks {missing}"


def test_contributing_has_every_tier():
    missing = [name for name in TIERS if f"`{name}`" not in (tree.ROOT / "CONTRIBUTING.md").read_text()]
    assert not missing, f"fix: CONTRIBUTING.md, 'Run the tests', lacks {missing}"


def test_commands_are_read_out_of_a_document():
    text = "Type `make up && pytest`, or\n\n```sh\n$ .venv/bin/tidemark run inner --seed 7  # seeded\n```\n"
    assert commands(text) == [["tidemark", "run", "inner", "--seed", "7"], ["make", "up"]]


def test_what_is_not_real_is_found():
    assert "no such target" in problem_with(["make", "coffee"])
    assert "no such command" in problem_with(["tidemark", "brew"])
