"""Reads the log of a query that somebody else started: all that its checkpoint still says of its batches.

Only files are read, and none is written; neither Spark nor Kafka is needed. ``checkpoint`` reads the checkpoint of a
query of tidemark's own, batch by batch while it runs; this reads a folder that may be trimmed, of another version of
Spark, or no checkpoint at all, and says so. Read are:

``metadata``        the id of the query;
``offsets/N``       batch N as it was planned. Line 1 is the version of the log. ``v1``, written by Spark 3.5 to 4.3: a
                    line of metadata (watermark, settings), then a line for each source in the order of the plan, ``-``
                    for a source without an offset. ``v2``, from 4.2 on, if asked for: the same, each source's line with
                    its name and a colon before the offset (``spark.sql.streaming.offsetLog.formatVersion``);
``commits/N``       batch N was committed. ``v1``, ``v2`` (with the ids of state files:
                    ``spark.sql.streaming.stateStore.checkpointFormatVersion``) and ``v3``, from 4.3 on (with the sinks:
                    ``spark.sql.streaming.queryEvolution.enableSinkEvolution``) have the watermark of the next batch;
``sources/S/0``     where a Kafka source began: the offsets that ``startingOffsets`` came to.

Source: ``OffsetSeqLog``, ``CommitLog`` and ``KafkaSourceInitialOffsetWriter`` of Spark. It keeps the last 100 batches
of ``offsets`` and ``commits`` (``spark.sql.streaming.minBatchesToRetain``) and deletes those before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tidemark.errors import UsageError
from tidemark.sparkfiles.checkpoint import (
    OFFSET_LOGS,
    Offsets,
    PlannedBatch,
    kafka_offsets,
    read_query_id,
    source_ends,
)

T = TypeVar("T")

COMMIT_LOGS = ("v1", "v2", "v3")
"""The versions of ``commits`` that are known."""
PARTS = ("metadata", "offsets", "commits")
"""What the checkpoint of a query has at least, once it has committed a batch."""
_TRIES = 5
"""Calibration: a query that runs deletes a batch of its log for each that it plans; one reading takes milliseconds."""


@dataclass(frozen=True)
class QueryLog:
    """What a checkpoint says. ``planned`` is in the order of batch ids and may begin anywhere.

    ``started`` has the offsets at which the sources began, of the topics that say so. ``next_watermarks_ms`` has for
    each batch whose commit is kept the watermark of the batch after it. ``conf`` are the settings that the query keeps
    over restarts, from the last planned batch.
    """

    query_id: str
    planned: list[PlannedBatch]
    committed: frozenset[int]
    started: Offsets = field(default_factory=dict)
    next_watermarks_ms: dict[int, int] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def topics(self) -> set[str]:
        """The Kafka topics that were read."""
        return {topic for batch in self.planned for topic in batch.end_offsets}

    @property
    def last_committed(self) -> int:
        """The last committed batch; -1: there is none."""
        return max(self.committed, default=-1)


def committed_batches(folder: Path) -> list[int]:
    """The batches whose commits are kept, in order: a listing, which a query that runs may have outrun.

    Raises ``UsageError`` if the folder cannot be listed.
    """
    with _readable(folder):
        return _ids(folder / "commits")


def read_query_log(folder: Path) -> QueryLog:
    """Read a checkpoint folder.

    Raises ``UsageError``: there is no such folder, it is no checkpoint, it may not be read, nothing was planned yet, or
    a file is of a version of the log that is not known, or is damaged.
    """
    with _readable(folder):
        _must_be_a_checkpoint(folder)
        for _ in range(_TRIES):
            try:
                return _read(folder)
            except FileNotFoundError:
                continue  # the query deleted a batch between the listing and the reading
    raise UsageError(
        f"the checkpoint {str(folder)!r} changes while it is read",
        detail=f"a file was gone {_TRIES} times between listing and reading",
        hint="copy the folder first, `metadata`, `offsets`, `commits` and `sources`, and audit the copy",
    )


def _read(folder: Path) -> QueryLog:
    planned: list[PlannedBatch] = []
    confs: dict[str, str] = {}
    for number in _ids(folder / "offsets"):
        batch, confs = _parsed(folder / "offsets" / str(number), lambda lines: _batch(number, lines))  # noqa: B023
        planned.append(batch)
    if not planned:
        raise UsageError(
            f"the checkpoint {str(folder)!r} has no planned batch",
            detail="its folder `offsets` is empty",
            hint="audit the query once it has committed a batch",
        )
    commits = {
        number: _parsed(folder / "commits" / str(number), _next_watermark_ms)
        for number in _ids(folder / "commits")
    }
    # A batch is planned only once the one before it is committed, so a commit that was trimmed is known all the same.
    oldest = min(commits, default=None)
    earlier = [batch.batch for batch in planned if oldest is not None and batch.batch < oldest]
    return QueryLog(
        query_id=_parsed_whole(folder / "metadata", read_query_id),
        planned=planned,
        committed=frozenset([*commits, *earlier]),
        started=_started(folder / "sources"),
        next_watermarks_ms=commits,
        conf=confs,
    )


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Say that a folder cannot be listed, and why."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"the checkpoint {str(folder)!r} cannot be read",
            detail=str(error),
            hint="audit as a user who may read it, or copy `metadata`, `offsets`, `commits` and `sources`",
        ) from error


def _must_be_a_checkpoint(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(
            f"there is no checkpoint {str(folder)!r}",
            detail="it is a file" if folder.exists() else "there is no such folder",
            hint="name the folder that the query has as its `checkpointLocation`; one on a remote file system must be"
            " mounted or copied first",
        )
    if lacks := [part for part in PARTS if not (folder / part).exists()]:
        raise UsageError(
            f"{str(folder)!r} is no checkpoint of a query that has committed a batch",
            detail=f"it lacks {', '.join(lacks)}; it has {', '.join(_names(folder)) or 'nothing'}",
            hint="name the folder that the query has as its `checkpointLocation`",
        )


def _names(folder: Path, most: int = 6) -> list[str]:
    found = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return [*found[:most], *(["…"] if len(found) > most else [])]


def _batch(number: int, lines: list[str]) -> tuple[PlannedBatch, dict[str, str]]:
    """A planned batch, and the settings that it was planned with."""
    version = _known_version(lines, OFFSET_LOGS)
    metadata = json.loads(lines[1])
    offsets: Offsets = {}
    for source in source_ends(version, lines[2:]):
        for topic, ends in source.items():
            if offsets.setdefault(topic, ends) != ends:
                raise ValueError(f"two sources read the topic {topic!r}, up to different offsets")
    conf = metadata.get("conf") or {}
    watermark_ms = int(metadata["batchWatermarkMs"])
    return PlannedBatch(number, watermark_ms, offsets), {name: str(value) for name, value in conf.items()}


def _next_watermark_ms(lines: list[str]) -> int:
    _known_version(lines, COMMIT_LOGS)
    return int(json.loads(lines[1])["nextBatchWatermarkMs"])


def _known_version(lines: list[str], known: Iterable[str]) -> str:
    version = lines[0].strip() if lines else ""
    if version not in known:
        raise ValueError(f"its first line is {version[:20]!r}; the versions known are {', '.join(known)}")
    return version


def _started(sources: Path) -> Offsets:
    """Where the Kafka sources began. The file begins with a NUL, which Spark 2.1 wanted there."""
    started: Offsets = {}
    for path in sorted(sources.glob("*/0")) if sources.is_dir() else ():
        for topic, offsets in _parsed(path, _first_offsets).items():
            known = started.setdefault(topic, dict(offsets))
            known.update(
                {partition: min(start, known.get(partition, start)) for partition, start in offsets.items()}
            )
    return started


def _first_offsets(lines: list[str]) -> Offsets:
    if not lines or lines[0].strip("\0 ") != "v1":
        return {}  # a source of another kind keeps something else there
    return kafka_offsets(lines[1]) if len(lines) > 1 else {}


def _parsed(path: Path, parse: Callable[[list[str]], T]) -> T:
    return _parsed_whole(path, lambda text: parse(text.splitlines()))


def _parsed_whole(path: Path, parse: Callable[[str], T]) -> T:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{str(path)!r} cannot be read as a file of a checkpoint",
            detail=f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error),
            hint="checkpoints of Spark 3.5 to 4.3 are read; a file that was cut must be restored",
        ) from error


def _ids(folder: Path) -> list[int]:
    return sorted(_numbered(folder)) if folder.is_dir() else []


def _numbered(folder: Path) -> Iterator[int]:
    for path in folder.iterdir():
        if path.name.isascii() and path.name.isdigit():
            yield int(path.name)
