"""Runs a group of cells: half of the events on the older Spark, the others on the newer one, then the judgement.

The older Spark reads two slices. It is stopped when all is read and no batch is due; or it is killed when the batch
of the second slice is half written: the newer one then runs that batch again. Then come a slice, and one far in the
future, with which every NULL row is due.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.e2e.foreign_query import ForeignSpark
from tests.upgrades.cells import Group, conf_of
from tests.upgrades.refusals import known_refusal
from tests.upgrades.site import JoinQuery, Site, last_left
from tidemark.errors import TidemarkError
from tidemark.formats.evidence import OutputRecord
from tidemark.sparkfiles.query_log import QueryLog, read_query_log

KILLED_IN = 1
"""The slice whose batch the older Spark does not finish, if it is killed."""
SLICES = 3
"""So many slices are read, and then the one far in the future."""
FORMAT_SETTING = "spark.sql.streaming.join.stateFormatVersion"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a cell.

    ``said`` is ``VALID``, ``INVALID``, ``UNKNOWN``, ``failed``, or ``refused`` of a query that an exception ended;
    ``by`` is the Spark that ended it, ``words`` its words, or those of the judge. ``format`` is the state format in the
    log. ``old_batches`` and ``new_batches`` are those that each Spark planned and committed; ``both`` is the batch that
    both ran. ``rows`` is how many came, ``carried`` how many of them the newer Spark made of a row that the older one
    had committed, ``again`` how many came again in the batch that ran twice (``None``: they were not counted).
    """

    old: str
    new: str
    ended: str
    kind: str
    state: str
    said: str
    by: str = ""
    words: str = ""
    format: str = ""
    old_batches: tuple[int, int] | None = None
    new_batches: tuple[int, int] | None = None
    both: int | None = None
    rows: int = 0
    carried: int = 0
    again: int | None = None
    late: int = 0
    findings: dict[str, int] = {}
    defects: list[str] = []

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong but known defects of Spark, and the state of the older one was used.

        Also whether the older Spark refuses the state format as it is known to; nothing else may end a query.
        """
        if self.said == "refused":
            known = known_refusal(self.state, self.kind, self.by, self.words)
            return self.by == self.old and known is not None
        explained = self.said == "INVALID" and bool(self.defects) and "" not in self.defects
        return (self.said == "VALID" or explained) and self.carried > 0


class GroupOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a group."""

    cells: list[Cell]
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether all its cells hold."""
        return not self.problem and all(cell.holds for cell in self.cells)


def run_group(
    group: Group, bootstrap: str, folder: Path, spark_of: Callable[[str], ForeignSpark]
) -> GroupOutcome:
    """Run and judge a group. A failure of the harness is a ``problem``; only an interruption ends the campaign."""
    folder = folder / re.sub(r"[^A-Za-z0-9.]+", "-", str(group))
    shutil.rmtree(folder, ignore_errors=True)
    queries = [
        JoinQuery(
            f"{kind}-{state.replace(', ', '-')}-{ended}", str(kind), folder, dict(conf_of(state)),
            stall=last_left(KILLED_IN) if ended == "killed" else "",
        )
        for kind, state, ended in group.cells
    ]  # fmt: skip
    site = Site(bootstrap, folder, queries)
    try:
        cells = _run(group, site, spark_of)
    except TidemarkError as error:
        return GroupOutcome(cells=[], problem=f"{error.message}\n{error.detail}")
    if all(cell.holds for cell in cells):
        site.drop()
        shutil.rmtree(folder, ignore_errors=True)
    return GroupOutcome(cells=cells)


def _run(group: Group, site: Site, spark_of: Callable[[str], ForeignSpark]) -> list[Cell]:
    with site.running(spark_of(group.old)) as program:
        for number in range(KILLED_IN + 1):
            site.feed()
            site.await_read(program, stalled=number == KILLED_IN)
        for query in site.queries:
            if not query.stall and not query.refused:
                site.stop(program, query)
        site.kill(program)
    refused_by_old = {query.name for query in site.queries if query.refused}
    before = {query.name: read_query_log(query.checkpoint) for query in site.queries if not query.refused}
    for query in site.queries:
        query.stall = ""
    with site.running(spark_of(group.new)) as program:
        site.await_read(program)
        for number in range(KILLED_IN + 1, SLICES + 1):
            site.feed(at_end=number == SLICES)
            site.await_read(program)
    found = []
    for (kind, state, ended), query in zip(group.cells, site.queries, strict=True):
        cell = Cell(old=group.old, new=group.new, ended=ended, kind=str(kind), state=state, said="refused")
        if query.refused:
            by = group.old if query.name in refused_by_old else group.new
            cell = msgspec.structs.replace(cell, by=by, words=words_of(query.refused))
        else:
            cell = judged(cell, site, query, before[query.name])
        found.append(cell)
    return found


def judged(cell: Cell, site: Site, query: JoinQuery, before: QueryLog) -> Cell:
    """The cell of a query that both Sparks ran: who ran which batch, and what the judge says of it."""
    planned, after = before.planned[-1].batch, read_query_log(query.checkpoint)
    is_half = planned not in before.committed
    first = planned if is_half else planned + 1
    last = after.planned[-1].batch
    records = site.records(query)
    wrong = _of_other_spark(records, cell, planned, first)
    result = site.audit(
        query, query.checkpoint.parent / "audit", spark_version=f"{cell.old}@:{planned},{cell.new}@{first}:"
    )
    verdict = result.verdict
    said = verdict.verdict
    words = "; ".join([*wrong, *verdict.inconclusive, *(one.message for one in verdict.findings[:2])])
    return msgspec.structs.replace(
        cell, said="failed" if wrong else said, words=words, format=after.conf.get(FORMAT_SETTING, ""),
        old_batches=(0, planned), new_batches=(first, last), both=planned if is_half else None,
        rows=len(records), carried=_carried(records, cell), again=verdict.counts["permitted_duplicates"],
        late=verdict.counts.get("late", 0), findings=dict(verdict.findings_total),
        defects=sorted({finding.defect or "" for finding in verdict.findings}),
    )  # fmt: skip


def _of_other_spark(records: list[OutputRecord], cell: Cell, planned: int, first: int) -> list[str]:
    """What a record says of its Spark, if the checkpoints say otherwise."""
    by_batch = Counter((int(one.header("batch") or -1), one.header("spark")) for one in records)
    return [
        f"{number} records of batch {batch} are of Spark {spark}"
        for (batch, spark), number in by_batch.items()
        if not ((spark == cell.old and batch <= planned) or (spark == cell.new and batch >= first))
    ]


def _carried(records: list[OutputRecord], cell: Cell) -> int:
    """The records that the newer Spark made of a row of a slice that the older one had read."""
    values = [json.loads(one.value or "{}") for one in records if one.header("spark") == cell.new]
    slices = KILLED_IN + (cell.ended == "stopped")
    return sum(
        any(name is not None and int(name[1:].partition("-")[0]) < slices for name in value.values())
        for value in values
    )


def words_of(refusal: str) -> str:
    """What an exception of Spark says first, without the query's ids and that the stream failed."""
    lines = [line.strip() for line in refusal.splitlines() if line.strip()]
    told = next(
        (line for line in lines if "Exception" in line or line.startswith("[")), lines[0] if lines else ""
    )
    told = told.rpartition("terminated with exception: ")[2]
    return re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID", told)[:400]
