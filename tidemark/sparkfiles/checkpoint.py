"""Reads the checkpoint of a streaming query: which batches Spark planned, and which it committed.

Only files are read; neither Spark nor Kafka is needed. ``offsets/N`` is written before batch N runs: a version line, a
line of metadata, and a line per source, ``-`` for one without an offset: in plan order (``v1``), or each with the
source's name and a colon before the offset (``v2``). ``commits/N`` is written when the batch's sink has finished: it
has the watermark of the next batch. Source: ``OffsetSeqLog`` and ``CommitLog`` of Spark 4.2. A query may delete old
batches of both, so the ids are in order and may begin anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tidemark.errors import UsageError

Offsets = dict[str, dict[str, int]]
"""Kafka topic -> partition -> offset."""

OFFSET_LOGS = ("v1", "v2")
"""The versions of ``offsets`` that are known."""
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
STATE_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
"""Settings that the metadata of ``offsets/N`` has; a query goes on with them, whatever its session says."""
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
"""One that it has not."""


def read_query_id(metadata: str) -> str:
    """The id of the query that a checkpoint belongs to, from its file ``metadata``; a restart does not change it.

    Raises:
        ValueError, KeyError, TypeError: the text is incomplete, or has another format.
    """
    return str(json.loads(metadata)["id"])


def source_ends(version: str, lines: Iterable[str]) -> Iterator[Offsets]:
    """Where each source of a planned batch ends (exclusive), from the lines after the metadata of ``offsets/N``.

    ``version`` is one of :data:`OFFSET_LOGS`. Raises ``ValueError`` for a line that was cut.
    """
    for line in lines:
        yield kafka_offsets(line if version == "v1" else line.partition(":")[2])


def kafka_offsets(text: str) -> Offsets:
    """The offsets of a Kafka source; nothing for a source of another kind, or one without an offset."""
    text = text.strip()
    if not text.startswith("{"):
        return {}
    offsets = json.loads(text)
    is_kafka = all(
        isinstance(ends, dict) and all(type(end) is int for end in ends.values()) for ends in offsets.values()
    )
    return offsets if is_kafka else {}


class PlannedBatch(NamedTuple):
    """``offsets/N``: eviction watermark in ms, and Kafka topic -> partition -> end offset (exclusive)."""

    batch: int
    watermark_ms: int
    end_offsets: Offsets

    def has_read(self, wanted: Mapping[str, Mapping[int, int]] | Mapping[str, Mapping[str, int]]) -> bool:
        """Whether the batch ends at or after these offsets: topic -> partition -> end."""
        return all(
            self.end_offsets.get(topic, {}).get(str(partition), 0) >= end
            for topic, partitions in wanted.items()
            for partition, end in partitions.items()
        )


class Checkpoint:
    """The checkpoint folder of a query that runs or has run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def query_id(self) -> str:
        """The query's id; a restart does not change it. Raises ``OSError`` while there is none."""
        return read_query_id((self.path / "metadata").read_text(encoding="utf-8"))

    def planned(self) -> list[int]:
        """Ids of the planned batches, in order."""
        return _ids(self.path / "offsets")

    def committed(self) -> list[int]:
        """Ids of the committed batches, in order."""
        return _ids(self.path / "commits")

    def planned_at(self, batch: int) -> datetime:
        """When a batch was planned (the file's modification time), also if it ran again later. Raises ``OSError``."""
        return datetime.fromtimestamp((self.path / "offsets" / str(batch)).stat().st_mtime, UTC)

    def committed_at(self, batch: int) -> datetime:
        """When a batch was committed (the file's modification time). Raises ``OSError`` if it is not committed."""
        return datetime.fromtimestamp((self.path / "commits" / str(batch)).stat().st_mtime, UTC)

    def next_batch(self) -> int:
        """The batch after the last committed one: a query that is started now begins with it."""
        return (self.committed() or [-1])[-1] + 1

    def next_planned(self) -> int:
        """The batch after the last planned one: the next that is planned."""
        return (self.planned() or [-1])[-1] + 1

    def running(self) -> int | None:
        """The batch that is planned and not yet committed, if there is one."""
        planned = self.planned()
        if not planned or (self.path / "commits" / str(planned[-1])).exists():
            return None
        return planned[-1]

    def batch(self, batch: int) -> PlannedBatch:
        """The plan of one batch: watermark and end offsets.

        Raises:
            OSError, ValueError: there is no such file any more, or it is incomplete.
            UsageError: it is of a version of the log that is not known.
        """
        path = self.path / "offsets" / str(batch)
        version, metadata, *sources = path.read_text().splitlines()
        if version.strip() not in OFFSET_LOGS:
            raise UsageError(
                f"{str(path)!r} cannot be read as a file of a checkpoint",
                detail=f"its first line is {version[:20]!r}; the versions known are {', '.join(OFFSET_LOGS)}",
                hint="checkpoints of Spark 3.5 to 4.3 are read",
            )
        offsets: Offsets = {}
        for ends in source_ends(version.strip(), sources):
            offsets.update(ends)
        return PlannedBatch(batch, int(json.loads(metadata)["batchWatermarkMs"]), offsets)

    def partitions(self, batch: int) -> int:
        """The number of shuffle partitions of a batch; a stateful query never changes it."""
        metadata = json.loads((self.path / "offsets" / str(batch)).read_text().splitlines()[1])
        return int(metadata["conf"]["spark.sql.shuffle.partitions"])

    def conf(self) -> dict[str, str]:
        """The settings that the query keeps over restarts, from the last planned batch that can be read; else empty."""
        for batch in reversed(self.planned()):
            try:
                conf = json.loads((self.path / "offsets" / str(batch)).read_text().splitlines()[1])["conf"]
            except (OSError, ValueError, LookupError, TypeError):
                continue  # it is incomplete, or was deleted since
            if isinstance(conf, dict):
                return {name: str(value) for name, value in conf.items()}
        return {}

    def has_changelogs(self) -> bool:
        """Whether a state store wrote changelog files; no setting in the checkpoint says so."""
        return any((self.path / "state").rglob("*.changelog"))

    def next_watermark_ms(self, batch: int) -> int:
        """The watermark of the batch after a committed one."""
        _version, body = (self.path / "commits" / str(batch)).read_text().splitlines()[:2]
        return int(json.loads(body)["nextBatchWatermarkMs"])


def _ids(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())
