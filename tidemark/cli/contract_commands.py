"""``tidemark contract PIPELINE``: what a pipeline promises, and whether its plan is that of such a join.

The plan is made by a driver of the stack; no query is started, no topic is needed. With ``--since`` the contract is
compared with the one that the query had before, and no plan is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.shared_options import AsJson, Jars, Packages, Pipeline, Project, PyFiles
from tidemark.errors import EXIT_INVALID, EXIT_VALID, UsageError

if TYPE_CHECKING:
    from tidemark.formats.chain import Chain
    from tidemark.formats.contract import Contract
    from tidemark.preflight import RestartChange
    from tidemark.runner import PipelineCode, PlanCheck


Draft = Annotated[
    bool,
    typer.Option(
        "--draft",
        help="Print a contract as Python, drafted from the plan of FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION"
        " (default: build), of a FILE.txt with what explain() printed, or of a query in Spark's event log.",
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="With --draft of an event log that has several queries: the id or name of the query.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="OLD",
        help="Say what becomes of a query that goes on, from its checkpoint, with this contract in the place of OLD: a"
        " pipeline or a contract as PIPELINE is, or the directory of a run or an audit. Code is not compared.",
    ),
]
OfCheckpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="With --since: the query's checkpoint, whose settings are held against --conf."
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``contract`` to the command line."""
    app.command("contract")(contract_command)


def contract_command(
    pipeline: Pipeline,
    draft: Draft = False,
    query: Query = None,
    since: Since = None,
    checkpoint: OfCheckpoint = None,
    spark: Annotated[Path | None, typer.Option(help="Interpreter with another PySpark to plan on.")] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE for the Spark session, as spark.sql.shuffle.partitions=4; repeatable."),
    ] = None,
    project: Project = None,
    py_files: PyFiles = None,
    jars: Jars = None,
    packages: Packages = None,
    as_json: AsJson = False,
) -> None:
    """Compare a pipeline's contract with its query plan, and warn of unsafe joins.

    Exit code 0, or 1 where contract and plan differ.

    With --draft the contract is made from the plan, with questions; there is nothing to compare then.
    With --since the contracts alone are compared: first run the command without it. Exit code 1 if the changed query
    has wrong rows, is refused, or lacks a setting that is asked for; 0 if it may go on from the old checkpoint.
    """
    from tidemark.runner import PipelineCode

    settings, jar_files, coordinates = tuple(conf or ()), tuple(jars or ()), tuple(packages or ())
    code = PipelineCode(pipeline, spark, project, tuple(py_files or ()), jar_files, coordinates)
    _must_fit_together(
        (draft and bool(settings or jar_files or coordinates), "--draft is given, and --conf, --jars or --packages",
         "leave them out: a draft is made without; `tidemark contract` compares the contract with the plan under them"),
        (draft and as_json, "--draft and --json are given", "leave out --json: a draft is Python"),
        (draft and since is not None, "--draft and --since are given",
         "keep the draft in a file, and compare that: tidemark contract FILE.py --since OLD"),
        (since is not None and bool(jar_files or coordinates), "--since and --jars or --packages are given",
         "leave them out: with --since no plan is made"),
        (query is not None and not draft, "--query is given without --draft",
         "it names a query of an event log: --draft LOG"),
        (checkpoint is not None and since is None, "--checkpoint is given without --since",
         "it is that of a query that had the contract --since OLD"),
        (since is not None and bool(settings) and checkpoint is None, "--conf is given without --checkpoint",
         "with --since it is compared with what the query's checkpoint keeps"),
    )  # fmt: skip
    if draft:
        _draft(code, query)
    elif since is not None:
        raise typer.Exit(_compare_since(code, since, checkpoint, settings, as_json=as_json))
    else:
        raise typer.Exit(_compare_with_plan(code, settings, as_json=as_json))


def _must_fit_together(*pairs: tuple[bool, str, str]) -> None:
    """Raise ``UsageError`` for the first pair of options that say nothing together: whether, what, and a hint."""
    for is_given, what, hint in pairs:
        if is_given:
            raise UsageError(what, hint=hint)


def _compare_with_plan(code: PipelineCode, conf: tuple[str, ...], *, as_json: bool) -> int:
    """Say what the plan of a pipeline says otherwise than its contract, and what is unsafe; the exit code."""
    from tidemark.runner import check_pipeline_plan
    from tidemark.runner.pipeline_code import described_on, described_without_session
    from tidemark.stack import lease, spec_to_lease

    described = described_without_session(code)
    with lease(spec_to_lease(code.python)) as stack:
        contract = (described or described_on(stack, code)).contract
        plan_check = check_pipeline_plan(code, contract, stack, conf=conf)
    if as_json:
        _print_json(contract, plan_check)
    else:
        _print(contract, plan_check)
        if Path(code.pipeline).suffix == ".json":
            typer.echo("the plan is made of the contract itself: no query of yours was compared")
    return EXIT_INVALID if plan_check.comparison.mismatches else EXIT_VALID


