"""Tables of a document in Markdown: written by every command that writes one, and read back.

Free of what is in them. One that is read back is the table that was written: ``read_table("\\n".join(table(...)))``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of a table. A column whose heading ends in a colon is one of numbers: it is aligned to the right."""
    yield _row(name.removesuffix(":") for name in head)
    yield f"|{'|'.join('---:' if name.endswith(':') else '---' for name in head)}|"
    yield from map(_row, rows)


def read_table(text: str) -> list[tuple[str, ...]]:
    """The rows of the only table of a document, its headings first."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [
        tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]) for row in rows
    ]


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(value: object) -> str:
    """On one line, and a bar in it ends no cell."""
    return " ".join(str(value).split()).replace("|", "\\|")
