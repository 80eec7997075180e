"""The audit itself: read the log, read the topics, write the evidence, judge it.

What a query that runs on may do meanwhile: it commits and plans batches, and trims its log. So commits are listed
first, then the end of the output is looked up, then the log is read: a batch that was committed at the first owes its
rows, and whatever wrote a row before the second is planned in the third.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tidemark import paths
from tidemark.auditor.audit_options import AuditOptions, delivery_of, range_of, read_single_join
from tidemark.auditor.audited_batches import (
    as_logged,
    first_batch,
    must_have_read,
    plan_audit,
)
from tidemark.auditor.audited_outputs import TableOutput, TopicOutput
from tidemark.auditor.audited_topics import AuditedTopics
from tidemark.auditor.checkpoint_store import FULL_DISK, CheckpointCopy, opened_checkpoint
from tidemark.auditor.offset_gaps import OffsetGaps
from tidemark.auditor.reported_batches import ReportedBatches, with_reports
from tidemark.auditor.spark_ranges import named_sparks, newest_named, spark_spans
from tidemark.auditor.state_before import StateWanted, is_read, must_have_java, write_state_before
from tidemark.errors import TestbedError, TidemarkError, UsageError
from tidemark.formats.audited_query import AuditedQuery
from tidemark.formats.contract import Contract, Delivery
from tidemark.formats.evidence import FORMAT, Batch, RunDirectory
from tidemark.formats.jsonlines import write_lines
from tidemark.formats.manifest import Manifest, StateInfo
from tidemark.formats.seal import seal
from tidemark.oracle.audit_account import RowOfTable
from tidemark.oracle.audit_judgement import audit_with_tables
from tidemark.oracle.spark.known_defects import known
from tidemark.oracle.verdict import Verdict
from tidemark.redaction import Redactor, clear_evidence, judged_alike, must_be_used
from tidemark.reports.html_report import report_beside
from tidemark.runner.decoded_run import (
    DecodedRun,
    code_of_functions,
    decode_trace,
    keep_functions,
    must_have_decoders,
)
from tidemark.sparkfiles.checkpoint import STATE_FORMAT, STATE_PROVIDER
from tidemark.sparkfiles.progress_reports import read_reports
from tidemark.sparkfiles.query_log import QueryLog, committed_batches, read_query_log

OLDEST_FORMAT = 1
"""The state format of a log that does not name one."""


@dataclass(frozen=True)
class AuditResult:
    """What an audit gives back: its verdict, where the evidence is, and the command that does it again."""

    verdict: Verdict
    run_dir: Path
    command: str


def run_audit(options: AuditOptions) -> AuditResult:
    """Audit a query. Raises ``TidemarkError``; nothing is left behind then, nor after Ctrl-C."""
    contract = read_single_join(options)
    code_of_functions(options.code, options.functions, contract)
    contract = replace(contract, accept=known((*contract.accept, *options.accept)))
    delivery_of(options, contract)
    range_of(options.batches)
    named_sparks(options.spark_version)
    _ = options.deleted_until_ms
    must_be_used(options.redact_salt, redact=options.redact)
    if options.read_state:
        must_have_java()
    path = options.run_dir or _default_directory(contract)
    _must_be_free(path)
    with opened_checkpoint(options.checkpoint) as checkpoint:
        # A folder that is no checkpoint, or that of another query, is refused before Kafka is asked.
        must_have_read(read_query_log(checkpoint.folder), _topics(options, contract))
        return _audited(options, checkpoint, contract, path)


def _audited(
    options: AuditOptions, checkpoint: CheckpointCopy, contract: Contract, path: Path
) -> AuditResult:
    if options.redact:
        return _audited_and_redacted(options, checkpoint, contract, path)
    with _unfinished(path) as directory:
        gaps = _collect(options, checkpoint, contract, directory)
        options.report("judge", 0, 1)
        _settle_gaps(options, directory, gaps)
        seal(directory.path)
        verdict = _judge(directory)
        options.report("judge", 1, 1)
    return AuditResult(verdict, path, options.command())


def _audited_and_redacted(
    options: AuditOptions, checkpoint: CheckpointCopy, contract: Contract, path: Path
) -> AuditResult:
    """An audit of which the redacted evidence is kept alone."""
    redactor = Redactor(options.redact_salt)
    redactor.must_be_able(contract)
    try:
        with clear_evidence(path) as folder:
            gaps = _collect(options, checkpoint, contract, RunDirectory(folder))
            options.report("judge", 0, 1)
            _settle_gaps(options, RunDirectory(folder), gaps)
            seal(folder)
            clear = audit_with_tables(RunDirectory(folder)).verdict
            directory = redactor.redact(folder, path)
            with judged_alike(clear, path) as verdicts:
                verdicts.append(_judge(directory))
            options.report("judge", 1, 1)
    except OSError as error:
        raise _not_written(path, error) from error
    return AuditResult(verdicts[0], path, "")


def _settle_gaps(options: AuditOptions, directory: RunDirectory, gaps: OffsetGaps) -> None:
    """Take topics of which it is not known for compacted ones, where something is wrong if they are not."""
    if not gaps.has_unknown or not audit_with_tables(directory).verdict.findings_total:
        return
    manifest = directory.manifest
    assert manifest.audit is not None, "the manifest of an audit has it"
    about = gaps.told_in(manifest.audit, with_unknown=True)
    about = msgspec.structs.replace(about, deleted_until_ms=_until_ms(options, about))
    changed = msgspec.structs.replace(manifest, audit=about, notes=gaps.notes(with_unknown=True))
    directory.write_json("manifest", changed)


def _until_ms(options: AuditOptions, about: AuditedQuery) -> int | None:
    return options.deleted_until_ms if about.deleted or about.compacted else None


def _judge(directory: RunDirectory) -> Verdict:
    """Judge sealed evidence, and write the verdict and the tables beside it."""
    audit = audit_with_tables(directory)
    audit.verdict.sealed = True
    directory.write_json("verdict", audit.verdict)
    report_beside(directory, audit.verdict)
    for name, rows in audit.tables.items():
        _write_table(directory.path / "tables" / f"{name}.jsonl", rows)
    return audit.verdict


def _collect(
    options: AuditOptions, checkpoint: CheckpointCopy, contract: Contract, directory: RunDirectory
) -> OffsetGaps:
    """Write the evidence, the manifest last, so that what is not complete is no run directory; returns its gaps."""
    functions = _functions(options, contract, directory)
    topics = AuditedTopics(options.broker, options.report)
    names = _topics(options, contract)
    if not options.may_create_offsets_topic:
        topics.must_have_groups()
    owed_to = max(committed_batches(checkpoint.folder), default=-1)
    output = _output_of(options, topics)
    checkpoint.refresh()
    log, reported = _log_of(options, checkpoint.folder)
    plan = plan_audit(log, names, topics.held(list(names.values())), options.batches, owed_to)
    contract, differences = as_logged(contract, log)
    topics.must_reach(plan.inputs)
    # Soon: a query that runs deletes old versions of it.
    state = _state(options, checkpoint, contract, log, directory)
    digest = topics.write_inputs(directory.path / "trace.jsonl", plan.inputs)
    output.write(directory, log.query_id)
    gaps = topics.gaps(plan.inputs)
    sparks = spark_spans(options.spark_version, log.planned[0].batch, log.planned[-1].batch)
    restarts = frozenset(span.first for span in sparks[1:]) | (reported.restarts if reported else frozenset())
    directory.write_lines("batches", (_marked(batch, restarts) for batch in plan.batches))
    directory.write_json("contract", contract.to_json())
    if functions is not None:
        options.report("decode", 0, 1)
        decode_trace(functions, directory.path / "trace.jsonl")
        options.report("decode", 1, 1)
    about = gaps.told_in(output.told_in(plan.about), with_unknown=False)
    about = msgspec.structs.replace(
        about,
        sparks=sparks,
        reported=None if reported is None else (reported.first, reported.last),
        unheld=dict(topics.unheld),
        deleted_until_ms=_until_ms(options, about),
    )
    manifest = msgspec.structs.replace(
        _manifest(options, contract, output.delivery, log, directory),
        inputs=plan.inputs,
        state=state,
        audit=about,
        trace_sha256=digest,
        plan_differs=differences,
        notes=gaps.notes(with_unknown=False),
    )
    directory.write_json("manifest", manifest)
    return gaps


def _functions(options: AuditOptions, contract: Contract, directory: RunDirectory) -> DecodedRun | None:
    """The functions that decode records, which are there; ``None`` if the contract names none."""
    if not contract.is_decoded:
        return None
    code = code_of_functions(options.code, options.functions, contract)
    directory.write_json("contract", contract.to_json())
    keep_functions(code.pipeline, directory.path)
    run = DecodedRun(code, contract, directory.path)
    must_have_decoders(run)
    return run


def _log_of(options: AuditOptions, folder: Path) -> tuple[QueryLog, ReportedBatches | None]:
    """The log of the query, completed by its progress reports, if there are any."""
    log = read_query_log(folder)
    if not options.progress:
        return log, None
    reported = with_reports(log, read_reports(options.progress, log.query_id))
    return reported.log, None if reported.last < 0 else reported


def _marked(batch: Batch, restarts: frozenset[int]) -> Batch:
    """A batch with the restart that the progress reports show."""
    return msgspec.structs.replace(batch, restarted=True) if batch.batch in restarts else batch


def _state(
    options: AuditOptions,
    checkpoint: CheckpointCopy,
    contract: Contract,
    log: QueryLog,
    directory: RunDirectory,
) -> StateInfo:
    """How the state was stored, and, if that is asked for and the log was trimmed, its rows in the evidence."""
    form, before = log.conf.get(STATE_FORMAT, ""), first_batch(log) - 1
    info = StateInfo(
        format=int(form) if form.isdecimal() else None,
        provider=log.conf.get(STATE_PROVIDER, "").rpartition(".")[2] or None,
    )
    if not options.read_state:
        info.note = "it was not asked for"
    elif before < 0:
        info.note = "the log is whole"
    else:
        options.report("state", 0, 1)
        until_ms = log.planned[0].watermark_ms
        wanted = StateWanted(checkpoint.folder, contract, info.format or OLDEST_FORMAT, before, until_ms)
        info.problem = _fetched(checkpoint, before) or write_state_before(
            wanted, directory.path / "state.jsonl"
        )
        info.batches = [] if info.problem else [before]
        options.report("state", 1, 1)
    return info


def _fetched(checkpoint: CheckpointCopy, batch: int) -> str | None:
    """Have the files of the state after a batch; why that is not possible, or ``None``."""
    try:
        checkpoint.fetch_state(lambda name: is_read(name, batch))
    except UsageError as error:
        return f"its files cannot be read: {error.detail or error.message}"
    return None


def _manifest(
    options: AuditOptions, contract: Contract, of_output: Delivery, log: QueryLog, directory: RunDirectory
) -> Manifest:
    return Manifest(
        tidemark_evidence=FORMAT,
        contract=contract.to_json(),
        delivery=delivery_of(options, contract, of_output),
        inputs={},
        versions={"spark": spark} if (spark := newest_named(options.spark_version)) else {},
        code_sha256=paths.code_sha256(),
        query_id=log.query_id,
        started_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
        command=options.command(),
        records=directory.count_records(),
    )


def _topics(options: AuditOptions, contract: Contract) -> dict[str, str]:
    """Logical name -> Kafka topic."""
    logical = (contract.left.topic, contract.right.topic)
    for name in options.topics:
        if name not in logical:
            raise UsageError(f"the contract has no topic {name!r}", hint=f"it has {' and '.join(logical)}")
    found = {name: options.topics.get(name, name) for name in logical}
    if len(set(found.values())) < len(found):
        raise UsageError(
            f"both topics of the contract are {options.topics[logical[0]]!r}",
            hint="each side reads a topic of its own; a join of a topic with itself is not audited",
        )
    return found


def _output_of(options: AuditOptions, topics: AuditedTopics) -> TopicOutput | TableOutput:
    """The output as it is now: what is written to it later is not looked at."""
    folder = options.output_folder
    return TopicOutput(topics, options.output) if folder is None else TableOutput(folder, options.report)


def _default_directory(contract: Contract) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    name = re.sub(r"[^A-Za-z0-9_]+", "-", contract.name)
    return paths.runs_dir() / f"audit-{name}-{stamp}"


def _must_be_free(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(
            f"the run directory {str(path)!r} is {'not empty' if path.is_dir() else 'no directory'}",
            hint="name a new or an empty directory; an audit never overwrites or deletes what is there",
        )


@contextmanager
def _unfinished(path: Path) -> Iterator[RunDirectory]:
    """A directory beside ``path`` that takes its place once all is written, and is gone if that fails."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        draft.mkdir(parents=True)
        yield RunDirectory(draft)
        draft.replace(path)
    except OSError as error:
        raise _not_written(path, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _not_written(path: Path, error: OSError) -> TidemarkError:
    """Why there is no evidence: a full disk is no fault of the caller."""
    if error.errno in FULL_DISK:
        return TestbedError(
            f"the evidence does not fit into {str(path.parent)!r}",
            detail=f"{error.strerror}; what was written of it is deleted, and there is no verdict",
            hint="free some space, or name a directory on another disk with --run-dir",
        )
    return UsageError(
        f"the evidence cannot be written to {str(path)!r}",
        detail=str(error),
        hint="name a directory in which you may write with --run-dir",
    )


def _write_table(path: Path, rows: list[RowOfTable]) -> None:
    path.parent.mkdir(exist_ok=True)
    encode = msgspec.json.Encoder().encode
    write_lines(path, (encode(row) for row in rows))
