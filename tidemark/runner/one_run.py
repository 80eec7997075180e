"""The run itself, top to bottom: prepare, start, publish, inject faults, flush, drain, collect, judge."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tidemark import paths
from tidemark.diagnosis.end_of_run import add_diagnosis
from tidemark.errors import UsageError
from tidemark.faults.schedule import FaultSpec
from tidemark.formats.absent_records import GAP
from tidemark.formats.chain import Chain, decoders_of, topics_of
from tidemark.formats.client_settings import java_settings, read_client_settings
from tidemark.formats.contract import Contract
from tidemark.formats.evidence import RunDirectory
from tidemark.formats.record_files import PARQUET, count_records, is_parquet
from tidemark.formats.seal import seal
from tidemark.formats.storage import store_trace
from tidemark.formats.trace import Header, TraceReader, trace_sha256, write_trace
from tidemark.oracle import Verdict, judge
from tidemark.oracle.coverage import ALWAYS_REQUIRED, WAIVABLE
from tidemark.oracle.spark.known_defects import known
from tidemark.oracle.spark.spark_versions import minor_version
from tidemark.redaction import Redactor, clear_evidence, judged_alike, must_be_used
from tidemark.reports import failure_lines
from tidemark.reports.html_report import report_beside
from tidemark.runner.app_command import output_field, uses_connect
from tidemark.runner.cleanup import first_error_kept
from tidemark.runner.decoded_run import (
    DecodedRun,
    code_of_functions,
    keep_functions,
    make_decoded,
    make_sentinels,
)
from tidemark.runner.live_run import LiveRun
from tidemark.runner.pipeline_code import described_on, described_without_session
from tidemark.runner.possible_faults import must_be_injectable
from tidemark.runner.programs import PROGRAM_S, run_program, write_code_zip
from tidemark.runner.run_options import (
    EVIDENCE_FORMATS,
    OWN_SINK,
    SINKS,
    RunOptions,
    say_nothing,
    watch_nothing,
)
from tidemark.stack import POWERS, Stack, StackSpec, lease, spec_to_lease
from tidemark.stack.install.toolchain import find_spark

BATCHES_PER_FAULT = 2
"""Slices, each with a batch of data and mostly one without: a fault may miss its point in one of them."""

OF_A_PIPELINE = ("conf", "jars", "packages", "py_files", "driver")
"""Options that a job with a driver of its own does not get."""
OF_A_DRIVER = ("jars", "packages")
"""Those that the driver of a Spark Connect program does get."""

EXACTLY_ONCE_SINCE = (4, 1)
"""The first Spark with what the exactly-once sink is made of."""


@dataclass(frozen=True)
class RunResult:
    """What a run gives back: its verdict, where the evidence is, and the command that reproduces it."""

    verdict: Verdict
    run_dir: Path
    trace_sha256: str
    command: str

    def assert_valid(self) -> None:
        """Raise ``AssertionError`` if the verdict is not ``VALID``: with the cause, totals, evidence and command."""
        __tracebackhide__ = True
        if self.verdict.verdict != "VALID":
            raise AssertionError("\n".join(failure_lines(self.verdict, self.run_dir, self.command)))


def accepting(contract: Contract | Chain, accept: Sequence[str]) -> Contract | Chain:
    """The contract, with known defects of Spark accepted besides its own; raises ``UsageError`` for an unknown name."""
    return replace(contract, accept=known((*contract.accept, *accept)))


def new_run_directory(options: RunOptions, contract: Contract | Chain) -> RunDirectory:
    """Make the run's directory, with its code and its contract in it.

    Raises ``UsageError`` if the path is a file, or a directory with anything in it, or if a defect is accepted that is
    not known.
    """
    contract = accepting(contract, options.accept)
    path = _run_directory(options, contract)
    _must_be_free(path)
    try:
        (path / "logs").mkdir(parents=True)
    except FileExistsError:  # just made by another run
        raise UsageError(
            f"the run directory {str(path)!r} is in use", hint="name a new run directory"
        ) from None
    write_code_zip(path / "code.zip")
    directory = RunDirectory(path)
    directory.write_json("contract", contract.to_json())
    return directory


def _run_directory(options: RunOptions, contract: Contract | Chain) -> Path:
    """The directory that is asked for, or a new name below ``runs/``."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    name = re.sub(r"[^A-Za-z0-9_]+", "-", contract.name)
    return options.run_dir or paths.runs_dir() / f"{name}-{stamp}-{options.seed}"


