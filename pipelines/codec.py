"""Decodes and encodes records with the functions that a contract names: ``python -m pipelines.codec``.

``decode CONTRACT FILE TRACE OUT``  the trace with the values that the functions read: JSON, or text that says why not.
``check CONTRACT FILE``  nothing but whether the functions are there that decode.
``encode CONTRACT FILE EVENTS TRACE OUT``  the records of events; each is made like the last record of its topic.

``CONTRACT`` is JSON, ``FILE`` the file or the module with the functions.

Traces are JSON Lines that are not compressed (``tidemark.formats.trace``). Any interpreter runs it that runs the
pipeline. A session is opened only for a file that cannot be imported without one, as one with a ``@udf`` at its top
level, and only if ``--remote`` names a driver. Topics of which the contract names no functions stay as they are.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql import SparkSession

from pipelines.pipeline_loader import load_module
from pipelines.project_modules import add_to_path
from pipelines.user_errors import came_from_spark
from tidemark.errors import TidemarkError, UsageError
from tidemark.formats.chain import Chain, decoders_of, read_contract
from tidemark.formats.connect_url import with_token
from tidemark.formats.contract import Contract
from tidemark.formats.json_schema_records import JsonObject
from tidemark.formats.kafka_record import KafkaRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Decode = Callable[[KafkaRecord], Any]
    Encode = Callable[[dict[str, Any], KafkaRecord | None], Any]
    Line = dict[str, Any]

SHOWN = 60
"""So many characters of what went wrong, and so many bytes of the value, are in the place of what was read."""


class Codec:
    """The functions of one file that a contract names, by topic; those that encode only where something is encoded."""

    def __init__(self, contract: Contract | Chain, file: str, *, encodes: bool = True) -> None:
        module = load_module(file)
        self._decoders: dict[str, tuple[str, Decode]] = {}
        self._encoders: dict[str, tuple[str, Encode]] = {}
        for topic, (decode, encode) in decoders_of(contract).items():
            self._decoders[topic] = decode, _function(module, file, decode)
            if encodes:
                self._encoders[topic] = encode, _function(module, file, encode)

    def decode(self, line: Line) -> Line:
        """A line of a trace with the value that was read of it; an offset without a record has none."""
        found = self._decoders.get(line["topic"])
        if found is None or _is_no_record(line):
            return line
        kept = {name: value for name, value in line.items() if name not in ("value", "value_base64")}
        return kept | {"value": _text(*found, as_record(line))}

    def typed(self, line: Line) -> tuple[KafkaRecord, dict[str, Any]] | None:
        """A record of a topic that is decoded, and what it says; ``None`` for any other, and for what is no event."""
        known = self._decoders.get(line["topic"])
        if known is None:
            return None
        _, decode = known
        record = as_record(line)
        try:
            found = decode(record)
        except TidemarkError:
            raise  # a registry that does not answer, say: nothing is known of the record
        except Exception:  # noqa: BLE001 (whatever it is, the record is no event)
            return None
        return (record, found) if isinstance(found, dict) else None

    def encode(self, line: Line, like: tuple[KafkaRecord, dict[str, Any]] | None) -> Line:
        """The record of an event. Raises ``UsageError`` if the function fails."""
        known = self._encoders.get(line["topic"])
        if known is None:
            return line
        name, encode = known
        record, said = like or (None, None)
        event = as_like(json.loads(line["value"], parse_float=Decimal), said)
        try:
            made = encode(event, record)
        except TidemarkError:
            raise
        except Exception as error:
            raise UsageError(
                f"{name} raised {type(error).__name__}: {error}",
                detail=f"it was to encode a sentinel of {line['topic']!r}: {event!r}",
                hint="the docstring of tidemark/formats/kafka_record.py says what it gets",
            ) from error
        return _with_value(line, made, record, name)


def _function(module: Any, file: str, name: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(
            f"{file!r} has no function {name}",
            hint="the contract names it in `decode` or `encode`; define it there, or name the file that has it:"
            " --functions FILE.py",
        )
    return found


def _is_no_record(line: Line) -> bool:
    """Whether a topic has no record at this offset: it is absent, or, in the trace of an audit, without anything."""
    names = ("value", "value_base64", "key", "key_base64", "headers", "arrival_ms")
    return line.get("absent") is not None or not any(line.get(name) for name in names)


def as_record(line: Line) -> KafkaRecord:
    """A line of a trace as the functions get it."""
    return KafkaRecord(
        topic=line["topic"],
        value=_bytes(line, "value"),
        key=_bytes(line, "key"),
        headers=tuple((name, _header(value)) for name, value in line.get("headers", ())),
        partition=line.get("partition", 0),
        timestamp_ms=line["arrival_ms"] if line.get("timestamp_ms") is None else line["timestamp_ms"],
    )


def _bytes(line: Line, name: str) -> bytes | None:
    if line.get(f"{name}_base64") is not None:
        return base64.b64decode(line[f"{name}_base64"])
    text = line.get(name)
    return None if text is None else text.encode()


def _header(value: str | dict[str, str] | None) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


def _text(name: str, decode: Decode, record: KafkaRecord) -> str:
    """What a record says, as JSON; or why it says nothing."""
    try:
        found = decode(record)
        if isinstance(found, JsonObject):
            return found.text
        if isinstance(found, dict):
            return json.dumps(found, default=_plain, ensure_ascii=False)
        why = f"{name} returned {'None' if found is None else f'no dictionary: {found!r}'[:SHOWN]}"
    except TidemarkError:
        raise  # a registry that does not answer, say: nothing is known of the record
    except Exception as error:  # noqa: BLE001 (whatever it is, the record is no event)
        why = f"{name} raised {type(error).__name__}: {error}"[: 2 * SHOWN]
    if record.value is None:
        return why
    return f"{why}; its value is {record.value[:SHOWN]!r}{' …' if len(record.value) > SHOWN else ''}"


def _plain(value: object) -> str:
    """A value that JSON has not."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{value!r} is no value of JSON, and no time, date, Decimal, UUID or bytes")


