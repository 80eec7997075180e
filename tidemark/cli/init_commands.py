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
    from tidemark.runner import PipelineCode
    from tidemark.runner.starter_files import Starter, StarterFiles

FOLDER = Path("tests")


def register(app: typer.Typer) -> None:
    """Add ``init`` to the command line."""
    app.command("init")(init_command)


def init_command(
    pipeline: Annotated[
        str,
        typer.Argument(
            metavar="FUNCTION",
            help="The function that joins two streams: PACKAGE.MODULE:FUNCTION or FILE.py:FUNCTION."
            " Or FILE.py with a CONTRACT, which is kept, and the rest is written for it.",
        ),
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
    folder: Annotated[Path, typer.Option(help="Where contract, trace and test go.")] = FOLDER,
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
    from tidemark.runner.starter_files import Starter, has_contract

    code = PipelineCode(pipeline, spark, project, tuple(py_files or ()))
    code.arguments()  # what is not there is said before a stack is started
    samples = _samples(sample)
    starter = Starter(folder, ci, samples, _options(folder, ci, code))
    if has_contract(pipeline):
        if identity:
            raise UsageError(
                f"--id is given, and {pipeline!r} has a contract", hint="write the ids into the contract"
            )
        _go_on(code, name, starter)
    else:
        _begin(code, name, dict(map(pair, identity)), starter)


def _samples(pairs: list[str]) -> dict[str, Path]:
    """The sample of each topic; raises ``UsageError`` for one that is not there or has no record."""
    from tidemark.formats.sample_records import read_sample

    samples = {topic: Path(file) for topic, file in map(pair, pairs)}
    for file in samples.values():
        if not file.is_file():
            raise UsageError(
                f"there is no sample {str(file)!r}", hint="--sample names a file with a record as JSON"
            )
        read_sample(file)
    return samples


def _options(folder: Path, ci: bool, code: PipelineCode) -> list[str]:
    """The options that say the same again, but for the samples, the ids and the name."""
    return [
        *([] if folder == FOLDER else [f"--folder={folder}"]),
        *([] if ci else ["--no-ci"]),
        *([] if code.python is None else [f"--spark={code.python}"]),
        *([] if code.project is None else [f"--project={code.project}"]),
        *(f"--py-files={package}" for package in code.py_files),
    ]


def _begin(code: PipelineCode, name: str, ids: dict[str, str], starter: Starter) -> None:
    """Draft the contract, and write all files."""
    from tidemark.runner.plan_draft import draft_of_function
    from tidemark.runner.starter_files import with_ids, write_starter
    from tidemark.stack import lease, spec_to_lease

    with lease(spec_to_lease(code.python)) as stack:
        draft = draft_of_function(code, stack)
    if name:
        draft.contract = replace(draft.contract, name=name)
    draft = with_ids(draft, {**_asked(draft), **ids})
    _tell(write_starter(draft, code.pipeline, starter))
    typer.echo(_next(draft, starter.folder))


def _go_on(code: PipelineCode, name: str, starter: Starter) -> None:
    """Write what is not there yet for the contract of a file."""
    from tidemark.formats.chain import Chain
    from tidemark.runner.pipeline_code import describe
    from tidemark.runner.starter_files import go_on

    contract, file = describe(code), Path(code.pipeline)
    if isinstance(contract, Chain):
        raise UsageError(
            f"{str(file)!r} has the contract of a chain",
            detail="a trace is made of samples for a single join",
            hint="record or write its trace: docs/howto/bring-my-data.md",
        )
    name = name or file.stem
    _tell(go_on(contract, file, name, starter))
    typer.echo(f"next:\n  1. tidemark contract {file}\n  2. pytest {starter.folder / f'test_{name}.py'}")


def _tell(files: StarterFiles) -> None:
    for path in files.written:
        typer.echo(f"written: {path}")
    for path in files.kept:
        typer.echo(f"kept: {path}")


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