def _must_be_free(path: Path) -> None:
    if path.is_dir():
        files = sorted(file.name for file in path.iterdir())
        problem, detail = "is not empty", f"it has {', '.join(files[:3])}{' …' if files[3:] else ''}"
        taken = bool(files)
    else:
        problem, detail, taken = "is no directory", "", path.exists()
    if taken:
        raise UsageError(
            f"the run directory {str(path)!r} {problem}",
            detail=detail,
            hint="name a new or an empty directory; a run never overwrites or deletes what is there",
        )


def run(
    options: RunOptions, contract: Contract | Chain, directory: RunDirectory, *, stack: Stack | None = None
) -> RunResult:
    """Run one pipeline on a real stack, ``stack`` or else one that is leased for it, and judge it.

    Raises ``TidemarkError``; the evidence gathered until then stays in the run directory.
    """
    contract = accepting(contract, options.accept)
    spec = spec_to_lease(options.python) if stack is None else stack.spec
    spec = replace(spec, registry=True) if options.registry else spec
    _must_be_possible(options, spec)
    if options.sink == OWN_SINK and isinstance(contract, Chain):
        raise UsageError(
            f"the contract {contract.name!r} is a chain, and the query is started by the pipeline",
            hint="a query of your own is judged if it is one join; else give the pipeline a function build",
        )
    _keep_pipeline(options, directory)
    is_decoded = bool(decoders_of(contract))
    with ExitStack() as early:
        if spec.registry and is_decoded and stack is None:  # the functions ask it before the query starts
            stack = early.enter_context(first_error_kept(lease(spec)))
        registry = "" if stack is None else stack.start_registry() if options.registry else stack.registry
        trace = _prepare_trace(options, contract, directory, registry, stack)
        options.report("stack", 0, 1)
        with first_error_kept(lease(spec) if stack is None else nullcontext(stack)) as used:
            options.report("stack", 1, 1)
            LiveRun(options, contract, directory, trace, used).go()
    options.report("judge", 0, 1)
    verdict = seal_and_judge(directory, is_diagnosed=options.diagnosis)
    report_beside(directory, verdict)
    options.report("judge", 1, 1)
    return RunResult(verdict, directory.path, trace_sha256(trace), options.command(directory.path))


def seal_and_judge(directory: RunDirectory, *, is_diagnosed: bool = False) -> Verdict:
    """Seal evidence that is complete, judge it, and write ``verdict.json``, with a diagnosis if it is asked for."""
    seal(directory.path)
    verdict = judge(directory)
    verdict.sealed = True
    add_diagnosis(directory, verdict, is_wanted=is_diagnosed)
    directory.write_json("verdict", verdict)
    return verdict


def run_pipeline(
    options: RunOptions, *, stack: Stack | None = None, made: Callable[[Path], None] = lambda _path: None
) -> RunResult:
    """One run from the contract of its pipeline to its verdict; ``made`` is called with the run directory at its start.

    Raises ``TidemarkError``; what was asked for and cannot be had is refused before the directory is made.
    """
    # What is no schedule, or no amount, is refused before anything is made.
    _ = options.fault_specs, options.demands
    _must_be_waivable(options.waive)
    must_be_used(options.redact_salt, redact=options.redact)
    if options.redact and options.keep_checkpoint:
        raise UsageError(
            "a checkpoint cannot be redacted: its state has the values of records",
            hint="leave out --keep-checkpoint, or --redact",
        )
    if options.kafka_conf is not None:
        java_settings(read_client_settings(options.kafka_conf))
    if options.app:
        output_field(options.app)
    with ExitStack() as leased:
        described = described_without_session(options.code)
        if described is None:
            stack = stack or leased.enter_context(lease(spec_to_lease(options.python)))
            described = described_on(stack, options.code)
        _must_have_functions(options, described.contract)
        asked = replace(
            options,
            send_modules=options.send_modules or described.imports_at_call,
            sink=OWN_SINK if described.starts_query or options.app else options.sink,
        )
        if options.redact:
            return _run_redacted(asked, described.contract, stack)
        directory = new_run_directory(options, described.contract)
        made(directory.path)
        return run(asked, described.contract, directory, stack=stack)


def _run_redacted(options: RunOptions, contract: Contract | Chain, stack: Stack | None) -> RunResult:
    """A run of which the redacted evidence is kept alone; what it says on the way is not shown, since it has values."""
    redactor = Redactor(options.redact_salt)
    redactor.must_be_able(contract)
    path = _run_directory(options, contract)
    _must_be_free(path)
    with clear_evidence(path) as folder:
        asked = replace(options, run_dir=folder, say=say_nothing, watch=watch_nothing, diagnosis=False)
        clear = run(asked, contract, new_run_directory(asked, contract), stack=stack)
        directory = redactor.redact(folder, path)
        with judged_alike(clear.verdict, path) as verdicts:
            verdicts.append(judge(directory))
            verdicts[0].sealed = True
            add_diagnosis(directory, verdicts[0], is_wanted=options.diagnosis)
            directory.write_json("verdict", verdicts[0])
            report_beside(directory, verdicts[0])
    return RunResult(verdicts[0], path, directory.manifest.trace_sha256 or "", "")