def as_like(value: Any, like: Any) -> Any:
    """A decoded JSON value with the types that another one has: text where that has a time is a time."""
    if isinstance(value, dict):
        known = like if isinstance(like, dict) else {}
        return {name: as_like(one, known.get(name)) for name, one in value.items()}
    if isinstance(value, list):
        entries = [*like] if isinstance(like, list | tuple) else []
        return [as_like(one, entries[at] if at < len(entries) else None) for at, one in enumerate(value)]
    if type(value) is str:
        for kind, read in _READ.items():
            if isinstance(like, kind):
                return read(value)
    return float(value) if isinstance(value, Decimal) and not isinstance(like, Decimal) else value


_READ: dict[type[Any], Callable[[str], Any]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    Decimal: Decimal,
    UUID: UUID,
    bytes: base64.b64decode,
}


def _with_value(line: Line, made: object, like: KafkaRecord | None, name: str) -> Line:
    kept = {key: value for key, value in line.items() if key != "value"}
    if isinstance(made, KafkaRecord):
        headers = [[one, _header_text(value)] for one, value in made.headers]
        is_moved = made.timestamp_ms and (like is None or made.timestamp_ms != like.timestamp_ms)
        time = {"timestamp_ms": made.timestamp_ms} if is_moved else {}
        return kept | _as_text("value", made.value) | _as_text("key", made.key) | {"headers": headers} | time
    if isinstance(made, bytes | str):
        headers = [[one, _header_text(value)] for one, value in (like.headers if like is not None else ())]
        return (
            kept | _as_text("value", made.encode() if isinstance(made, str) else made) | {"headers": headers}
        )
    raise UsageError(
        f"{name} returned {type(made).__name__}",
        detail=f"it was to encode a sentinel of {line['topic']!r}",
        hint="return a KafkaRecord, or the bytes or text of its value",
    )


def _as_text(name: str, data: bytes | None) -> Line:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}


def _header_text(data: bytes | None) -> Any:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def _lines(path: Path) -> Iterator[Line]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _write(path: Path, lines: Iterator[Line]) -> None:
    with path.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def _decoded(codec: Codec, trace: Path) -> Iterator[Line]:
    lines = _lines(trace)
    yield next(lines)
    for line in lines:
        yield codec.decode(line)


def _encoded(codec: Codec, events: Path, trace: Path) -> Iterator[Line]:
    like: dict[str, tuple[KafkaRecord, dict[str, Any]]] = {}
    lines = _lines(trace)
    next(lines)
    for line in lines:
        found = codec.typed(line)
        if found is not None:
            like[line["topic"]] = found
    lines = _lines(events)
    yield next(lines)
    for line in lines:
        yield codec.encode(line, like.get(line["topic"]))


@contextmanager
def _loaded(contract: Contract | Chain, args: argparse.Namespace) -> Iterator[Codec]:
    """The functions; where their file needs a session to be imported, with one for the length of the block."""
    encodes, session = args.what == "encode", None
    try:
        codec = Codec(contract, args.file, encodes=encodes)
    except TidemarkError as error:
        if args.remote is None or not came_from_spark(error.__cause__):
            raise
        session = SparkSession.builder.remote(with_token(args.remote)).create()
    try:
        yield codec if session is None else Codec(contract, args.file, encodes=encodes)
    finally:
        if session is not None:
            session.stop()


def main() -> int:
    """Parse the command line, decode or encode, return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.codec", description=__doc__)
    parser.add_argument("what", choices=("check", "decode", "encode"))
    parser.add_argument("contract", type=Path, help="the contract, in JSON")
    parser.add_argument("file", help="the file or the module with the functions")
    parser.add_argument("--path", action="append", default=[], help="a folder in which its modules are found")
    parser.add_argument(
        "--remote", help="a driver, for a file that needs a session: sc://HOST:PORT/;session_id=UUID"
    )
    parser.add_argument("files", nargs="*", type=Path, help="what is read, and last what is written")
    args = parser.parse_args()
    add_to_path(args.path)
    try:
        contract = read_contract(json.loads(args.contract.read_bytes()))
        with _loaded(contract, args) as codec:
            if args.what == "check":
                return 0
            *read, out = args.files
            _write(out, _decoded(codec, *read) if args.what == "decode" else _encoded(codec, *read))
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
