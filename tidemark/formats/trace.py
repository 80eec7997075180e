"""The trace: every input record of a run, in the order in which it was produced.

Free of Kafka and Spark. A JSON Lines file, plain or compressed (``.zst``), simple enough to be read and written by
hand; a large one may be Parquet (``tidemark convert --to parquet``; ``tidemark.formats.evidence`` has the columns). The
first line is the header, each further line a record. A *slice* is a group of records that is published in one go: at
the pace ``stepped`` it becomes one batch::

    {"tidemark_trace": 2, "pace": "stepped", "topics": {"impressions": {}, "clicks": {}}, "slices": 2}
    {"topic": "impressions", "value": "{\\"impression_id\\": \\"i1\\", ...}", "arrival_ms": 1767225600000}
    {"topic": "clicks", "value": "{\\"click_id\\": \\"c1\\", ...}", "arrival_ms": 1767225601000, "slice": 1}

Header:

``tidemark_trace``   the version of the format, 2.
``pace``    ``stepped``: the next slice is published once the query has processed the one before. ``backlog``: the
            whole trace is published before the query starts, and each batch reads about as many records as a slice has.
            ``timed``: each record is published at its ``arrival_ms``.
``topics``  logical name -> ``{"partitions": N}``; 1 if it is left out.
``slices``  number of slices (at least 1).
``seed``, ``generator``   optional: how the trace was made.
``counts``  optional: how many records of each sort it has; shown in the report.
``goals``   optional: the coverage goals that a run of this trace has to meet ("Reading a verdict" has a
            table of them).
``waived``  optional: the coverage goals that a run of this trace need not meet. A short trace written by hand cannot
            exercise everything that a contract implies.
``compacted``   optional: the topics that Kafka compacts; only for the pace ``backlog``. Each record there needs a key.

Record (``topic`` and ``arrival_ms`` are required):

``value``, ``key``   text, or ``null`` (a record without a value is a tombstone); ``value_base64``, ``key_base64`` for
                     bytes that are not valid UTF-8.
``partition``        the partition; default 0.
``headers``          list of ``[name, value]``; a value is text, ``null``, or ``{"base64": "/w=="}`` for bytes
                     that are not valid UTF-8.
``timestamp_ms``     Kafka's record timestamp; default ``arrival_ms``.
``event_ms``         event time, for people and charts; the oracle reads it from the value instead.
``slice``            default 0; never less than that of the record before.
``transaction``      a number, which rises: the producer sends the record in this transaction. Its records are in one
                     slice, and are followed by a control record for each partition that they are in. No other
                     transaction begins before.
``absent``           why a reader of committed records finds no record at this offset (below). ``value`` is ``null``.
``sent``             the value that a rolled back record was sent with.

Each offset of a partition has a line, also one without a record. ``absent`` is one of these:

``aborted``          a record of a transaction that is rolled back: it has an offset, and only a reader at
                     ``read_uncommitted`` gets it;
``commit``, ``abort``   the control record that ends a transaction in this partition;
``compacted``        a record that compaction has removed before the query starts: an earlier version, with the key of a
                     later record of its partition. That record lies in a slice before the last one that has records of
                     the partition, since Kafka does not compact the end of a partition;
``gap``              nothing says why: in evidence of an audit, or evidence that was made smaller. A run that publishes
                     such a trace has a record without a value there.

A record that was compacted, one that is rolled back, and the control record behind it; then one of a transaction that
is committed, and its control record::

    {"topic": "clicks", "arrival_ms": 1767225600000, "key": "c-1", "absent": "compacted"}
    {"topic": "clicks", "arrival_ms": 1767225601000, "transaction": 1, "absent": "aborted", "sent": "{...}"}
    {"topic": "clicks", "arrival_ms": 1767225601000, "transaction": 1, "absent": "abort"}
    {"topic": "clicks", "arrival_ms": 1767225602000, "transaction": 2, "value": "{...}"}
    {"topic": "clicks", "arrival_ms": 1767225602000, "transaction": 2, "absent": "commit"}

The digest of a trace is the SHA-256 of its uncompressed bytes; that of a Parquet file is the digest of the JSON Lines
file that says the same. The offset of a record is its index among the
trace's records of the same topic and partition, plus the partition's end offset before publishing.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
import zstandard

from tidemark.errors import BrokenTrace, UsageError
from tidemark.formats.absent_records import TransactionCheck
from tidemark.formats.jsonlines import line_number, open_lines, read_blocks, write_lines
from tidemark.formats.record_files import (
    DIGEST_KEY,
    HEADER_KEY,
    BrokenParquet,
    is_parquet,
    lines_digest,
    parquet_metadata,
    read_parquet,
)

Pace = Literal["stepped", "backlog", "timed"]
PACES: tuple[Pace, ...] = ("stepped", "backlog", "timed")
Absent = Literal["aborted", "commit", "abort", "compacted", "gap"]
FORMAT = 2
MOST_PARTITIONS = 100_000
"""More than a Kafka cluster has of a topic: a number that is larger is a mistake."""


class TopicSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The layout of a logical topic: its number of partitions."""

    partitions: int = 1


