"""The cases of the known defects, run on one Spark after the other, each on a stack of its own.

Always local processes, through Kafka, with Spark's own sink: the exactly-once sink needs Spark 4.1. A cell is clear
only where the judge and the telling row of the case say the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tidemark import paths
from tidemark.campaigns.campaign import Campaign, free_directory
from tidemark.errors import TidemarkError, UsageError
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.trace import TraceReader
from tidemark.oracle import Verdict
from tidemark.oracle.spark.known_defects import DEFECTS, Defect, DefectCase
from tidemark.reports.versions_report import Cell, Results, answer_of, of_versions
from tidemark.runner.one_run import new_run_directory, run
from tidemark.runner.pipeline_code import describe
from tidemark.runner.run_options import RunOptions
from tidemark.stack import Stack, StackSpec, lease
from tidemark.stack.install.jars import connector_version
from tidemark.stack.install.toolchain import Spark, find_spark

SINK = "spark"


def sparks(pythons: Sequence[Path]) -> list[Spark]:
    """The PySpark of each interpreter; raises ``TidemarkError`` for one that cannot serve, or is there twice."""
    found = [find_spark(python) for python in pythons]
    for spark in found:
        connector_version(spark.version)
    for spark in found:
        same = [other for other in found if other.version == spark.version]
        if len(same) > 1:
            raise UsageError(
                f"PySpark {spark.version} is there twice",
                detail="\n".join(str(other.python) for other in same),
                hint="give one interpreter for each version",
            )
    return found


def cases(names: Sequence[str] = ()) -> list[tuple[Defect, DefectCase]]:
    """The cases of these names (all, if there is none) with their defects; raises ``UsageError`` for an unknown one."""
    every = [(defect, case) for defect in DEFECTS for case in defect.cases]
    known = [case.name for _, case in every]
    for name in names:
        if name not in known:
            raise UsageError(f"there is no case {name!r}", hint=f"there are {', '.join(known)}")
    return [(defect, case) for defect, case in every if not names or case.name in names]


Versions = Campaign["Trial", Cell]


def campaign(**options: Any) -> Versions:
    """The campaign of cells; ``options`` are those of every campaign. A cell that is not clear is tried again."""
    return Versions(
        "versions", Cell, lambda cell: cell.answer != "unclear", keep_failures=False, what="cases", every=1,
        line=lambda cell: f"Spark {cell.spark}, {cell.case}: {cell.answer}", **options,
    )  # fmt: skip


def new_folder() -> Path:
    """Where the evidence of cells goes: a folder of its own for each time that they are tried."""
    return paths.runs_dir() / "versions" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")


def try_all(
    found: Sequence[Spark],
    every: Sequence[tuple[Defect, DefectCase]],
    trials: Versions,
    runs: Path,
    heard: Callable[[Results], None] = lambda _: None,
) -> Results:
    """Run every case on every Spark that knows it. A failure is an unclear cell; only an interruption ends it.

    Evidence goes below ``runs``. ``heard`` hears of all results so far after each cell.
    """
    mine = {
        spark: [
            Trial(spark, defect, case, free_directory(runs / spark.version / case.name))
            for defect, case in every
            if case.is_for(spark.version)
        ]
        for spark in found
    }
    trials.total = sum(map(len, mine.values()))
    versions: dict[str, dict[str, str]] = {}
    trials.ended = lambda _: heard(of_versions(versions, [*trials.outcomes.values()]))
    for spark, known in mine.items():
        versions[spark.version] = {"spark": spark.version}
        try:
            with _stack(spark) as stack:
                versions[spark.version] = dict(stack.versions)
                trials.run(known, partial(Trial.cell, stack=stack))
        except TidemarkError as error:
            trials.run(known, partial(Trial.failed, error=error))
        if trials.interrupted:
            break
    return of_versions(versions, list(trials.outcomes.values()))


@contextmanager
def _stack(spark: Spark) -> Iterator[Stack]:
    """A stack with this Spark, beside the one that may be running."""
    home = paths.state_dir() / "versions" / spark.version
    with lease(StackSpec(python=spark.python), home=home) as stack:
        yield stack


@dataclass(frozen=True)
class Trial:
    """One case on one Spark; its evidence goes to ``path``."""

    spark: Spark
    defect: Defect
    case: DefectCase
    path: Path

    def __str__(self) -> str:
        return f"{self.case.name} on Spark {self.spark.version}"

    def cell(self, stack: Stack) -> Cell:
        """Run the case."""
        folder, case = paths.spark_bugs_dir(), self.case
        options = RunOptions(
            str(folder / case.pipeline),
            trace=folder / case.trace,
            sink=SINK,
            conf=case.conf,
            python=self.spark.python,
            run_dir=self.path,
        )
        try:
            contract = describe(options.pipeline, self.spark.python)
            directory = new_run_directory(options, contract)
            verdict = run(options, contract, directory, stack=stack).verdict
        except TidemarkError as error:
            return self.failed(error)
        came = case.row in rows_of(directory)
        reasons = [
            *batches_as_planned(directory),
            *disagreement(self.defect, case, came, verdict),
        ]
        return Cell(
            defect=self.defect.name,
            case=case.name,
            spark=self.spark.version,
            answer="unclear" if reasons else answer_of(case, came),
            came=came,
            verdict=verdict.verdict,
            findings=verdict.findings_total,
            said=verdict.findings[0].message if verdict.findings else "",
            inconclusive=reasons,
            run_dir=str(self.path),
        )

    def failed(self, error: TidemarkError) -> Cell:
        """The cell of a case that could not be run."""
        words = f"{error.message} ({error.detail.splitlines()[0]})" if error.detail else error.message
        return Cell(
            defect=self.defect.name, case=self.case.name, spark=self.spark.version, answer="unclear",
            inconclusive=[words],
        )  # fmt: skip


def rows_of(directory: RunDirectory) -> set[tuple[str | None, str | None]]:
    """``left_id`` and ``right_id`` of every output row."""
    values = [json.loads(record.value or "{}") for record in directory.output()]
    return {(value.get("left_id"), value.get("right_id")) for value in values}


def batches_as_planned(directory: RunDirectory) -> list[str]:
    """Why a run is inconclusive: its batches did not read the trace slice by slice, so that the case was not tried."""
    wanted: list[dict[str, int]] = []
    with TraceReader(directory.path / "trace.jsonl") as trace:
        ends = dict.fromkeys(trace.header.topics, 0)
        wanted = [dict(ends) for _ in range(trace.header.slices)]
        for record in trace:
            for later in wanted[record.slice :]:
                later[record.topic] += 1
        together = trace.header.pace == "backlog"
    read = [
        {topic: sum(ends.values()) for topic, ends in batch.end_offsets.items()}
        for batch in directory.batches()
    ]
    # Data batch after data batch where that is the pace; else each slice has batches without data behind it.
    seen = read if together else [ends for n, ends in enumerate(read) if n == 0 or ends != read[n - 1]]
    if seen[: len(wanted)] == wanted:
        return []
    return [f"the batches ended at {read}, not slice by slice at {wanted}"]


def disagreement(defect: Defect, case: DefectCase, came: bool, verdict: Verdict) -> list[str]:
    """Why a run is inconclusive: the judge does not say of it what the telling row says."""
    named = {finding.defect for finding in verdict.findings}
    if answer_of(case, came) == "right":
        if verdict.verdict == "VALID":
            return []
    elif verdict.verdict == "INVALID" and named == {defect.name}:
        return []
    told = ", ".join(f"{n} {name}" for name, n in verdict.findings_total.items()) or "; ".join(
        verdict.inconclusive
    )
    row = " and ".join(name or "NULL" for name in case.row)
    return [
        f"the row of {row} {'came' if came else 'did not come'}, but the judge says {verdict.verdict}: {told}"
    ]
