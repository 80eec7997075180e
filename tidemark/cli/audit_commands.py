"""``tidemark audit``: judge a query that tidemark did not start, read-only.

Free of work: it reads options, shows progress, and prints the verdict.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.run_commands import (
    check_choice,
    check_salt,
    progress_shown,
    warn_without_report,
    was_interrupted,
)
from tidemark.cli.shared_options import (
    Accept,
    AsJson,
    Evidence,
    Functions,
    KafkaConf,
    Project,
    PyFiles,
    Redact,
    RedactSalt,
)
from tidemark.cli.trace_commands import pair
from tidemark.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from tidemark.auditor import AuditOptions, AuditResult

Checkpoint = Annotated[
    str,
    typer.Option(
        metavar="DIR|URL",
        help="The checkpoint of the query: a folder, or s3://bucket/path and what else fsspec reads.",
    ),
]
ContractFile = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="The contract of the join: FILE.json, or a pipeline that has it (FILE.py, PACKAGE.MODULE:CONTRACT);"
        " a chain is not audited.",
    ),
]
Bootstrap = Annotated[str, typer.Option(metavar="HOST:PORT", help="A broker of the cluster.")]
Output = Annotated[
    str,
    typer.Option(
        metavar="TOPIC|TABLE",
        help="The topic that the query writes; or, with a / in it, the folder of a Parquet or Delta table.",
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", help="LOGICAL=TOPIC: a topic of the contract has another name; repeatable."),
]
Batches = Annotated[
    str, typer.Option(metavar="A:B", help="The first and the last batch to judge; either may be left out.")
]
Delivery = Annotated[
    str,
    typer.Option(
        metavar="PROMISE", help="exactly-once or at-least-once; default: the contract's, or the output's."
    ),
]
DeletedUntil = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="No record that was deleted has a later event time: you say so, and it is believed.",
    ),
]
SparkVersion = Annotated[
    str,
    typer.Option(
        metavar="VERSION",
        help="Of the query: which known defects explain a finding. Of one that was upgraded, for each Spark its"
        " batches: 3.5.7@:11,4.3.0@12: (3.5.7@:11,4.3.0@11: if the first did not commit batch 11).",
    ),
]
Progress = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE|DIR",
        help="Spark's progress reports of the query, JSON lines or event logs: batches that the log no longer has,"
        " and restarts; repeatable.",
    ),
]
ReadState = Annotated[
    bool,
    typer.Option(
        "--read-state",
        help="Where the log was trimmed, read the state before it, too, in a Spark session (needs Java).",
    ),
]
Interpreter = Annotated[
    Path | None,
    typer.Option(
        "--spark",
        metavar="PYTHON",
        help="The interpreter with PySpark that imports --functions and a contract in Python; default: tidemark's.",
    ),
]
MayCreate = Annotated[
    bool,
    typer.Option(
        "--may-create-offsets-topic",
        help="Read also where the cluster has no __consumer_offsets yet, which it then creates.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("audit")(audit_command)


def audit_command(
    checkpoint: Checkpoint,
    contract: ContractFile,
    bootstrap: Bootstrap,
    output: Output,
    kafka_conf: KafkaConf = None,
    topic: Topics = None,
    batches: Batches = "",
    delivery: Delivery = "",
    deleted_until: DeletedUntil = "",
    spark_version: SparkVersion = "",
    accept: Accept = None,
    run_dir: Evidence = None,
    progress: Progress = None,
    read_state: ReadState = False,
    functions: Functions = "",
    spark: Interpreter = None,
    project: Project = None,
    py_files: PyFiles = None,
    may_create_offsets_topic: MayCreate = False,
    redact: Redact = False,
    redact_salt: RedactSalt = None,
    as_json: AsJson = False,
) -> None:
    """Judge a query that tidemark did not start, from its checkpoint and its topics; nothing is changed there.

    Exit code 0 (VALID), 1 (INVALID) or 3 (UNKNOWN). No consumer group is joined and no offset committed; the checkpoint
    is read only. The evidence can be judged again with `tidemark check`. An audit that fails or is interrupted leaves
    no evidence.
    """
    from tidemark.auditor import AuditOptions
    from tidemark.auditor.audit_options import DELIVERIES

    check_salt(redact=redact, salt=redact_salt)
    check_choice("--delivery", delivery or None, (None, *DELIVERIES))
    options = AuditOptions(
        checkpoint=checkpoint, contract=contract, bootstrap=bootstrap, output=output, kafka_conf=kafka_conf,
        topics=dict(map(pair, topic or ())), batches=batches, delivery=delivery, deleted_until=deleted_until,
        spark_version=spark_version, run_dir=run_dir, accept=tuple(accept or ()),
        progress=tuple(progress or ()), read_state=read_state, functions=functions, python=spark,
        project=project, py_files=tuple(py_files or ()), may_create_offsets_topic=may_create_offsets_topic,
        redact=redact, redact_salt=redact_salt,
    )  # fmt: skip
    _audit_and_show(options, as_json=as_json)


def _audit_and_show(options: AuditOptions, *, as_json: bool) -> None:
    """Audit, with bars on a terminal; print what came of it, and leave with its exit code."""
    from tidemark.auditor import run_audit

    try:
        with progress_shown(quiet=as_json) as (report, _say):
            result = run_audit(replace(options, report=report))
    except BaseException as error:
        if not was_interrupted(error):
            raise
        print("interrupted: there is no verdict, and no evidence is kept", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _show(result, as_json=as_json)


def _show(result: AuditResult, *, as_json: bool) -> None:
    from tidemark.reports import print_verdict

    if as_json:
        import msgspec

        shown = {
            **msgspec.to_builtins(result.verdict),
            "run_dir": str(result.run_dir),
            "command": result.command,
        }
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
    else:
        print_verdict(result.verdict, result.run_dir, [], command=result.command)
    warn_without_report(result.run_dir)
    raise typer.Exit(result.verdict.exit_code)
