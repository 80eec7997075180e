"""Docstrings as Markdown: what this project's docstrings use of reStructuredText, and nothing else.

Free of Sphinx, because the pages that come out are committed and read as they are.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

_COLUMNS = re.compile(r"^(``[^`]+``(?:, ``[^`]+``)*) {2,}(.*)$")
_TERM = re.compile(r"^(``[^`]+``(?:, ``[^`]+``)*)$")
_LABEL = re.compile(r"^(Example|Usual causes|Next): ")
_FREE_OF = re.compile(r"\AFree of .*?[a-z`]\.(?:\s+(?=[A-Z`])|\Z)", re.DOTALL)
"""What a module does without is for its maintainers."""
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def markdown(docstring: str) -> str:
    """A docstring's text after its first line, which is the page's title: paragraphs, lists, tables and code."""
    lines = docstring.expandtabs().splitlines()[1:]
    blocks = [_FREE_OF.sub("", block) for block in _blocks(lines)]
    return "\n\n".join(filter(None, blocks))


def inline(text: str) -> str:
    """Roles and double backticks as Markdown has them."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table; ``|`` in a cell is escaped."""
    shown = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in shown)


def _blocks(lines: list[str]) -> Iterator[str]:
    """Each paragraph in its Markdown; after one that ends in ``::`` comes code, up to the next line of its depth."""
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].strip():
            end += 1
        block = lines[at:end]
        at = end
        if block[-1].endswith("::"):
            depth = _depth(block[0])
            while end < len(lines) and (not lines[end].strip() or _depth(lines[end]) > depth):
                end += 1
            code, rest = _code(lines[at:end])
            yield _paragraph([*block[:-1], block[-1].removesuffix("::") + ":"])
            yield f"```text\n{code}\n```"
            lines = [*lines[:end], *rest, *lines[end:]] if rest else lines
            at = end
        elif set(block[0].strip()) <= {"=", " "}:
            yield _columns(block)
        elif any("├" in line for line in block):
            yield "```text\n" + textwrap.dedent("\n".join(block)) + "\n```"
        else:
            yield _paragraph(block)


def _code(lines: list[str]) -> tuple[str, list[str]]:
    """The code that follows ``::``, and what comes after it: of a smaller depth, or prose that begins with a name."""
    depth = next(_depth(line) for line in lines if line.strip())
    for end, line in enumerate(lines):
        if line.strip() and (_depth(line) < depth or line.strip().startswith("``")):
            return textwrap.dedent("\n".join(lines[:end])).strip("\n"), lines[end:]
    return textwrap.dedent("\n".join(lines)).strip("\n"), []


def _columns(block: list[str]) -> str:
    """A simple table of reStructuredText; the first row is its header only if a rule follows it."""
    starts = [found.start() for found in re.finditer("=+", block[0])]
    rules = [number for number, line in enumerate(block) if set(line.strip()) <= {"=", " "}]
    rows: list[list[str]] = []
    for number, line in enumerate(block):
        if number in rules:
            continue
        cells = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    header = rows.pop(0) if len(rules) > 2 else [""] * len(starts)
    return inline(table(header, rows))


def _paragraph(block: list[str]) -> str:
    if _TERM.match(block[0].strip()) and len(block) > 1:
        return _definition(block)
    if not any(_COLUMNS.match(line) for line in block):
        return inline(textwrap.dedent("\n".join(block)))
    shown = []
    for line in block:
        found = _COLUMNS.match(line)
        shown.append(f"- {found[1]}: {found[2]}" if found else f"  {line.strip()}")
    return inline("\n".join(shown))


def _definition(block: list[str]) -> str:
    """A term and what is said of it, with a line for each label."""
    shown = [f"## {block[0].strip()}", ""]
    for line in block[1:]:
        text = line.strip()
        label = _LABEL.match(text)
        if label and shown[-1]:
            shown.append("")
        shown.append(f"**{label[1]}:** {text[label.end() :]}" if label else text)
    return inline("\n".join(shown))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
