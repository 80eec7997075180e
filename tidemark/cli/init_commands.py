"""``tidemark init``: from a join that is there to a first test of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.shared_options import Project, PyFiles
from tidemark.cli.trace_commands import pair
from tidemark.errors import UsageError

if TYPE_CHECKING:
    from tidemark.preflight import ContractDraft


def register(app: typer.Typer) -> None:
    """Add ``init`` to the command line."""
    app.command("init")(init_command)


def init_command(
    function: Annotated[
        str, typer.Argument(help="The function that joins two streams: PACKAGE.MODULE:FUNCTION or FILE.py:FUNCTION.")
    ],
    sample: Annotated[
        list[str],
        typer.Option(help="TOPIC=FILE, a file whose first line is a record of that topic as JSON; for both topics,"
                     " which are called as the function calls its parameters."),
    ] = [],  # noqa: B006
    identity: Annotated[
        list[str],
        typer.Option("--id", help="TOPIC=FIELD, the field that names a record; default: what the plan says, or asked."),
    ] = [],  # noqa: B006
    name: Annotated[str, typer.Option(help="The name of the join and of its files.")] = "",
    folder: Annotated[Path, typer.Option(help="Where contract, trace and test go.")] = Path("tests"),
    ci: Annotated[bool, typer.Option(help="Write a job for GitHub, if there is none.")] = True,
    spark: Annotated[Path | None, typer.Option(help="Interpreter with another PySpark to plan on.")] = None,
    project: Project = None,
    py_files: PyFiles = None,
) -> None:  # fmt: skip
    """Write a first test of your join: its contract, drafted from the plan, a trace, a test and a CI job.

    The trace is made of a sample record of each topic: pairs at and beyond the ends of the bound, rows without a
    partner, late ones. Nothing that is there is overwritten.
    """
    from tidemark.runner import PipelineCode
    from tidemark.runner.plan_draft import draft_of_function
    from tidemark.runner.starter_files import Starter, with_ids, write_starter
    from tidemark.stack import lease, spec_to_lease

    samples = {topic: Path(file) for topic, file in map(pair, sample)}
    code = PipelineCode(function, spark, project, tuple(py_files or ()))
    code.arguments()  # what is not there is said before a stack is started
    for file in samples.values():
        if not file.is_file():
            raise UsageError(
                f"there is no sample {str(file)!r}", hint="--sample names a file with a record as JSON"
            )
    with lease(spec_to_lease(spark)) as stack:
        draft = draft_of_function(code, stack)
    if name:
        draft.contract = replace(draft.contract, name=name)
    draft = with_ids(draft, {**_asked(draft), **dict(map(pair, identity))})
    written = write_starter(draft, function, samples, Starter(folder, ci))
    for path in written:
        typer.echo(f"written: {path}")
    typer.echo(_next(draft, folder))


def _asked(draft: ContractDraft) -> dict[str, str]:
    """The ids that the plan leaves open, asked for at a terminal."""
    found: dict[str, str] = {}
    for about, side in (("left.id", draft.contract.left), ("right.id", draft.contract.right)):
        for question in draft.questions.get(about, []) if sys.stdin.isatty() else []:
            typer.echo(f"{side.topic}: {question}", err=True)
            found[side.topic] = typer.prompt(
                f"the field that names a record of {side.topic}", default=side.id, err=True
            )
    return found


def _next(draft: ContractDraft, folder: Path) -> str:
    many, name = sum(map(len, draft.questions.values())), draft.contract.name
    questions = (
        f"read {folder / name}.py, and answer its {many} questions (QUESTION)"
        if many
        else f"read {folder / name}.py"
    )
    return (
        f"next:\n  1. {questions}: it says what the query does, and has to say what it should do\n"
        f"  2. tidemark contract {folder / name}.py\n  3. pytest {folder / f'test_{name}.py'}"
    )
