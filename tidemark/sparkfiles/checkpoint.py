"""Reading the checkpoint of a streaming query: what Spark planned and what it committed.

Free of Spark and Kafka; only reads files. ``offsets/N`` (written before batch N runs) holds a version line, a line
of metadata, and a line per source in plan order; ``commits/N`` (written after its sink finished) holds the watermark
of the next batch. Source: ``OffsetSeqLog`` and ``CommitLog`` of Spark 4.2.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple


def read_query_id(folder: str) -> str:
    """The id of the query that a checkpoint belongs to, which it keeps over its runs.

    Raises:
        OSError: there is none, or not yet.
        ValueError, KeyError, TypeError: the file is not whole, or of another form.
    """
    with open(os.path.join(folder, "metadata"), encoding="utf-8") as file:
        return str(json.load(file)["id"])


class PlannedBatch(NamedTuple):
    """``offsets/N``: eviction watermark in ms, and Kafka topic -> partition -> end offset (exclusive)."""

    batch: int
    watermark_ms: int
    end_offsets: dict[str, dict[str, int]]

    def has_read(self, wanted: Mapping[str, Mapping[int, int]] | Mapping[str, Mapping[str, int]]) -> bool:
        """Whether it ends at or after these offsets: topic -> partition -> end."""
        return all(
            self.end_offsets.get(topic, {}).get(str(partition), 0) >= end
            for topic, partitions in wanted.items()
            for partition, end in partitions.items()
        )


class Checkpoint:
    """A checkpoint folder that a query is, or was, writing to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def query_id(self) -> str:
        """The query's id, which it keeps over its runs. Raises ``OSError`` while there is none."""
        return read_query_id(str(self.path))

    def planned(self) -> list[int]:
        """Ids of the batches that were planned, in order."""
        return _ids(self.path / "offsets")

    def committed(self) -> list[int]:
        """Ids of the batches that were committed, in order."""
        return _ids(self.path / "commits")

    def committed_at(self, batch: int) -> datetime:
        """When a batch was committed, by the machine's clock. Raises ``OSError`` if it is not."""
        return datetime.fromtimestamp((self.path / "commits" / str(batch)).stat().st_mtime, UTC)

    def next_batch(self) -> int:
        """The batch after the last committed one: with it a query that is started now begins."""
        return (self.committed() or [-1])[-1] + 1

    def running(self) -> int | None:
        """The batch that is planned and not committed, if there is one."""
        planned = self.planned()
        if not planned or (self.path / "commits" / str(planned[-1])).exists():
            return None
        return planned[-1]

    def batch(self, batch: int) -> PlannedBatch:
        """What was planned for one batch."""
        _version, metadata, *sources = (self.path / "offsets" / str(batch)).read_text().splitlines()
        offsets: dict[str, dict[str, int]] = {}
        for line in sources:
            if line.startswith("{"):
                offsets.update(json.loads(line))
        return PlannedBatch(batch, int(json.loads(metadata)["batchWatermarkMs"]), offsets)

    def partitions(self, batch: int) -> int:
        """How many shuffle partitions a batch was planned with, which a stateful query keeps."""
        metadata = json.loads((self.path / "offsets" / str(batch)).read_text().splitlines()[1])
        return int(metadata["conf"]["spark.sql.shuffle.partitions"])

    def conf(self) -> dict[str, str]:
        """The settings that the query keeps over all of its runs (``offsets/0``); empty if they are not to be had."""
        try:
            conf = json.loads((self.path / "offsets" / "0").read_text().splitlines()[1])["conf"]
        except (OSError, ValueError, LookupError, TypeError):
            return {}
        return {name: str(value) for name, value in conf.items()} if isinstance(conf, dict) else {}

    def has_changelogs(self) -> bool:
        """Whether a state store wrote changelog files, which no setting in the checkpoint tells."""
        return any((self.path / "state").rglob("*.changelog"))

    def next_watermark_ms(self, batch: int) -> int:
        """The watermark that a committed batch left for the next one."""
        _version, body = (self.path / "commits" / str(batch)).read_text().splitlines()[:2]
        return int(json.loads(body)["nextBatchWatermarkMs"])


def _ids(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())
