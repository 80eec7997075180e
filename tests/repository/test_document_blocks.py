"""Every block of code in the documents for users is run by a test, or says why it cannot be."""

from __future__ import annotations

import pytest

from tests.repository import tree
from tests.support.document_blocks import Block, blocks, carry_out, problem_with, reader_folder

DOCUMENTS = ["README.md", *sorted(tree.name_of(path) for path in (tree.ROOT / "docs").rglob("*.md"))]


def _blocks(document: str) -> list[Block]:
    return blocks((tree.ROOT / document).read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_is_of_a_known_language_and_its_mark_is_right(document):
    found = _blocks(document)
    problems = [
        f"{document}:{block.line}: {problem}"
        for number, block in enumerate(found)
        if (problem := problem_with(block, found[number + 1 :]))
    ]
    assert not problems, "\n".join(
        [*problems, "fix: the block or its mark; tests/support/document_blocks.py has them"]
    )


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if _blocks(name)])
def test_every_block_that_needs_no_stack_runs(document, tmp_path):
    folder = reader_folder(tmp_path)
    for block in _blocks(document):
        if block.mark != "runs":
            carry_out(block, folder)


def test_a_fence_that_no_block_begins_or_ends_is_found():
    for document in DOCUMENTS:
        text = (tree.ROOT / document).read_text(encoding="utf-8")
        fences = sum(line.strip().startswith("```") for line in text.splitlines())
        assert fences == 2 * len(_blocks(document)), document


def test_a_block_that_fails_is_told_with_its_line(tmp_path):
    [block] = blocks("Text\n\n```sh\necho some output; false\n```\n")

    with pytest.raises(AssertionError, match="line 3: echo some output; false\n\nsome output"):
        carry_out(block, tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```\nmake demo\n```", "the language '' is none of"),
        ("<!-- not run: -->\n```sh\nmake demo\n```", "no reason is given"),
        ("<!-- never -->\n```sh\nmake demo\n```", "'never' is no mark"),
        ("<!-- runs: stack -->\n```sh\ntidemark down\n```", "the stack that other tests use"),
        ("<!-- runs: cluster -->\n```sh\ntidemark status\n```", "only on a `stack`"),
        ("<!-- file: my_join.py -->\n```python\nx = 1\n```", "no block below uses the file my_join.py"),
        ("<!-- runs: stack -->\n```text\nVALID\n```", "a mark is for code"),
    ],
)
def test_a_wrong_mark_is_found(text, says):
    [block] = blocks(text)
    assert says in problem_with(block, [])
