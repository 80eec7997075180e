"""The trace of a run whose records are decoded by functions of the pipeline's file, and the sentinels made by them.

The functions run in a program of their own (``pipelines.codec``), with the interpreter of the pipeline, before the run.
What they read is kept beside trace and flush, so that the run is judged again without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import UsageError
from tidemark.formats.contract import Contract
from tidemark.formats.decoded_records import decoded_path
from tidemark.formats.events import Event, read_event
from tidemark.formats.trace import TraceReader, write_trace
from tidemark.runner.programs import PROGRAM_S, run_program
from tidemark.runner.project_path import located
from tidemark.runner.run_options import RunOptions


@dataclass(frozen=True)
class DecodedRun:
    """A run by its options, its contract and its directory."""

    options: RunOptions
    contract: Contract
    path: Path


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
    for side in (run.contract.left, run.contract.right):
        for wanted, found in zip(
            _events(run, side.topic, events), _events(run, side.topic, again), strict=True
        ):
            if wanted != found:
                raise UsageError(
                    f"{side.encode} is not the inverse of {side.decode}",
                    detail=f"the sentinel {wanted} of {side.topic!r} was decoded as {found}",
                    hint="encode has to write the id, the keys, the time and all other values that it gets",
                )
    events.unlink()


def _run_codec(run: DecodedRun, what: str, *files: Path) -> None:
    code = run.options.code
    path = [f"--path={folder}" for folder in code.path]
    arguments = ["pipelines.codec", *path, what, located(code.pipeline), *map(str, files)]
    run_program(arguments, timeout_s=PROGRAM_S, python=code.python)


def _events(run: DecodedRun, topic: str, trace: Path) -> Iterator[Event | None]:
    side = run.contract.side(topic)
    with TraceReader(trace) as reader:
        yield from [read_event(record.value, side) for record in reader if record.topic == topic]


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
