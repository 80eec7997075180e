"""The life of a row as data: where it was published, what became of it, and which rows it could have been joined with.

Free of judgement, of HTML and of I/O. ``tidemark.reports.followed_rows`` makes it of a run and its verdict. What was
expected and what was observed stand side by side; a *step* is ``wrong`` only if a finding of the verdict says so. Times
are microseconds since the epoch, watermarks milliseconds.
"""

from __future__ import annotations

import msgspec


class LifeStep(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that happened to a row, in words; ``batch`` is the batch that did it."""

    what: str
    expected: str = ""
    observed: str = ""
    batch: int | None = None
    wrong: bool = False


class CandidateRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A row of the other side that was or could have been a partner, and ``why`` it was, or was not.

    ``row`` is its index in ``RowLives.rows``; ``outside_us`` is how far its time is outside of the bound (above 0: too
    late, below 0: too early).
    """

    row: int
    name: str
    place: str
    time: str
    batch: int | None
    why: str
    matches: bool = False
    outside_us: int = 0


class OutputArrival(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An output record: where it is in the output topic, and which batch, task and attempt say that they wrote it.

    ``batch`` is ``None`` in an audit whose output names none.
    """

    place: str
    batch: int | None
    partition: str = ""
    attempt: str = ""


class MadeRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An output row that is made of a row: alone or with ``partner``, an index in ``RowLives.rows``.

    ``due`` is the batch in which it is expected (``None``: it is not, or not in one that is known), ``came`` its
    records that name their batch, ``observed`` all of them in words.
    """

    name: str
    expected: str
    due: int | None = None
    partner: int | None = None
    came: list[OutputArrival] = []
    observed: str = ""
    wrong: bool = False


class RowLife(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An input row. ``input`` is its number in ``RunView.inputs``, ``key`` its join key, as one text.

    ``became`` is ``accepted``, ``late``, ``filtered``, ``unreadable`` or ``unread``; of a chain it is ``followed``, and
    little more is known. ``late_ms`` is the late watermark that it was compared with. Partners match in ``earliest_us``
    to ``latest_us``; ``None``: that end is open. ``stored`` and ``removed`` are the batches by which it enters and
    leaves the state by Spark's rules, and ``evicted_ms`` the watermark that evicts it. ``more`` counts candidates that
    are not listed. ``made`` has the output rows that can be drawn: due in a known batch, or come in one.
    """

    name: str
    input: int
    key: str
    place: str
    time: str
    became: str
    time_us: int | None = None
    batch: int | None = None
    late_ms: int | None = None
    earliest_us: int | None = None
    latest_us: int | None = None
    stored: int | None = None
    removed: int | None = None
    evicted_ms: int | None = None
    steps: list[LifeStep] = []
    candidates: list[CandidateRow] = []
    more: int = 0
    made: list[MadeRow] = []


class FollowedFinding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A finding of the verdict, by its index there, and the input rows that its row is made of."""

    finding: int
    property: str
    name: str
    expected: str
    observed: str
    rows: list[int]
    batch: int | None = None


class RowLives(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The rows that were followed: those of findings first, with their candidates; ``notes`` say what is left out.

    ``of_rows`` counts the rows that could have been.
    """

    rows: list[RowLife] = []
    findings: list[FollowedFinding] = []
    of_rows: int = 0
    notes: list[str] = []


def of_findings(lives: RowLives) -> RowLives:
    """The same without the rows that no finding names and that are no candidates of one."""
    named = {row for finding in lives.findings for row in finding.rows}
    kept = sorted(named | {one.row for row in named for one in lives.rows[row].candidates})
    index = {row: at for at, row in enumerate(kept)}
    rows = [_with_rows(lives.rows[row], index) for row in kept]
    findings = [msgspec.structs.replace(one, rows=[index[row] for row in one.rows]) for one in lives.findings]
    return RowLives(rows=rows, findings=findings, of_rows=lives.of_rows, notes=lives.notes)


def _with_rows(life: RowLife, index: dict[int, int]) -> RowLife:
    """A life whose rows have other places; a row that has none is named, and cannot be looked at."""
    candidates = [msgspec.structs.replace(one, row=index.get(one.row, -1)) for one in life.candidates]
    made = [
        msgspec.structs.replace(one, partner=None if one.partner is None else index.get(one.partner, -1))
        for one in life.made
    ]
    return msgspec.structs.replace(life, candidates=candidates, made=made)
