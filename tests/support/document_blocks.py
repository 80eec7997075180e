"""The code of a document: which blocks there are, how each is marked, and running them as a reader would.

A mark is an HTML comment in the line above a block:

``<!-- file: NAME -->``      the block is that file, for the blocks below it
``<!-- runs: stack -->``     it needs a stack; tests/e2e/test_documents.py runs it
``<!-- not run: REASON -->`` it needs what a test cannot have

A block without a mark runs in tests/repository/test_document_blocks.py: shell and Python are run, JSON is read.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

from tests.repository import tree
from tidemark.formats.chain import read_contract
from tidemark.formats.trace import TraceReader

SHELL = ("sh", "bash", "console")
SHOWN = ("text", "{toctree}", "{warning}", "{note}", "{tip}")
"""What nobody types: output, and what the site is made with."""
LANGUAGES = (*SHELL, "python", "json", *SHOWN)
LINKED = ("tests", "pipelines", "producers", "spark_bugs")
"""Folders of the checkout that commands name; the rest of a reader's folder is empty."""
ENDS_THE_STACK = re.compile(r"^(?:\$ )?(?:tidemark|make) (?:down|up|test|clean)\b", re.MULTILINE)
COMMAND_S = 900.0
"""Calibration: the longest block, two runs in a pytest, takes 90 s on idle cores and 400 s on busy ones."""

_BLOCK = re.compile(
    r"(?:^[ ]*<!--[ ]*(?P<comment>[^\n]*?)[ ]*-->\n)?"
    r"^(?P<indent>[ ]*)```(?P<language>\S*)\n(?P<code>.*?)^[ ]*```$",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_MARKS = ("file", "runs", "not run")


class Block(NamedTuple):
    """One fenced block: its line in the document, language, code, and mark (empty: none) with what it says."""

    line: int
    language: str
    code: str
    mark: str
    told: str


def blocks(text: str) -> list[Block]:
    """The blocks of a document, in order."""
    found = []
    for block in _BLOCK.finditer(text):
        mark, _, told = (block["comment"] or "").partition(":")
        line = text.count("\n", 0, block.start("code"))
        found.append(Block(line, block["language"], textwrap.dedent(block["code"]), mark, told.strip()))
    return found


def problem_with(block: Block, later: list[Block]) -> str:
    """What is wrong with a block or its mark; empty if nothing."""
    if block.language not in LANGUAGES:
        return f"the language {block.language!r} is none of {', '.join(LANGUAGES)}"
    if block.mark and block.mark not in _MARKS:
        return f"{block.mark!r} is no mark; there are {', '.join(_MARKS)}"
    if block.language in SHOWN:
        return f"a mark is for code, not for {block.language}" if block.mark else ""
    if block.mark == "runs":
        if block.told != "stack" or block.language not in (*SHELL, "python"):
            return "only shell and Python run, and only on a `stack`"
        if ENDS_THE_STACK.search(block.code):
            return "starts or ends the stack that other tests use; fix: `not run`, with that reason"
    if block.mark == "file" and not any(_is_used(block.told, other) for other in later):
        return f"no block below uses the file {block.told}"
    if block.mark == "not run" and len(block.told) < 5:
        return "no reason is given"
    return ""


def _is_used(file: str, block: Block) -> bool:
    """Whether a block names a file, or imports the module that it is."""
    module = file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return file in block.code or (file.endswith(".py") and module in block.code)


def reader_folder(folder: Path) -> Path:
    """A folder in which a reader types: the checkout's own folders are there, and nothing else."""
    for name in LINKED:
        (folder / name).symlink_to(tree.ROOT / name)
    return folder


def carry_out(block: Block, folder: Path) -> None:
    """Run, write or read a block; an ``AssertionError`` says what came of it."""
    if block.language in SHOWN or block.mark == "not run":
        if block.language == "python" and not block.told.startswith("a fragment"):
            compile(block.code, "block", "exec")
        return
    if block.mark == "file":
        _write(folder / block.told, block.code)
    elif block.language == "json":
        _read_json(block.code)
    else:
        command = ["bash", "-euo", "pipefail", "-c", block.code]
        _run([sys.executable, "-c", block.code] if block.language == "python" else command, block, folder)


def _write(path: Path, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code, encoding="utf-8")
    if path.suffix == ".py":
        compile(code, str(path), "exec")
    elif path.suffix == ".jsonl":
        with TraceReader(path) as records:
            assert list(records), f"{path.name} has no records"
    elif path.suffix == ".json":
        _read_json(code)


def _read_json(code: str) -> None:
    read = json.loads(code)
    if isinstance(read, dict) and {"kind", "chain"} & read.keys():
        read_contract(read)


def _run(command: list[str], block: Block, folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"line {block.line}: {block.code}\n{done.stdout}\n{done.stderr}"