def _keep_pipeline(options: RunOptions, directory: RunDirectory) -> None:
    """Copy a pipeline file into the run directory."""
    kept = options.kept_pipeline(directory.path)
    if kept is not None:
        shutil.copyfile(options.pipeline, kept)
    keep_functions(options.functions, directory.path)


def _must_have_functions(options: RunOptions, contract: Contract | Chain) -> None:
    """Refuse a contract whose functions are nowhere, and one that would be its own query and cannot decode."""
    code_of_functions(options.code, options.functions, contract)
    if decoders_of(contract) and options.pipeline.endswith(".json") and not options.app:
        raise UsageError(
            f"the contract {contract.name!r} alone is no query: its records are decoded by functions",
            detail="the query that is made of a contract reads JSON",
            hint="give a pipeline with a function build, or the command of a job: --app",
        )


def _must_be_waivable(waive: Sequence[str]) -> None:
    for name in waive:
        if name not in WAIVABLE:
            raise UsageError(
                f"the coverage goal {name!r} cannot be waived",
                detail="it is required of every run"
                if name in ALWAYS_REQUIRED
                else "there is none of this name",
                hint=f"one of {', '.join(WAIVABLE)}",
            )


def times_planned(spec: FaultSpec) -> int:
    """How often a fault comes, as far as is known before a run."""
    return spec.count if spec.until is None or spec.until.is_seconds else spec.until.amount


def slices_for_faults(options: RunOptions) -> list[str]:
    """Words that give a generated trace some slices for each fault, unless its options say how many it has."""
    said = {word.partition("=")[0] for word in options.generator}
    if not options.fault_specs or said & {"--slices", "--events-per-second"}:
        return []
    return ["--slices", str(max(6, BATCHES_PER_FAULT * sum(map(times_planned, options.fault_specs))))]


def _must_be_possible(options: RunOptions, spec: StackSpec) -> None:
    must_be_injectable(options, spec)
    if options.driver and (options.jars or options.packages):
        raise UsageError(
            f"jars and packages cannot be added to the driver {options.driver!r}, which runs already",
            hint="leave out `driver`: the run starts a driver of its own with them",
        )
    if options.standby:
        _must_have_standby(options, spec)
    if options.app:
        _must_run_a_job(options, spec)
    if options.python is not None and options.sink == SINKS[0]:
        spark = find_spark(options.python).version
        if (minor_version(spark) or EXACTLY_ONCE_SINCE) < EXACTLY_ONCE_SINCE:
            raise UsageError(
                f"the exactly-once sink does not run on PySpark {spark}",
                detail=f"it is a data source with Arrow writers, which the one of {str(options.python)!r} has not",
                hint="add --sink spark, Spark's own Kafka sink (at-least-once); or take PySpark 4.1 or newer",
            )


def _must_have_standby(options: RunOptions, spec: StackSpec) -> None:
    """Refuse a standby where the driver is not the run's own."""
    others = {
        "the driver is the job's own": options.app,
        f"the driver {options.driver!r} is somebody else's": options.driver,
        f"the stack is {spec.backend}": "processes" not in POWERS[spec.backend],
        "no slice is published while one is started, so that watermarks stand": options.watermark_stands_at_most_s
        and options.pace in (None, "stepped"),
    }
    if why := [words for words, holds in others.items() if holds]:
        raise UsageError(
            "this run cannot have a standby",
            detail=why[0],
            hint="leave out --standby: a driver that is killed is started again at once"
            + (", or --watermark-stands-at-most" if options.watermark_stands_at_most_s else ""),
        )


def _must_run_a_job(options: RunOptions, spec: StackSpec) -> None:
    """Refuse options that a job does not get, and stacks on which it cannot run."""
    is_client = uses_connect(options.app)
    refused = [name for name in OF_A_PIPELINE if not (is_client and name in OF_A_DRIVER)]
    if given := [name for name in refused if getattr(options, name)]:
        raise UsageError(
            f"--app is given, and {', '.join(given)}, which a job does not get",
            hint="hand it to the job on its own command line",
        )
    if is_client and "processes" not in POWERS[spec.backend]:
        raise UsageError(
            f"--app with {{connect}} starts a driver, and the stack is {spec.backend}",
            detail="its processes belong to somebody else",
            hint="take a stack of your own: `tidemark up --backend local`",
        )
    if not is_client and spec.backend != "local":
        raise UsageError(
            f"--app needs the backend local, and the stack is {spec.backend}",
            detail="a job is a process of this machine, and reaches no Spark master in containers or elsewhere",
            hint="take local processes: `tidemark up --backend local`, or TIDEMARK_BACKEND=local; a Spark Connect"
            " program has the field {connect} in its command, and runs on any stack of tidemark",
        )


