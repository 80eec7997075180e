"""The first files of a test of somebody's join: contract, trace, test, CI job. Nothing that is there is overwritten."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    run_pipeline(HERE / "{name}.py", trace=HERE / "{name}.jsonl").assert_valid()


def test_a_driver_that_is_killed_loses_and_doubles_nothing(run_pipeline):
    run_pipeline(HERE / "{name}.py", trace=HERE / "{name}.jsonl", faults="driver@planned").assert_valid()
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
    """Where the files go, and whether a CI job is one of them."""

    folder: Path
    ci: bool


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


def write_starter(
    draft: ContractDraft, pipeline: str, samples: Mapping[str, Path], starter: Starter
) -> list[Path]:
    """Write the files; returns them. Raises ``UsageError`` if one is there, or a sample is no event of its topic."""
    contract, folder = draft.contract, starter.folder
    name = contract.name
    module, function = _imported(pipeline)
    files = {
        folder / f"{name}.py": _contract_file(draft, pipeline, module, function),
        folder / f"test_{name}.py": _TEST.format(name=name),
    }
    if starter.ci and not JOB.exists():
        files[JOB] = _JOB.format(tests=folder.as_posix())
    trace = folder / f"{name}.jsonl"
    for file in (*files, trace):
        if file.exists():
            raise UsageError(
                f"{str(file)!r} is there already", detail="nothing is overwritten",
                hint="give another folder with --folder, another name with --name, or remove it",
            )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    _write_trace(contract, samples, trace)
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [*files, trace]


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
