"""The first files of a test of somebody's join: contract, trace, test, CI job. Nothing that is there is overwritten.

The contract is written before the trace: where a sample is no event of it, it is there to be corrected. From a file
with a contract the other files are made (``go_on``).
"""

from __future__ import annotations

import ast
import json
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from tidemark import paths
from tidemark.errors import UsageError
from tidemark.formats.contract import Contract
from tidemark.preflight import ContractDraft, draft_text
from tidemark.preflight.contract_draft import UNKNOWN
from tidemark.runner.programs import run_program
from tidemark.runner.project_path import file_and_name, project_path

SAMPLES_S = 60.0
"""Calibration: a trace of samples takes half a second."""

_TEST = '''"""Runs the join {name} on a real Kafka and a real Spark, and judges every row."""

from pathlib import Path

HERE = Path(__file__).parent


def test_every_row_is_right(run_pipeline):
    run_pipeline(HERE / {pipeline}, trace=HERE / "{name}.jsonl").assert_valid()


def test_a_driver_that_is_killed_loses_and_doubles_nothing(run_pipeline):
    run_pipeline(HERE / {pipeline}, trace=HERE / "{name}.jsonl", faults="driver@planned").assert_valid()
'''
_JOB = """name: tidemark
on: [push]
jobs:
  joins:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {{python-version: "3.11"}}
      - uses: actions/setup-java@v4
        with: {{distribution: temurin, java-version: "17"}}
      # Install this project and tidemark here, as on your machine.
      - run: tidemark doctor
      - run: pytest {tests}
      - uses: actions/upload-artifact@v4
        if: failure()
        with: {{name: runs, path: runs}}
"""
JOB = Path(".github", "workflows", "tidemark.yml")


@dataclass(frozen=True)
class Starter:
    """Where the files go, whether a CI job is one of them, and a sample of each topic.

    ``options`` are those with which the command has to be given again, besides the samples.
    """

    folder: Path
    ci: bool
    samples: Mapping[str, Path]
    options: Sequence[str] = ()

    def command(self, file: Path) -> str:
        """The command that goes on with the contract in a file."""
        samples = [f"--sample={topic}={path}" for topic, path in self.samples.items()]
        return shlex.join(["tidemark", "init", str(file), *samples, *self.options])


@dataclass
class StarterFiles:
    """What was written, and what was there and is as it was."""

    written: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)


def has_contract(pipeline: str) -> bool:
    """Whether a pipeline is a Python file, named without a function, with a ``CONTRACT``; it is not imported.

    True also of a file that is no Python: its program says what is wrong with it.
    """
    path = Path(pipeline)
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        statements = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError):
        return True
    return any("CONTRACT" in _names_of(one) for one in statements)


def with_ids(draft: ContractDraft, ids: Mapping[str, str]) -> ContractDraft:
    """The draft with the ids of its topics as given; raises ``UsageError`` for one that is not known, or not given."""
    contract = draft.contract
    topics = (contract.left.topic, contract.right.topic)
    for topic in ids:
        if topic not in topics:
            raise UsageError(f"the join has no topic {topic!r}", hint=f"it has {' and '.join(topics)}")
    sides = [replace(side, id=ids.get(side.topic, side.id)) for side in (contract.left, contract.right)]
    for side in sides:
        unknown = [name for name in (side.id, side.time, *side.keys) if name.startswith(UNKNOWN)]
        if unknown:
            about = "id" if side.id in unknown else "event time" if side.time in unknown else "key"
            raise UsageError(
                f"the plan does not say which field of {side.topic} is the {about}",
                hint=f"give it with --id {side.topic}=FIELD" if about == "id"
                else "write the contract by hand: `tidemark contract --draft` prints what the plan says of it",
            )  # fmt: skip
    if UNKNOWN in (contract.output.left_id, contract.output.right_id):
        raise UsageError(
            "the output has no column with the id of a record of each topic",
            hint="select the ids in the join: without them no row of the output can be told from another",
        )
    draft.contract = replace(contract, left=sides[0], right=sides[1])
    return draft


