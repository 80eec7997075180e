"""Words that are in no file: addresses of registries, paths of one machine, work left for later."""

from __future__ import annotations

import re

from tests.repository import tree

# Written in pieces, so that this file does not hold them either.
HOSTS = [
    ("py" + "pi", "org"),
    ("python" + "hosted", "org"),
    ("maven", "org"),
    ("maven.apache", "org"),
    ("npm" + "js", "org"),
    ("crates", "io"),
    ("proxy.golang", "org"),
    ("deb.debian", "org"),
    ("registry-1.docker", "io"),
    ("gh" + "cr", "io"),
    ("quay", "io"),
]
FOLDERS = ["work", "root", "home/[a-z]+", "Users/[A-Za-z]+"]
WRITTEN_BY_SPARK = "tests/golden/checkpoints/"
"""Files of a checkpoint as they were recorded; they end without a newline."""
LATER = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]


def _lines_with(pattern: str) -> str:
    wanted = re.compile(pattern)
    return "\n".join(
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in tree.texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if wanted.search(line)
    )


def test_no_file_names_the_host_of_a_registry():
    found = _lines_with("|".join(re.escape(".".join(host)) + r"\b" for host in HOSTS))
    assert not found, f"{found}\nfix: leave it to the client's own settings, where a company has its mirror"


def test_no_file_names_a_path_of_one_machine():
    found = _lines_with(r"(?<![\w.~$}\])-])/(" + "|".join(FOLDERS) + r")(/|\b(?=[\"'`\s]))")
    assert not found, f"{found}\nfix: ask tidemark.paths, tmp_path or the environment"


def test_no_file_holds_work_for_later():
    found = _lines_with(r"\b(" + "|".join(LATER) + r")\b")
    assert not found, f"{found}\nfix: do it, or file it where work is planned"


def test_every_text_ends_with_one_newline_and_has_no_trailing_blank():
    found = [
        name
        for name, text in tree.texts()
        if text
        and not name.startswith(WRITTEN_BY_SPARK)
        and (not text.endswith("\n") or text.endswith("\n\n") or re.search(r"[ \t]+$", text, re.MULTILINE))
    ]
    assert not found, f"{found}\nfix: ruff format, or the editor's 'trim trailing whitespace'"
