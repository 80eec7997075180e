"""Verdicts in Markdown, for the comment of a pull request or the summary of a CI job.

Free of judgement and of I/O. Whatever comes from evidence stands in a code span or a code block, on one line, so that
no value is markup, a link, a mention of somebody (``@team``) or of a ticket (``#12``). A text is no longer than
``LONGEST`` characters: GitHub takes 65,536 in a comment. What did not fit is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tidemark.reports.markdown import table
from tidemark.reports.reported_runs import ReportedRun
from tidemark.reports.run_index import RunLine
from tidemark.reports.shown_text import one_line
from tidemark.reports.verdict_page import FindingGroup, VerdictPage, verdict_page

LONGEST = 60_000
LONGEST_VALUE = 500
"""So many characters of one value are shown."""
LONGEST_COMMAND = 2_000
SHOWN_HEADLINES = 4
ORDER = ("INVALID", "refused", "UNKNOWN", "VALID")
"""Verdicts, those to look at first."""
_CODE = re.compile(r"``([^`]+)``|`([^`\n]+)`")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~@&$:-])")


def markdown_of(runs: Sequence[ReportedRun], *, is_folder: bool = False, longest: int = LONGEST) -> str:
    """The document of one run, or of the runs of a folder: a table, and a section for each that is not ``VALID``."""
    if not is_folder:
        [one] = runs
        return _fitted([*_run(one, "###")], longest)
    lines = sorted((one.line() for one in runs), key=lambda line: ORDER.index(line.verdict))
    blocks = [_title(lines), *_rows(lines, longest // 2)]
    for one in sorted(runs, key=_order):
        if one.verdict is not None and one.verdict.verdict != "VALID":
            blocks += _run(one, "####")
    return _fitted(blocks, longest)


def code(text: object, longest: int = LONGEST_VALUE) -> str:
    """A value as a code span: on one line, and with a fence that is longer than any run of backticks in it."""
    shown = one_line(str(text), longest)
    if not shown:
        return "(empty)"
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    edge = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def _order(one: ReportedRun) -> int:
    return ORDER.index("refused" if one.verdict is None else one.verdict.verdict)


def _fitted(blocks: Iterable[str], longest: int) -> str:
    """The blocks that fit, with a sentence about the others; the first is always there."""
    kept: list[str] = []
    left_out, room = 0, longest
    for block in blocks:
        if not kept or len(block) + 2 <= room - 200:
            kept.append(block)
            room -= len(block) + 2
        else:
            left_out += 1
    if left_out:
        kept.append(
            f"*{left_out:,} parts are left out, because this text would be too long; the page has them.*"
        )
    return "\n\n".join(kept) + "\n"


def _title(lines: Sequence[RunLine]) -> str:
    counts = Counter(line.verdict for line in lines)
    said = ", ".join(f"{counts[name]:,} {name}" for name in ORDER if counts[name])
    return f"### {len(lines):,} runs: {said}"


def _rows(lines: Sequence[RunLine], longest: int) -> Iterator[str]:
    """The table of the runs; those that do not fit are counted."""
    head = ("verdict", "run", "pipeline", "what is said of it", "sink", "seed", "faults")
    rows = [
        (
            line.verdict,
            code(line.name),
            code(line.pipeline),
            *map(_cell, (line.said, line.sink, line.seed, line.faults)),
        )
        for line in lines
    ]
    top, rule, *written = table(head, rows)
    room, kept = longest, [top, rule]
    for row in written:
        room -= len(row) + 1
        if room < 0:
            break
        kept.append(row)
    yield "\n".join(kept)
    if len(kept) - 2 < len(rows):
        yield f"*… and {len(rows) - len(kept) + 2:,} more runs.*"


def _cell(text: str) -> str:
    return code(text) if text else ""


def _run(one: ReportedRun, heading: str) -> Iterator[str]:
    """The blocks of a run that was judged."""
    if one.verdict is None:
        return
    run = one.run
    page = verdict_page(one.verdict, run.manifest, run.faults())
    yield f"{heading} {page.verdict}: {code(page.pipeline)}"
    about = [f"{name} {code(value)}" for name, value in page.about if name in ("Spark", "sink", "seed")]
    yield f"{', '.join([f'run {code(one.name)}', code(page.kind), f'judged as {code(page.delivery)}', *about])}."
    yield _headlines(page)
    if page.diagnosis:
        yield f"**Diagnosis**: {' '.join(code(line) for line in page.diagnosis)}"
    yield from _groups("Findings", page.new)
    yield from _groups("Known defects of Spark", page.known)
    if page.inconclusive:
        yield "\n".join(
            ["**Inconclusive because**", "", *(f"- {code(reason)}" for reason in page.inconclusive)]
        )
    if page.notes:
        yield "\n".join(["**Notes**", "", *(f"- {code(note)}" for note in page.notes)])
    yield from _commands(page)
    yield "<details><summary>Counts</summary>"
    yield "\n".join(table(("what", "how many"), [(name, code(value)) for name, value in page.counts]))
    yield "</details>"


def _headlines(page: VerdictPage) -> str:
    if not page.headlines:
        return "No finding: every row that was owed came as it was due, and nothing else did."
    shown = [f"> {code(line)}" for line in page.headlines[:SHOWN_HEADLINES]]
    more = len(page.headlines) - SHOWN_HEADLINES
    return "\n>\n".join([*shown, f"> and {more:,} more, below"] if more > 0 else shown)


def _groups(title: str, groups: Sequence[FindingGroup]) -> Iterator[str]:
    if groups:
        yield f"**{title}**"
    for group in groups:
        yield "\n".join(_group(group))


def _group(group: FindingGroup) -> Iterator[str]:
    yield f"- {code(group.name)}: {group.total:,}{', accepted' if group.accepted else ''}"
    if group.said:
        yield f"  - {code(group.said)}"
    if group.smallest is not None:
        yield f"  - smallest example: {code(group.smallest.message)}"
    if group.note.causes:
        yield f"  - what usually causes this: {_plain('; '.join(group.note.causes))}"
    if group.note.next:
        yield f"  - next: {_plain(group.note.next)}"
    if group.ticket:
        yield f"  - ticket: {code(group.ticket)}"


def _commands(page: VerdictPage) -> Iterator[str]:
    if page.command:
        yield f"**See it again**\n\n{_block(page.command)}"
    yield "Judge it again without a stack, and look at it (`DIR` is its folder): `tidemark check DIR --report`"


def _block(command: str) -> str:
    """A command as a code block."""
    shown = one_line(command, LONGEST_COMMAND)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}sh\n{shown}\n{fence}"


def _plain(text: str) -> str:
    """A text of this project, in which what stands between backticks is code."""
    parts = _CODE.split(text)
    shown = ""
    for plain, double, single in zip(parts[::3], [*parts[1::3], None], [*parts[2::3], None], strict=True):
        shown += _MARKUP.sub(r"\\\1", plain)
        if value := double or single:
            shown += code(value)
    return shown