class _Version(msgspec.Struct):
    tidemark_trace: int


class Header(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The first line of a trace."""

    tidemark_trace: int
    pace: Pace
    topics: dict[str, TopicSpec]
    slices: int = 1
    seed: int | None = None
    generator: str | None = None
    counts: dict[str, int] = {}
    goals: list[str] = []
    waived: list[str] = []
    compacted: list[str] = []


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Bytes that are not valid UTF-8, in JSON as ``{"base64": "/w=="}``."""

    base64: bytes


HeaderValue = str | Base64 | None


class Record(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One input record."""

    topic: str
    value: str | None = None
    arrival_ms: int
    partition: int = 0
    key: str | None = None
    headers: list[tuple[str, HeaderValue]] = []
    timestamp_ms: int | None = None
    event_ms: int | None = None
    slice: int = 0
    value_base64: str | None = None
    key_base64: str | None = None
    transaction: int | None = None
    absent: Absent | None = None
    sent: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is a record that every reader gets, sent in no transaction."""
        return self.transaction is None and self.absent is None

    @property
    def is_absent(self) -> bool:
        """Whether a reader of committed records finds none at its offset."""
        return self.absent is not None

    def value_bytes(self) -> bytes | None:
        """The value as Kafka stores it; ``None`` is a tombstone, or no record (``absent``)."""
        return _bytes(self.value, self.value_base64)

    def text_or_bytes(self) -> str | bytes | None:
        """The value as text where it is stored as that, else as Kafka stores it."""
        return self.value if self.value is not None else self.value_bytes()

    def key_bytes(self) -> bytes | None:
        """The key as Kafka stores it."""
        return _bytes(self.key, self.key_base64)

    def header_values(self) -> list[tuple[str, str | bytes | None]]:
        """The headers as Kafka's client takes them."""
        return [(name, value.base64 if isinstance(value, Base64) else value) for name, value in self.headers]


def header_value(data: bytes | str | None) -> HeaderValue:
    """A header's value as traces and output records store it, without loss."""
    if not isinstance(data, bytes):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Base64(data)


_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(Header)
_record_decoder = msgspec.json.Decoder(Record)


class TraceReader:
    """An open trace: ``header`` is read when it is opened, iterating yields the records. A context manager.

    Raises ``BrokenTrace`` with file name, line number and reason for a line that cannot be read, and for a compressed
    file or a Parquet file that is damaged or ends too early.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise UsageError(
                f"there is no trace {str(path)!r}",
                hint="`tidemark producers generate --out FILE` generates one",
            )
        self._file = None if is_parquet(path) else open_lines(path)
        try:
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> TraceReader:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _blocks(self) -> Iterator[list[Record]]:
        return (
            read_parquet(self.path, Record)
            if self._file is None
            else read_blocks(self._file, _record_decoder)
        )

    def __iter__(self) -> Iterator[Record]:
        partitions = {name: spec.partitions for name, spec in self.header.topics.items()}
        last_slice, number = 0, 0  # number: records read so far
        checked = TransactionCheck(self.header.compacted)
        is_plain = not self.header.compacted
        try:
            for records in self._blocks():
                for record in records:
                    number += 1
                    if not 0 <= record.partition < partitions.get(record.topic, 0):
                        place = f"topic {record.topic!r} partition {record.partition}"
                        raise ValueError(f"{place} is not in the header's topics")
                    if record.slice != last_slice:
                        self._check_slice(record.slice, last_slice)
                        last_slice = record.slice
                    if not is_plain or record.transaction is not None or record.absent is not None:
                        is_plain = False
                        checked.see(record)
                    yield record
            checked.end()
        except (zstandard.ZstdError, BrokenParquet) as error:
            raise _damaged(self.path, error) from error
        except msgspec.DecodeError as error:
            # The broken item follows the last one that was yielded; the header is item 1.
            raise self._broken(f"line {line_number(self.path, number + 2)}", error) from error
        except ValueError as error:
            is_line = self._file is not None
            place = f"line {line_number(self.path, number + 1)}" if is_line else f"record {number}"
            raise self._broken(place, error) from error

    def _check_slice(self, number: int, last: int) -> None:
        if not last <= number < self.header.slices:
            raise ValueError(f"slice {number} after slice {last}, of {self.header.slices} slices")

    def _read_header(self) -> Header:
        try:
            line = _parquet_header(self.path) if self._file is None else self._file.readline()
            version = msgspec.json.decode(line, type=_Version).tidemark_trace
            if version < FORMAT:
                raise BrokenTrace(
                    f"{str(self.path)!r} has format version {version}",
                    detail=f"this version of tidemark reads format version {FORMAT}",
                    hint=f"tidemark convert {shlex.quote(str(self.path))}",
                )
            if version != FORMAT:
                raise ValueError(f"format {version}; this version reads format {FORMAT}")
            header = _header_decoder.decode(line)
            if header.slices < 1 or not header.topics:
                raise ValueError("a trace has at least one slice and one topic")
            if strange := set(header.compacted) - set(header.topics):
                raise ValueError(f"the topic {min(strange)!r}, which is compacted, is none of its topics")
            for name, spec in header.topics.items():
                if not 1 <= spec.partitions <= MOST_PARTITIONS:
                    raise ValueError(
                        f"topic {name!r} has {spec.partitions} partitions: 1 to {MOST_PARTITIONS:,} may be"
                    )
        except (zstandard.ZstdError, BrokenParquet) as error:
            raise _damaged(self.path, error) from error
        except (msgspec.DecodeError, ValueError) as error:
            raise self._broken(self._header_place, error) from error
        except RecursionError as error:
            raise self._broken(self._header_place, ValueError("it is nested too deeply")) from error
        return header

    @property
    def _header_place(self) -> str:
        return "the header" if self._file is None else "line 1"

    def _broken(self, place: str, error: Exception) -> BrokenTrace:
        noun = place.split()[1 if place.startswith("the ") else 0]
        return BrokenTrace(
            f"{place} of {str(self.path)!r} is not a valid {noun} of a trace",
            detail=str(error),
            hint="the docstring of tidemark/formats/trace.py describes the format",
        )


def write_trace(path: Path, header: Header, records: Iterable[Record]) -> str:
    """Write a trace, completely or not at all, and return its SHA-256 (hexadecimal)."""
    must_be_json_lines(path)
    return write_lines(path, (_encoder.encode(item) for item in _chain(header, records)))


def must_be_json_lines(path: Path) -> None:
    """Raise ``UsageError`` if what is written to a path would not be what its name says."""
    if is_parquet(path):
        raise UsageError(
            f"{str(path)!r} is the name of a Parquet file",
            detail="a new trace is written as JSON Lines",
            hint="write FILE.jsonl, and then: tidemark convert FILE.jsonl --to parquet",
        )


def trace_sha256(path: Path) -> str:
    """The digest of a trace's uncompressed bytes (hexadecimal); raises ``BrokenTrace`` if they cannot be read.

    For a Parquet file it is the one that the file names: the digest of the JSON Lines file that says the same. Only if
    it names none it is made of the records.
    """
    digest = hashlib.sha256()
    try:
        if is_parquet(path):
            return parquet_metadata(path, Record).get(DIGEST_KEY) or lines_digest(path, Record)
        with open_lines(path) as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except (zstandard.ZstdError, BrokenParquet) as error:
        raise _damaged(path, error) from error
    return digest.hexdigest()


def digest_problem(path: Path, said: str | None, said_of_file: str | None = None) -> str:
    """How a trace differs from the digests that are said of it, or nothing; raises ``BrokenTrace`` and ``OSError``.

    ``said_of_file`` is the digest of the Parquet file itself. With it, the records need not be written as JSON again to
    see that they are the same.
    """
    if is_parquet(path) and said_of_file is not None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if said_of_file != digest:
            return f"the file's SHA-256 is {digest[:12]}…; the manifest says {said_of_file[:12]!r}…"
    if said is None:
        return ""
    if is_parquet(path) and said_of_file is None:
        try:
            digest = lines_digest(path, Record)
        except BrokenParquet as error:
            raise _damaged(path, error) from error
    else:
        digest = trace_sha256(path)
    return "" if said == digest else f"its SHA-256 is {digest[:12]}…; the manifest says {said[:12]!r}…"


def _parquet_header(path: Path) -> bytes:
    metadata = parquet_metadata(path, Record)
    if HEADER_KEY not in metadata:
        raise BrokenParquet(f"its metadata has no {HEADER_KEY}, the header of a trace")
    return metadata[HEADER_KEY].encode()


def _damaged(path: Path, error: zstandard.ZstdError | BrokenParquet) -> BrokenTrace:
    return BrokenTrace(
        f"trace {str(path)!r} cannot be {'read' if is_parquet(path) else 'decompressed'}",
        detail=str(error),
        hint="copy or generate it again",
    )


def _chain(header: Header, records: Iterable[Record]) -> Iterator[Header | Record]:
    yield header
    yield from records


def _bytes(text: str | None, encoded: str | None) -> bytes | None:
    if text is not None:
        return text.encode()
    return base64.b64decode(encoded) if encoded is not None else None