def _compare_since(
    code: PipelineCode, since: str, checkpoint: Path | None, conf: tuple[str, ...], *, as_json: bool
) -> int:
    """Say what becomes of a query that had the contract ``since`` and goes on with another; the exit code."""
    from tidemark.preflight import Effect

    changes = _changes(code, since, checkpoint, conf)
    _say_changes(changes, as_json=as_json)
    return EXIT_INVALID if any(one.effect != Effect.SINCE for one in changes) else EXIT_VALID


def _changes(
    code: PipelineCode, since: str, checkpoint: Path | None, conf: tuple[str, ...]
) -> tuple[RestartChange, ...]:
    """What becomes of a query that had the contract ``since`` and goes on with another, and with these settings."""
    from tidemark.cli.trace_commands import pair
    from tidemark.formats.contract import Contract
    from tidemark.preflight import changes_of_contract, changes_of_settings
    from tidemark.runner import describe
    from tidemark.sparkfiles.checkpoint import POLICY
    from tidemark.sparkfiles.query_log import read_query_log

    asked = dict(map(pair, conf))
    old = _contract_in(Path(since)) or describe(replace(code, pipeline=since))
    new = describe(code)
    if not (isinstance(old, Contract) and isinstance(new, Contract)):
        raise UsageError(
            "--since compares contracts of one join, and one of these is a chain",
            hint="compare `tidemark contract` of both; any other chain on the same state is another query",
        )
    kept = {POLICY: str(old.policy)} | (read_query_log(checkpoint).conf if checkpoint is not None else {})
    return (
        *changes_of_contract(old, new),
        *changes_of_settings(kept, {POLICY: str(new.policy)} | asked),
    )


def _contract_in(path: Path) -> Contract | Chain | None:
    """The contract of a run or an audit; ``None`` if the path is the directory of neither."""
    from tidemark.formats.evidence import RunDirectory

    return RunDirectory(path).contract if (path / "manifest.json").is_file() else None


def _say_changes(changes: Sequence[RestartChange], *, as_json: bool) -> None:
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode({"changes": changes}).decode())
        return
    for one in changes:
        typer.echo(f"{one.effect}: {one.what}\n  from:     {one.before}\n  to:       {one.after}")
        typer.echo(f"  why:      {one.reason}\n  hint:     {one.remedy}")
    one_only = len(changes) == 1
    typer.echo(
        f"{len(changes)} change{'' if one_only else 's'} that matter{'s' if one_only else ''}; the code was not looked"
        " at: `tidemark contract` without --since compares it with its contract"
    )


def _draft(code: PipelineCode, query: str | None) -> None:
    """Print a draft, and on the standard error how many questions it has."""
    from tidemark.preflight import draft_text
    from tidemark.runner.plan_draft import draft_of_file, draft_of_function
    from tidemark.sparkfiles.log_lines import is_event_log
    from tidemark.stack import lease, spec_to_lease

    path = Path(code.pipeline)
    if path.suffix == ".txt" or query is not None or is_event_log(path):
        made = draft_of_file(path, query)
    else:
        code.arguments()  # what is not there is said before a stack is started
        with lease(spec_to_lease(code.python)) as stack:
            made = draft_of_function(code, stack)
    typer.echo(draft_text(made, code.pipeline), nl=False)
    many = sum(map(len, made.questions.values()))
    typer.echo(f"{made.contract.name}: {many} question{'' if many == 1 else 's'} in the draft", err=True)


def _print_json(contract: Contract | Chain, plan_check: PlanCheck) -> None:
    import msgspec

    shown = {
        "contract": contract.to_json(),
        "mismatches": plan_check.comparison.mismatches,
        "not_compared": plan_check.comparison.not_compared,
        "warnings": plan_check.advice,
        "plan": plan_check.plan,
    }
    typer.echo(msgspec.json.encode(shown).decode())


def _print(contract: Contract | Chain, plan_check: PlanCheck) -> None:
    import json

    typer.echo(json.dumps(contract.to_json(), indent=2))
    plan_check.tell(typer.echo)
    for sentence in plan_check.comparison.not_compared:
        typer.echo(f"not compared: {sentence}")
    differ, warned = len(plan_check.comparison.mismatches), len(plan_check.advice)
    typer.echo(f"{contract.name}: {differ} mismatches between contract and plan, {warned} warnings")
