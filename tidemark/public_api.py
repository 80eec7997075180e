"""The verbs of the public interface: ``tidemark.run``, ``tidemark.check``, ``tidemark.report`` and ``tidemark.audit``.

Free of work: the run is :mod:`tidemark.runner`, the audit :mod:`tidemark.auditor`, the judgement
:mod:`tidemark.oracle`. The command line and the pytest plugin do what they do through the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

if TYPE_CHECKING:
    from tidemark.auditor import AuditResult
    from tidemark.auditor.audit_options import Report as AuditReport
    from tidemark.diagnosis import Diagnosis
    from tidemark.oracle import Verdict
    from tidemark.oracle.large.engine import OpenEngine
    from tidemark.runner import RunResult
    from tidemark.runner.run_options import Report, Say, Watch


class Options(TypedDict, total=False):
    """The options of :func:`run`: those of ``tidemark.RunOptions``, paths as text too and any sequence for a tuple."""

    seed: int
    impressions: int
    pace: str | None
    trace: str | Path | None
    generator: Sequence[str]
    faults: str
    sink: str
    speed: float
    python: str | Path | None
    run_dir: str | Path | None
    driver: str
    conf: Sequence[str]
    accept: Sequence[str]
    waive: Sequence[str]
    project: str | Path | None
    py_files: Sequence[str | Path]
    send_modules: bool
    app: str
    functions: str
    jars: Sequence[str | Path]
    packages: Sequence[str]
    registry: bool
    evidence_format: str
    kafka_conf: str | Path | None
    redact: bool
    redact_salt: str | Path | None
    keep_checkpoint: bool
    standby: bool
    diagnosis: bool
    recover_within_s: float | None
    progress_during_faults: str
    watermark_stands_at_most_s: float | None
    state_rows_at_most: int | None
    hung_after_s: float
    report: Report
    say: Say
    watch: Watch


def run(pipeline: str | Path, **options: Unpack[Options]) -> RunResult:
    """Run a pipeline on a real stack and judge every row: what ``tidemark run`` does.

    ``pipeline`` is a bundled one (``"left_outer"``), a Python file or a contract in JSON. A stack that is up is used;
    else one is started and ended, which takes half a minute. Raises ``TidemarkError``: ``UsageError`` for options that
    cannot be, ``TestbedError`` where the testbed failed. A pipeline that is wrong is no error but a verdict.
    """
    from tidemark.runner import run_pipeline
    from tidemark.runner.run_options import options_of

    return run_pipeline(options_of(pipeline, options))


class EngineOptions(TypedDict, total=False):
    """Of the engine of :func:`check`: the ``memory`` of DuckDB (``"8GB"``); a master URL of Spark, and its settings as
    ``NAME=VALUE``.
    """

    memory: str | None
    spark_master: str | None
    spark_conf: Sequence[str]


def check(
    run_dir: str | Path,
    *,
    accept: Sequence[str] = (),
    save: bool = False,
    diagnosis: bool = False,
    engine: str = "duckdb",
    **options: Unpack[EngineOptions],
) -> Verdict:
    """Judge a run directory offline, without a stack: what ``tidemark check`` does.

    ``accept`` names known defects of Spark (``tidemark.KNOWN_DEFECTS``) that do not make the run ``INVALID``, besides
    those that its contract accepts. ``save`` writes the verdict into the directory (``verdict.json``). ``diagnosis``
    gives an ``INVALID`` verdict its diagnosis, for up to 5 seconds (``verdict.diagnosis``). ``engine`` reads a run of
    more than 300,000 input records: ``"duckdb"``, or ``"spark"`` for evidence in Parquet that one machine
    does not hold. Raises ``UsageError`` for evidence that cannot be read or is not as it was sealed, and for a name
    that is no known defect, and ``TestbedError`` where the engine fails.
    """
    from tidemark.diagnosis.end_of_run import add_diagnosis
    from tidemark.formats.evidence import open_run
    from tidemark.reports.kept_verdict import judged_verdict
    from tidemark.runner.run_options import names_of

    directory = open_run(Path(run_dir))
    verdict = judged_verdict(directory, names_of(accept), engine=_engine(engine, options))
    add_diagnosis(directory, verdict, is_wanted=diagnosis)
    if save:
        directory.write_json("verdict", verdict)
    return verdict


def diagnose(run_dir: str | Path, *, budget_s: float = 10.0) -> Diagnosis:
    """Say which other contract, or which delivery, would make a red run right: what ``tidemark diagnose`` does.

    Offline. The search ends after ``budget_s`` seconds; reading the evidence is not counted. The verdict is that of
    ``verdict.json``, if the evidence has a seal and is as it was sealed; else it is judged. Raises ``UsageError`` for
    evidence that cannot be read or is not as it was sealed, and for one with more than 300,000 input records.
    """
    import time

    from tidemark.diagnosis import LARGEST
    from tidemark.diagnosis import diagnose as ask_again
    from tidemark.errors import UsageError
    from tidemark.formats.evidence import open_run
    from tidemark.formats.input_offsets import records_in
    from tidemark.reports.kept_verdict import judged_verdict, kept_verdict

    directory = open_run(Path(run_dir))
    records = records_in(directory.manifest.inputs)
    if records > LARGEST:
        raise UsageError(
            f"{str(run_dir)!r} has {records:,} input records",
            detail=f"a run of more than {LARGEST:,} is not diagnosed",
            hint="run it again with fewer rows (--impressions), or read the causes that `tidemark check` prints",
        )
    verdict = kept_verdict(directory.path) or judged_verdict(directory)
    end = time.monotonic() + budget_s
    return ask_again(directory, verdict, lambda: time.monotonic() > end)


def report(
    run_dir: str | Path,
    *,
    to: str | Path | None = None,
    markdown: str | Path | None = None,
    junit: str | Path | None = None,
) -> Path:
    """Make the page of a run directory, offline, and give its path: what ``tidemark report`` does.

    It is ``report.html`` in the directory, or the file ``to``. The verdict is that of ``verdict.json``, if the evidence
    has a seal and is as it was sealed before; else it is judged, and no verdict is written. Raises ``UsageError`` for
    evidence that cannot be read or is not as it was sealed, and for a file that cannot be written.

    Of a folder of runs it is ``index.html``: a line for each run below it, with a link to its page, which is made if it
    is not there yet. A run whose evidence is refused has a line that says so.

    ``markdown`` and ``junit`` are files for the same in Markdown, and as JUnit XML; ``"-"`` is standard output.
    """
    from tidemark.reports.exports import write_exports
    from tidemark.reports.reported_runs import is_folder_of_runs, report_folder, report_one

    folder, page = Path(run_dir), None if to is None else Path(to)
    is_folder = is_folder_of_runs(folder)
    if is_folder:
        runs, path = report_folder(folder, page)
    else:
        one, path = report_one(folder, page)
        runs = [one]
    write_exports(runs, markdown=markdown, junit=junit, is_folder=is_folder)
    return path


def _engine(name: str, options: EngineOptions) -> OpenEngine:
    """The engine of this name."""
    from tidemark.errors import UsageError
    from tidemark.runner.run_options import names_of

    memory = options.get("memory")
    master, conf = options.get("spark_master"), names_of(options.get("spark_conf", ()))
    if name == "spark":
        if memory is not None:
            raise UsageError(
                f"the memory of DuckDB is given ({memory!r}), and the engine is spark",
                hint="use --spark-conf spark.driver.memory=… or spark.executor.memory=…",
            )
        from tidemark.sparksql import spark_engine

        return spark_engine(master, conf)
    if name != "duckdb":
        raise UsageError(f"there is no engine {name!r}", hint="choose duckdb or spark")
    if master is not None or conf:
        raise UsageError(
            "a master or a setting of Spark is given, and the engine is duckdb", hint="use --engine spark"
        )
    from tidemark.oracle.large.duckdb_engine import engine_with

    return engine_with(memory)


class AuditChoices(TypedDict, total=False):
    """The options of :func:`audit` that may be left out: those of ``tidemark audit``, paths as text too."""

    kafka_conf: str | Path | None
    topics: Mapping[str, str]
    batches: str
    delivery: str
    deleted_until: str
    spark_version: str
    run_dir: str | Path | None
    accept: Sequence[str]
    progress: Sequence[str | Path]
    read_state: bool
    functions: str
    python: str | Path | None
    project: str | Path | None
    py_files: Sequence[str | Path]
    may_create_offsets_topic: bool
    redact: bool
    redact_salt: str | Path | None
    report: AuditReport


def audit(
    checkpoint: str | Path, contract: str | Path, bootstrap: str, output: str, **options: Unpack[AuditChoices]
) -> AuditResult:
    """Judge a query that tidemark did not start, read-only: what ``tidemark audit`` does.

    ``checkpoint`` is the query's folder, or a URL of a store (``s3://bucket/path``), ``contract`` a file with the
    contract of one join, or a pipeline that has it, ``bootstrap`` a broker, and ``output`` the topic that the query
    writes. Raises ``UsageError`` for what is no checkpoint, no contract or no such topic, and ``TestbedError`` where no
    broker answers. A query that is wrong is no error but a verdict.
    """
    from tidemark.auditor import AuditOptions, run_audit
    from tidemark.runner.run_options import names_of

    given: dict[str, Any] = dict(options)
    for name in ("kafka_conf", "run_dir", "python", "project", "redact_salt"):
        if given.get(name) is not None:
            given[name] = Path(given[name])
    given["accept"] = names_of(given.get("accept", ()))
    for name in ("progress", "py_files"):
        given[name] = tuple(map(Path, given.get(name, ())))
    return run_audit(
        AuditOptions(
            checkpoint=str(checkpoint), contract=str(contract), bootstrap=bootstrap, output=output, **given
        )
    )