def _prepare_trace(
    options: RunOptions,
    contract: Contract | Chain,
    directory: RunDirectory,
    registry: str = "",
    stack: Stack | None = None,
) -> Path:
    """Generate or copy the trace, and make the sentinels that will flush it."""
    options.report("trace", 0, 1)
    if options.trace is not None:
        if not options.trace.is_file():
            raise UsageError(f"there is no trace {str(options.trace)!r}", hint="give the path of a trace")
        ending = options.trace.suffix if options.trace.suffix in (".zst", PARQUET) else ""
        trace = directory.path / ("trace.parquet" if ending == PARQUET else f"trace.jsonl{ending}")
        trace = _without_gaps(Path(shutil.copyfile(options.trace, trace)))
    else:
        trace = directory.path / "trace.jsonl"
        numbers = ["--seed", str(options.seed), "--impressions", str(options.impressions)]
        pace = ["--pace", options.pace] if options.pace else []
        words = [*numbers, *pace, *slices_for_faults(options), *options.generator]
        run_program(["producers", "generate", "--out", str(trace), *words], timeout_s=PROGRAM_S)
    wanted = set(topics_of(contract))
    with TraceReader(trace) as reader:
        topics = set(reader.header.topics)
        _must_be_compacted_before(reader.header, options)
        if not wanted <= topics:
            raise UsageError(
                f"the trace has the topics {', '.join(sorted(reader.header.topics))}",
                detail=f"pipeline {contract.name!r} reads {' and '.join(sorted(wanted))}",
                hint="give a trace that was made for this pipeline (--trace)",
            )
    if wanted != topics:
        trace = _keep_topics(trace, wanted)
    trace = _stored(options, trace)
    flush = directory.path / "flush.jsonl"
    if decoders_of(contract):
        code = code_of_functions(options.code, options.functions, contract)
        make_decoded(DecodedRun(code, contract, directory.path, registry, stack), trace)
    else:
        make_sentinels(directory.path, trace, flush)
    _stored(options, flush)
    options.report("trace", 1, 1)
    return trace


def _must_be_compacted_before(header: Header, options: RunOptions) -> None:
    """Refuse a pace at which a query would read records before compaction has removed them."""
    pace = options.pace or header.pace
    if header.compacted and pace != "backlog":
        raise UsageError(
            f"the trace has compacted topics ({', '.join(header.compacted)}), and the pace is {pace}",
            detail="Kafka compacts in its own time: a query that runs would read what it is still to remove",
            hint="give --pace backlog: everything is published, and compacted, before the query starts",
        )


def _stored(options: RunOptions, trace: Path) -> Path:
    """A trace in the run directory, stored as the run was asked to; if it was not, Parquet that was given stays."""
    storage = options.storage_of(
        count_records(trace) - (not is_parquet(trace))
    )  # the first line is the header
    if is_parquet(trace) and options.evidence_format == EVIDENCE_FORMATS[0]:
        storage = "parquet"
    return store_trace(trace, storage)


def _without_gaps(trace: Path) -> Path:
    """Make a record without a value of each ``gap`` of a trace: that is what is published there."""
    with TraceReader(trace) as reader:
        if all(record.absent != GAP for record in reader):
            return trace
    kept = trace.with_suffix(".jsonl") if is_parquet(trace) else trace
    with TraceReader(trace) as reader:
        records = (
            msgspec.structs.replace(record, absent=None) if record.absent == GAP else record
            for record in reader
        )
        write_trace(kept, reader.header, records)
    if kept != trace:
        trace.unlink()
    return kept


def _keep_topics(trace: Path, wanted: set[str]) -> Path:
    """Leave records of other topics out of a trace: what is published is what is read.

    What the trace was to reach it may have reached with those, so it promises nothing any more.
    """
    kept = trace.with_suffix(".jsonl") if is_parquet(trace) else trace
    with TraceReader(trace) as reader:
        topics = {name: spec for name, spec in reader.header.topics.items() if name in wanted}
        compacted = [name for name in reader.header.compacted if name in wanted]
        header = msgspec.structs.replace(
            reader.header, topics=topics, counts={}, goals=[], compacted=compacted
        )
        write_trace(kept, header, (record for record in reader if record.topic in wanted))
    if kept != trace:
        trace.unlink()
    return kept
