"""What a reader of the documents types, typed: every block that needs a stack, in order, on the leased one.

In ``make long``: a document takes minutes. Blocks that need no stack run every day (``tests/repository``).
"""

from __future__ import annotations

import pytest

from tests.repository import tree
from tests.support.document_blocks import blocks, carry_out, reader_folder

TUTORIAL = "docs/tutorial.md"


def _needs_a_stack(document: str) -> bool:
    return any(block.mark == "runs" for block in blocks((tree.ROOT / document).read_text(encoding="utf-8")))


DOCUMENTS = [
    name
    for name in sorted(["README.md", *(tree.name_of(path) for path in (tree.ROOT / "docs").rglob("*.md"))])
    if _needs_a_stack(name)
]


@pytest.mark.long
@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_of_the_document_does_what_it_says(document, stack, tmp_path):
    folder = reader_folder(tmp_path)
    for block in blocks((tree.ROOT / document).read_text(encoding="utf-8")):
        carry_out(block, folder)


def test_the_first_document_of_a_reader_has_blocks_that_run():
    assert TUTORIAL in DOCUMENTS
