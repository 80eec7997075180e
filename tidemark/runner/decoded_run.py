"""What functions of a user's file read of a trace, and the sentinels made by them.

The functions run in a program of their own (``pipelines.codec``), with the interpreter of the pipeline: before a run,
and once an audit has read its topics. What they read is kept beside trace and flush, so that the evidence is judged
again without them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidemark.errors import UsageError
from tidemark.formats.chain import Chain, decoders_of
from tidemark.formats.contract import Contract
from tidemark.formats.decoded_records import decoded_path
from tidemark.formats.events import read_event
from tidemark.formats.trace import TraceReader, write_trace
from tidemark.oracle.input.chain_history import row_reader
from tidemark.runner.pipeline_code import PipelineCode, driver_session
from tidemark.runner.programs import PROGRAM_S, run_program
from tidemark.runner.project_path import is_python, located
from tidemark.stack import Stack


@dataclass(frozen=True)
class DecodedRun:
    """The functions of a contract (``code``, whose pipeline is the file or module that has them), and a run directory.

    The directory has the contract (``contract.json``). ``registry`` is the URL of the run's schema registry, empty if
    there is none. ``stack`` has a driver for a file that cannot be imported without a session.
    """

    code: PipelineCode
    contract: Contract | Chain
    path: Path
    registry: str = ""
    stack: Stack | None = None


def code_of_functions(code: PipelineCode, functions: str, contract: Contract | Chain) -> PipelineCode:
    """The code in which the functions of a contract are: the file that is named, else the pipeline.

    Raises ``UsageError`` where the contract names functions and neither has any, and where it names none.
    """
    named = decoders_of(contract)
    if functions and not named:
        raise UsageError(
            f"--functions {functions} is given, and the contract {contract.name!r} names no functions",
            hint="name them in `decode` and `encode` of a side, or leave out --functions",
        )
    if functions.endswith(".py") and not Path(functions).is_file():
        raise UsageError(
            f"there is no file {functions!r}", hint="--functions names a Python file, or a module"
        )
    file = functions or code.pipeline
    if named and not is_python(file):
        topics = "; ".join(f"{topic}: {decode} and {encode}" for topic, (decode, encode) in named.items())
        raise UsageError(
            f"the contract {contract.name!r} names functions that decode records, and {file!r} has none",
            detail=topics,
            hint="name the file or the module that has them: --functions FILE.py, or PACKAGE.MODULE",
        )
    return replace(code, pipeline=file)


def make_sentinels(path: Path, trace: Path, flush: Path) -> None:
    """Make the sentinels that follow a trace, by the contract in a run directory."""
    arguments = ["producers", "sentinels", str(path / "contract.json"), str(trace), "--out", str(flush)]
    run_program(arguments, timeout_s=PROGRAM_S)


def make_decoded(run: DecodedRun, trace: Path) -> None:
    """Write ``decoded_trace``, ``flush`` and ``decoded_flush``.

    Raises ``UsageError`` if a function is missing or fails, and if what is encoded is not decoded as the same event.
    """
    decoded, events, flush = decoded_path(trace), run.path / "events.jsonl", run.path / "flush.jsonl"
    again = decoded_path(flush)
    with _plain(trace) as plain:
        _run_codec(run, "decode", plain, decoded)
        make_sentinels(run.path, decoded, events)
        _run_codec(run, "encode", events, plain, flush)
    _run_codec(run, "decode", flush, again)
    for topic, (decode, encode) in decoders_of(run.contract).items():
        for wanted, found in zip(_events(run, topic, events), _events(run, topic, again), strict=True):
            if wanted != found:
                raise UsageError(
                    f"{encode} is not the inverse of {decode}",
                    detail=f"the sentinel {wanted} of {topic!r} was decoded as {found}",
                    hint="encode has to write the id, the keys, the time and all other values that it gets",
                )
    events.unlink()


def must_have_decoders(run: DecodedRun) -> None:
    """Raise ``UsageError`` if a function that decodes is missing, or its file cannot be imported."""
    _run_codec(run, "check")


def decode_trace(run: DecodedRun, trace: Path) -> None:
    """Write ``decoded_trace``; raises ``UsageError`` if a function is missing."""
    with _plain(trace) as plain:
        _run_codec(run, "decode", plain, decoded_path(trace))


def keep_functions(functions: str, path: Path) -> None:
    """Copy the file of the functions into a run directory, if they are in one of their own."""
    if functions.endswith(".py"):
        shutil.copyfile(functions, path / "functions.py")


def _run_codec(run: DecodedRun, what: str, *files: Path) -> None:
    path = [f"--path={folder}" for folder in run.code.path]
    contract, code = str(run.path / "contract.json"), located(run.code.pipeline)
    arguments = ["pipelines.codec", *path, what, contract, code, *map(str, files)]
    with nullcontext() if run.stack is None else driver_session(run.stack) as remote:
        arguments += [] if remote is None else [f"--remote={remote}"]
        run_program(arguments, timeout_s=PROGRAM_S, python=run.code.python, registry=run.registry)


def _events(run: DecodedRun, topic: str, trace: Path) -> Iterator[object]:
    """What each record of a topic says: its event, of a chain the fields of each of its sources."""
    read = _readers(run.contract, topic)
    with TraceReader(trace) as reader:
        for record in reader:
            if record.topic == topic:
                found = [one(record.value) for one in read]
                yield found[0] if len(found) == 1 else found


def _readers(contract: Contract | Chain, topic: str) -> list[Callable[[bytes | str | None], Any]]:
    if isinstance(contract, Chain):
        return [row_reader(source) for source in contract.sources if source.topic == topic]
    side = contract.side(topic)
    return [lambda value: read_event(value, side)]


@contextmanager
def _plain(trace: Path) -> Iterator[Path]:
    """A trace as JSON Lines that are not compressed."""
    if trace.suffix == ".jsonl":
        yield trace
        return
    plain = trace.with_name("plain.jsonl")
    with TraceReader(trace) as reader:
        write_trace(plain, reader.header, reader)
    try:
        yield plain
    finally:
        plain.unlink()
