"""Conversion of run directories and traces of format version 1 to version 2; the readers take version 2 only.

What version 2 changed:

- the journal of faults is typed: ``{"fault": "KillDriverTwice", "done": true}`` is now ``{"component": "driver",
  "action": "kill-twice", "injected": true}``, and the proof's ``part`` is ``component_name``;
- ``anchors`` of manifest and trace are ``goals``, two of which have another name, and ``keeps_timeless`` of a side
  of a contract is ``keeps_null_event_time``.

The manifest is written last: a conversion that was interrupted is done again from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import zstandard

from tidemark.errors import BrokenEvidence, BrokenTrace
from tidemark.formats import evidence, trace
from tidemark.formats.faults import Fault, FaultAction, FaultComponent
from tidemark.formats.jsonlines import open_lines, write_lines

_FAULTS = {
    "KillDriver": (FaultComponent.DRIVER, FaultAction.KILL),
    "KillDriverTwice": (FaultComponent.DRIVER, FaultAction.KILL_TWICE),
    "PauseDriver": (FaultComponent.DRIVER, FaultAction.PAUSE),
    "KillExecutor": (FaultComponent.EXECUTOR, FaultAction.KILL),
    "PauseExecutor": (FaultComponent.EXECUTOR, FaultAction.PAUSE),
    "KillExecutors": (FaultComponent.EXECUTORS, FaultAction.KILL),
    "KillWorker": (FaultComponent.WORKER, FaultAction.KILL),
    "KillMaster": (FaultComponent.MASTER, FaultAction.KILL),
    "KillBroker": (FaultComponent.BROKER, FaultAction.KILL),
    "PauseBroker": (FaultComponent.BROKER, FaultAction.PAUSE),
}
"""Names of faults in version 1."""

_GOALS = {
    "null_row_after_expiry": "null_row_after_eviction",
    "duplicate_excused": "duplicate_permitted",
}
"""Coverage goals that had another name in version 1."""


def convert(path: Path) -> bool:
    """Bring a run directory, or a trace, to the version that is read; false if it has that version already.

    It is done in place. Raises ``BrokenEvidence`` or ``BrokenTrace`` for what cannot be read as version 1.
    """
    return _convert_run(path) if path.is_dir() else convert_trace(path)


def convert_trace(path: Path) -> bool:
    """Bring a trace to the version that is read; false if it has that version already. Raises ``BrokenTrace``."""
    try:
        with open_lines(path) as file:
            header = _object(file.readline())
            version = header.get("tidemark_trace")
            if version == trace.FORMAT:
                return False
            if version != 1:
                raise ValueError(f"the header has format version {version!r}, not 1")
            write_lines(path, _lines_with_header(_header(header), file))
    except (OSError, ValueError, zstandard.ZstdError) as error:
        raise BrokenTrace(
            f"{str(path)!r} cannot be converted",
            detail=str(error),
            hint="give run directories and traces that an earlier version wrote",
        ) from error
    return True


def _convert_run(path: Path) -> bool:
    manifest_path = path / "manifest.json"
    try:
        manifest = _object(manifest_path.read_bytes())
        version = manifest.get("tidemark_evidence")
        if version == evidence.FORMAT:
            return False
        if version != 1:
            raise ValueError(f"manifest.json has format version {version!r}, not 1")
        run = evidence.RunDirectory(path)
        for name in ("trace", "flush"):
            if (file := run.file(name)).is_file():
                convert_trace(file)
        if "trace_sha256" in manifest and run.file("trace").is_file():
            manifest["trace_sha256"] = trace.trace_sha256(run.file("trace"))
        if (journal := run.file("faults")).is_file():
            _convert_journal(journal)
        if (contract := path / "contract.json").is_file():
            run.write_json("contract", _contract(msgspec.json.decode(contract.read_bytes())))
        run.write_json("manifest", _manifest(manifest))
    except (OSError, ValueError, zstandard.ZstdError) as error:
        raise BrokenEvidence(
            f"{str(path)!r} cannot be converted",
            detail=str(error),
            hint="give run directories and traces that an earlier version wrote",
        ) from error
    return True


def _convert_journal(path: Path) -> None:
    with open_lines(path) as file:
        faults = [_fault(_object(line)) for line in file if not line.isspace()]
    write_lines(path, map(msgspec.json.encode, faults))


def _fault(line: dict[str, Any]) -> Fault:
    """A line of a journal; one that an interrupted conversion has converted already is taken as it is."""
    if "fault" in line:
        name = line.pop("fault")
        if name not in _FAULTS:
            raise ValueError(f"the journal has an unknown fault {name!r}")
        line["component"], line["action"] = _FAULTS[name]
        line["injected"] = line.pop("done", None)
        proof = line.get("proof", {})
        if "part" in proof:
            proof["component_name"] = proof.pop("part")
    return msgspec.convert(line, Fault)


def _manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    converted = _goals(manifest) | {"tidemark_evidence": evidence.FORMAT}
    return converted | {"contract": _contract(manifest.get("contract"))}


def _header(header: dict[str, Any]) -> bytes:
    return msgspec.json.encode(_goals(header) | {"tidemark_trace": trace.FORMAT})


def _goals(item: dict[str, Any]) -> dict[str, Any]:
    """The same object with goals for anchors, at the same place."""
    renamed = {("goals" if name == "anchors" else name): value for name, value in item.items()}
    if "goals" in renamed:
        renamed["goals"] = [_GOALS.get(goal, goal) for goal in renamed["goals"]]
    return renamed


def _contract(value: Any) -> Any:
    """A contract, of whatever shape: the key of a side that has another name is replaced wherever it is."""
    if isinstance(value, dict):
        return {
            ("keeps_null_event_time" if name == "keeps_timeless" else name): _contract(inner)
            for name, inner in value.items()
        }
    return [_contract(inner) for inner in value] if isinstance(value, list) else value


def _object(data: bytes) -> dict[str, Any]:
    return msgspec.json.decode(data, type=dict[str, Any])


def _lines_with_header(header: bytes, file: IO[bytes]) -> Iterator[bytes]:
    yield header
    for line in file:
        yield line.rstrip(b"\n")