def write_starter(draft: ContractDraft, pipeline: str, starter: Starter) -> StarterFiles:
    """Write the files; returns them. Raises ``UsageError`` if one is there, or a sample is no event of its topic.

    In the latter case the contract is there, to be corrected.
    """
    name = draft.contract.name
    module, function = _imported(pipeline)
    file = starter.folder / f"{name}.py"
    for one in (file, *_tests(file, name, starter), _trace(name, starter)):
        if one.exists():
            other = "another folder with --folder, another name with --name"
            raise UsageError(
                f"{str(one)!r} is there already", detail="nothing is overwritten",
                hint=f"go on with its contract by `{starter.command(file)}`; or give {other}" if one == file
                else f"give {other}, or remove it",
            )  # fmt: skip
    _check_samples(draft.contract, starter)
    _write(file, _contract_file(draft, pipeline, module, function))
    try:
        found = go_on(draft.contract, file, name, starter)
    except UsageError as error:
        why = [error.detail, f"the contract is in {file}; there is no trace and no test yet"]
        raise UsageError(
            error.message, detail="; ".join(filter(None, why)),
            hint=f"correct {file}, or the sample, and go on: `{starter.command(file)}`",
        ) from error  # fmt: skip
    return StarterFiles([file, *found.written], [one for one in found.kept if one != file])


def go_on(contract: Contract, file: Path, name: str, starter: Starter) -> StarterFiles:
    """Write the trace, the test and the CI job for a contract in a file; what is there of them is kept.

    Raises ``UsageError`` if a sample is no event of its topic; then nothing is written.
    """
    _check_samples(contract, starter)
    found, trace = StarterFiles(kept=[file]), _trace(name, starter)
    if trace.exists():
        found.kept.append(trace)
    else:
        starter.folder.mkdir(parents=True, exist_ok=True)
        _write_trace(contract, starter.samples, trace)
        found.written.append(trace)
    texts = _tests(file, name, starter)
    if starter.ci:
        texts[JOB] = _JOB.format(tests=starter.folder.as_posix())
    for path, text in texts.items():
        if path.exists():
            found.kept.append(path)
        else:
            _write(path, text)
            found.written.append(path)
    return found


def _names_of(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module gives a value."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [one.asname or one.name for one in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [one.id for one in targets if isinstance(one, ast.Name)]


def _check_samples(contract: Contract, starter: Starter) -> None:
    missing = [side.topic for side in (contract.left, contract.right) if side.topic not in starter.samples]
    if missing:
        raise UsageError(
            f"there is no sample of {' and '.join(missing)}", hint="give --sample TOPIC=FILE for each topic"
        )


def _trace(name: str, starter: Starter) -> Path:
    return starter.folder / f"{name}.jsonl"


def _tests(file: Path, name: str, starter: Starter) -> dict[Path, str]:
    """The text of the test, by its file."""
    place = Path(os.path.relpath(file.resolve(), starter.folder.resolve())).as_posix()
    text = _TEST.format(name=name, pipeline=json.dumps(place, ensure_ascii=False))
    return {starter.folder / f"test_{name}.py": text}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_trace(contract: Contract, samples: Mapping[str, Path], trace: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tidemark-") as scratch:
        file = Path(scratch) / "contract.json"
        file.write_bytes(msgspec.json.encode(contract.to_json()))
        named = [f"--sample={topic}={path.resolve()}" for topic, path in samples.items()]
        arguments = ["producers", "samples", str(file), "--out", str(trace.resolve()), *named]
        run_program(arguments, timeout_s=SAMPLES_S)


def _contract_file(draft: ContractDraft, pipeline: str, module: str, function: str) -> str:
    imported = (
        f"from {module} import {function}\n"
        if function == "build"
        else f"from {module} import {function} as build\n"
    )
    return draft_text(draft, pipeline, imported) + '\n__all__ = ["CONTRACT", "build"]\n'


def _imported(pipeline: str) -> tuple[str, str]:
    """The module and the function that a pipeline is, as a file of the project imports them."""
    file, name = file_and_name(pipeline)
    if not file.endswith(".py"):
        module, _, function = pipeline.partition(":")
        return module, function or "build"
    path = Path(file).resolve()
    for root in [Path(one) for one in project_path(pipeline)[1:]]:
        if path.is_relative_to(root) and root != paths.PACKAGE.parent:
            parts = path.relative_to(root).with_suffix("").parts
            if all(part.isidentifier() for part in parts):
                return ".".join(parts), name.removeprefix(":") or "build"
    raise UsageError(
        f"{file!r} cannot be imported from the project", hint="name it as a module: PACKAGE.MODULE:FUNCTION"
    )
